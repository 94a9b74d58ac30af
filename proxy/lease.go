package proxy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/http1"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// route is how the traffic of a site, or of all undeclared hosts, leaves.
type route struct {
	pool     *upstream.Pool // nil: directly
	affinity config.Affinity
}

// route returns how requests to s leave; nil is a host that no site declares.
func (r *rules) route(s *site) route {
	if s == nil {
		return route{r.pool, config.ByWorker}
	}
	return route{s.pool, s.Affinity}
}

// owner says whose lease a request leaves by. Without a session there is the
// worker alone.
func (ro route) owner(id *identity, s *site) upstream.Owner {
	switch {
	case ro.affinity == config.ByClient:
		return upstream.Client(id.name)
	case ro.affinity == config.BySession && id.session != session.NoneID:
		return sessionOwner(session.Key{Site: s.Key, ID: id.session})
	}
	return upstream.Worker(id.name, id.worker)
}

// sessionOwner owns what all who use a session share.
func sessionOwner(key session.Key) upstream.Owner {
	if key.ID == session.DefaultID {
		key.ID = ""
	}
	return upstream.Session(key.Site, key.ID)
}

// take returns the lease that a request leaves by; nil where it leaves directly.
func (ro route) take(ctx context.Context, id *identity, s *site, patience *upstream.Patience) (*upstream.Lease, *refusal) {
	if ro.pool == nil {
		return nil, nil
	}
	l, err := ro.pool.Lease(ctx, ro.owner(id, s), patience)
	if err != nil {
		return nil, noLease(ctx, ro.pool.Name(), err)
	}
	return l, nil
}

// lease takes the lease that this try leaves by. before is why the last try
// failed; nil at the first.
func (x *exchange) lease(before error) (ref *refusal) {
	x.release()
	ro := x.rules.route(x.site)
	if ro.pool != nil {
		defer lap(&x.spent.Lease, time.Now())
	}
	x.leased, ref = ro.take(x, x.id, x.site, &x.patience)
	if x.leased == nil {
		var f *upstream.Error
		if ref != nil && errors.As(before, &f) && f.Reason == upstream.Auth {
			return upstreamFailed(x.target.host, f) // it is to be mended, by whoever reads this
		}
		return ref
	}
	x.exit = x.leased.Exit()
	if err := x.p.egressName(x.rules, x.rules.origin(x.site), x.target); err != nil {
		return x.failure(dialError{err})
	}
	return nil
}

// release ends the use of the lease.
func (x *exchange) release() {
	if x.leased != nil {
		x.leased.Done()
		x.leased = nil
	}
}

// moves says whether a request that got no answer is sent again, on another
// lease: where its upstream is at fault, and it does no harm twice.
func (x *exchange) moves(err error) bool {
	var upload uploadError
	if x.leased == nil || errors.As(err, &upload) {
		return false
	}
	if errors.Is(err, http1.ErrHeadTimeout) {
		err = os.ErrDeadlineExceeded
	}
	return x.leased.Failed(x, x.target.host, err) && x.upload == nil && idempotent(x.method) && !x.relay.begun()
}

// idempotent: RFC 9110 section 9.2.2.
func idempotent(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// answered notes an answer for the health of the upstream. It returns a refusal
// where it is the upstream's own, and no client is to see it.
func (x *exchange) answered(status int) *refusal {
	if x.leased == nil {
		return nil
	}
	if status == http.StatusProxyAuthRequired && x.forwarded {
		err := x.leased.Unauthorized(x, x.target.host)
		return upstreamFailed(x.target.host, err)
	}
	if x.site == nil {
		status = 0 // nobody has declared what its answers mean
	}
	x.leased.Answered(status)
	return nil
}

// open connects to a target for a blind tunnel. With the lease it is in use
// until the lease's Done.
func (p *Proxy) open(ctx context.Context, r *rules, id *identity, s *site, t target) (net.Conn, *upstream.Lease, *refusal) {
	o := r.origin(s)
	ro := r.route(s)
	if ro.pool == nil {
		c, err := p.dial(ctx, o, t.addr())
		if err != nil {
			return nil, nil, originFailed(t.host, err)
		}
		return c, nil, nil
	}
	if err := p.egressName(r, o, t); err != nil {
		return nil, nil, originFailed(t.host, dialError{err})
	}
	var patience upstream.Patience
	for try := 1; ; try++ {
		l, ref := ro.take(ctx, id, s, &patience)
		if ref != nil {
			return nil, nil, ref
		}
		c, err := l.Exit().Dial(ctx, o.dialAddr(t.addr()))
		if err == nil {
			l.Answered(0)
			return c, l, nil
		}
		moved := l.Failed(ctx, t.host, err)
		l.Done()
		if !moved || try > 1 {
			return nil, nil, originFailed(t.host, dialError{err})
		}
	}
}

// noLease says why there is no lease.
func noLease(ctx context.Context, pool string, err error) *refusal {
	var full *upstream.Exhausted
	var ref *refusal
	switch {
	case ctx.Err() != nil:
		ref = refuse(statusClientGone, "connection_terminated", "client_gone", "The client closed the connection before a lease came free.")
	case errors.Is(err, upstream.ErrLost):
		ref = refuse(http.StatusServiceUnavailable, "destination_unavailable", "lease_lost",
			fmt.Sprintf("Your upstream of the pool %s is out of order, and the pool is strict: you get no other until you have paused.", pool))
	case errors.As(err, &full):
		ref = refuse(http.StatusServiceUnavailable, "connection_limit_reached", "lease_exhausted",
			fmt.Sprintf("No upstream of the pool %s came free in time: %s.", pool, whyNone[full.Why]))
		if full.After > 0 {
			seconds := strconv.Itoa(int(math.Ceil(full.After.Seconds())))
			ref.public += " Try again in " + seconds + " s."
			ref.header = http.Header{"Retry-After": {seconds}}
		}
	case errors.Is(err, upstream.ErrClosed):
		ref = refuse(http.StatusServiceUnavailable, "connection_limit_reached", "lease_exhausted",
			fmt.Sprintf("The pool %s is no longer in use.", pool))
	default:
		ref = refuse(http.StatusServiceUnavailable, "proxy_internal_error", "store_unavailable",
			fmt.Sprintf("Who holds the upstreams of the pool %s is not known: the store does not answer.", pool))
	}
	ref.cause = err
	return ref
}

var whyNone = map[upstream.Why]string{
	upstream.Empty:    "it has none",
	upstream.Resting:  "those that are free rest after failures",
	upstream.Full:     "all that are in order are leased",
	upstream.Settling: "the store is new or was away, and leases that it may not know of run out first",
}

// upstreamFailed sorts a failure of an upstream.
func upstreamFailed(host string, f *upstream.Error) *refusal {
	status, kind, code := http.StatusBadGateway, "destination_unavailable", "upstream_failed"
	what := "could not be connected"
	switch f.Reason {
	case upstream.Auth:
		kind, code, what = "proxy_configuration_error", "upstream_auth", "does not take the credentials that the proxy has for it"
	case upstream.TLS:
		kind, what = "tls_protocol_error", "does not speak TLS as it should"
	case upstream.Timeout:
		status, kind, what = http.StatusGatewayTimeout, "connection_timeout", "did not answer in time"
	case upstream.Closed:
		kind, what = "connection_terminated", "closed the connection"
	case upstream.Protocol:
		kind, what = "http_protocol_error", "answered with what is no proxy's answer"
	case upstream.Own:
		kind, what = "proxy_loop_detected", "is this proxy itself"
	case upstream.Refused:
		what = "refused to connect to " + host
		if f.Status != 0 {
			what = fmt.Sprintf("%s (%d)", what, f.Status)
		}
	}
	ref := refuse(status, kind, code, fmt.Sprintf("The upstream proxy on the way to %s %s.", host, what))
	ref.cause = f
	return ref
}

// pools makes of the configuration what package upstream reads.
func pools(c *config.Config) (map[string]upstream.Config, error) {
	all := make(map[string]upstream.Config, len(c.Upstreams))
	for name, p := range c.Upstreams {
		u := upstream.Config{
			Discover: p.Discover, Capacity: p.Capacity, Idle: p.Idle, MaxAge: p.MaxAge, Wait: p.Wait, Strict: p.Strict,
			CheckURL: p.Check.URL, Every: p.Check.Every,
			Ban: upstream.Ban{Status: p.Ban.Status, After: p.Ban.After, For: p.Ban.For},
		}
		for _, x := range p.Proxies {
			u.Proxies = append(u.Proxies, x.Upstream)
		}
		if p.CA != "" {
			roots, _, err := readRoots(p.CA)
			if err != nil {
				return nil, fmt.Errorf("read upstreams.%s.ca: %w", name, err)
			}
			u.Roots = roots
		}
		all[name] = u
	}
	return all, nil
}

// newUpstreams makes the pools, of which there are none before a configuration.
func (p *Proxy) newUpstreams(ledger upstream.Ledger) *upstream.Pools {
	if ledger == nil {
		ledger = upstream.NewMemory(upstream.LeaseTime)
	}
	return upstream.NewPools(upstream.Options{
		Ledger: ledger, Log: p.log, Dial: p.dialUpstream, Fetch: p.fetch,
		Limits: upstream.Limits{Handshake: p.timeouts.Handshake, Connect: p.timeouts.Connect},
		Unused: p.pool.leave,
		Failed: func(pool string, why upstream.Reason) {
			p.metrics.upstreamFailures.WithLabelValues(pool, string(why)).Inc()
		},
		Waited: func(_ string, d time.Duration) { p.metrics.leaseWait.Observe(d.Seconds()) },
	})
}

// Upstreams are the pools of the configuration in force.
func (p *Proxy) Upstreams() *upstream.Pools { return p.upstreams }
