package upstream

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"syscall"
	"time"
)

// How long upstreams rest that failed. A wrong password does not mend itself,
// nor does a listener of our own become another's.
const (
	restBase  = 5 * time.Second
	restAuth  = time.Minute
	restOwn   = 10 * time.Minute
	restLimit = 10 * time.Minute
)

const (
	// maxSuspicion is how many failures in a row that may be the targets' are
	// taken for the upstream's.
	maxSuspicion = 3
	// suspectTime is how long a target is remembered that failed.
	suspectTime = time.Minute
	maxSuspects = 1024
	// probeTime bounds a connection that is opened to learn whether an
	// upstream is still there.
	probeTime = 3 * time.Second
)

// suspect is a target that failed through an upstream: if it does through
// another too, it is the target's fault.
type suspect struct {
	through Upstream
	at      time.Duration
}

// Failed says that a request to host failed, with what error. It reports
// whether that is the upstream's fault, which rests then: in a pool that is not
// strict, the owner's next lease is on another.
func (l *Lease) Failed(ctx context.Context, host string, err error) bool {
	p, x := l.pool, l.exit
	var f *Error
	if !errors.As(err, &f) {
		reason, broke := broken(err)
		if !broke {
			return false // the target's own
		}
		f = &Error{Reason: reason, Upstream: x.Upstream(), asked: true}
	}
	if errors.Is(f.err, errClosed) || ctx.Err() != nil {
		return false
	}
	if f.Reason == Closed && f.asked {
		// As when the upstream is killed.
		c, cancel := context.WithTimeout(ctx, probeTime)
		conn, err := x.Open(c)
		cancel()
		if err == nil {
			conn.Close()
		} else {
			errors.As(err, &f)
		}
	}
	p.shared.Failed(p.name, f.Reason)
	if !f.certain() && !p.suspicious(x, host) {
		return false
	}
	r := Rest{Reason: f.Reason, Base: restBase, Limit: restLimit}
	switch f.Reason {
	case Auth:
		r.Base = restAuth
	case Own:
		r.Base = restOwn
	}
	p.rest(ctx, x, r, f)
	return true
}

// broken says whether an error of a connection that reached its target may be
// the upstream's, and for what reason. Others are the target's.
func broken(err error) (Reason, bool) {
	var netErr net.Error
	switch {
	case errors.As(err, &netErr) && netErr.Timeout():
		return Timeout, true
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return Closed, true
	}
	return "", false
}

// suspicious counts a failure that may be the target's, and says whether the
// upstream is taken to be at fault.
func (p *Pool) suspicious(x *Exit, host string) bool {
	at := now()
	p.mu.Lock()
	s, known := p.suspects[host]
	known = known && at-s.at < suspectTime
	if !known {
		if len(p.suspects) >= maxSuspects {
			clear(p.suspects)
		}
		p.suspects[host] = suspect{x.Upstream(), at}
	}
	p.mu.Unlock()
	if known && s.through != x.Upstream() {
		return false
	}
	return x.suspicion.Add(1) >= maxSuspicion
}

// rest has an upstream rest, for this process at once.
func (p *Pool) rest(ctx context.Context, x *Exit, r Rest, cause error) {
	x.suspicion.Store(0)
	x.refusals.Store(0)
	x.rest(r.Base)
	x.failures.Add(1)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askTime)
	defer cancel()
	d, err := p.ledger.Rest(ctx, p.name, x.Upstream().URL(), r)
	if err != nil {
		p.log.Warn("tell of an upstream's failure", "upstream", x.Upstream(), "err", err)
		return
	}
	x.rest(d)
	p.log.Warn("an upstream rests", "upstream", x.Upstream(), "id", x.Upstream().ID(), "reason", string(r.Reason), "for", d.Round(time.Millisecond), "err", cause)
}

// Answered says that a target answered through the lease. status is that of a
// declared site's response, which the pool's ban may name; else 0.
func (l *Lease) Answered(status int) {
	p, x := l.pool, l.exit
	if x.suspicion.Load() != 0 {
		x.suspicion.Store(0)
	}
	if b := &p.conf.Load().Ban; status != 0 && len(b.Status) > 0 {
		if !slices.Contains(b.Status, status) {
			x.refusals.Store(0)
		} else if n := x.refusals.Add(1); int(n) >= b.After && x.refusals.CompareAndSwap(n, 0) {
			p.shared.Failed(p.name, Banned)
			p.inBackground(func(ctx context.Context) {
				p.rest(ctx, x, Rest{Reason: Banned, Base: b.For, Limit: b.For}, nil)
			})
			return
		}
	}
	if x.failures.Load() != 0 && x.resting(now()) <= 0 && x.failures.Swap(0) != 0 {
		p.inBackground(func(ctx context.Context) { p.recover(ctx, x.Upstream()) })
	}
}

// recover tells the ledger that an upstream is well.
func (p *Pool) recover(ctx context.Context, u Upstream) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := p.ledger.Recover(ctx, p.name, u.URL()); err != nil {
		p.log.Warn("tell that an upstream is well again", "upstream", u, "err", err)
	}
}

// inBackground runs what no request waits for. The pool waits for it.
func (p *Pool) inBackground(f func(context.Context)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.running.Go(func() { f(p.ctx) })
	}
}

// Unauthorized says that the answer to a plain request that host was to get was
// a 407. A host may send one, too, so it is only a suspicion. It returns what
// to tell the client.
func (l *Lease) Unauthorized(ctx context.Context, host string) *Error {
	err := l.exit.Unauthorized()
	l.Failed(ctx, host, err)
	return err
}

// Unauthorized is the error of a plain request that was answered with a 407.
func (x *Exit) Unauthorized() *Error {
	u := x.Upstream()
	return &Error{Reason: Auth, Upstream: u, Status: http.StatusProxyAuthRequired, err: u.badCredentials(), asked: true}
}
