package proxy

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/sessionproxy/sessionproxy/proxy/http1"
)

// RoundTrip sends the request and returns the response, its cookies captured,
// ready to be relayed. It is the engine's RoundTripper, and never returns an
// error: a failure is an answer of ours.
func (x *exchange) RoundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	x.inject(r)
	resp, err := x.send(r)
	if err != nil {
		return x.refuse(r, x.failure(err)), nil
	}
	x.got = time.Now()
	if resp.StatusCode == http.StatusProxyAuthRequired {
		// A client would take it for ours, and ask its user for a password.
		resp.Body.Close()
		return x.refuse(r, refuse(http.StatusBadGateway, "http_protocol_error", "origin_407",
			"The site answered 407, which only a proxy may.")), nil
	}
	x.capture(resp)
	x.upgrade = ""
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.upgrade = upgradeOf(resp.Header)
	}
	stripHopByHop(resp.Header)
	resp.Body = x.relay.body(resp)
	return resp, nil
}

// send does one round trip. Each transport bounds the origin's silence after
// the request; while a request's body is on its way that is done here.
func (x *exchange) send(r *http.Request) (*http.Response, error) {
	if x.upgrade != "" {
		r.Header["Connection"], r.Header["Upgrade"] = upgradeToken, []string{x.upgrade}
	}
	origin := x.rules.direct
	if x.site != nil {
		origin = x.site.origin
	}
	t := x.p.pool.get(origin, x.target, x.mode == modeH2)
	x.sent = time.Now()
	defer x.relay.noMore1xx()
	if r.Body == nil || r.Body == http.NoBody {
		return t.RoundTrip(r)
	}

	ctx, cancel := context.WithCancelCause(r.Context())
	x.relay.cancel = cancel
	head := &headTimer{cancel: cancel, limit: x.p.timeouts.ResponseHead}
	head.timer = time.AfterFunc(head.limit, head.expired)
	defer head.stop()
	r = r.WithContext(ctx)
	r.Body = &progress{ReadCloser: r.Body, head: head}
	resp, err := t.RoundTrip(r)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return resp, err
}

var upgradeToken = []string{"Upgrade"}

// headTimer cancels a request whose body makes no progress.
type headTimer struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
	over   atomic.Bool // the head is there; an upload may still go on, and restart the timer
}

func (h *headTimer) expired() {
	if !h.over.Load() {
		h.cancel(http1.ErrHeadTimeout)
	}
}

func (h *headTimer) stop() {
	h.over.Store(true)
	h.timer.Stop()
}

// progress restarts the timer with each read of the request's body.
type progress struct {
	io.ReadCloser
	head *headTimer
}

func (p *progress) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	if !p.head.over.Load() {
		p.head.timer.Reset(p.head.limit)
	}
	return n, err
}
