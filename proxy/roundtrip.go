package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/elazarl/goproxy"
	"golang.org/x/net/http/httpguts"

	"github.com/sessionproxy/sessionproxy/proxy/http1"
)

// RoundTrip sends the request and returns the response, its cookies captured,
// ready to be relayed. It is the engine's RoundTripper, and never returns an
// error: a failure is an answer of ours.
func (x *exchange) RoundTrip(r *http.Request, _ *goproxy.ProxyCtx) (*http.Response, error) {
	resp, ref := x.tries(r, x.inject)
	for ref == nil && x.tells(r) {
		x.judged = x.judge(r, resp)
		again, refused := x.retries(r, resp, x.judged)
		if !again && refused == nil {
			break
		}
		x.drop(resp)
		if ref = refused; ref == nil {
			resp, ref = x.tries(r, x.inject)
		}
	}
	if ref == nil {
		if x.logsIn {
			x.loggedIn(r, resp)
		} else {
			x.capture(resp)
		}
		x.notePreflight(r, resp)
		resp, ref = x.settle(r, resp)
	}
	if ref != nil {
		return x.refuse(r, ref), nil
	}
	x.learn(r, resp)
	x.upgrade = ""
	if resp.StatusCode == http.StatusSwitchingProtocols {
		x.upgrade = upgradeOf(resp.Header)
	}
	stripHopByHop(resp.Header)
	resp.Body = x.relay.body(resp)
	x.handed = time.Now()
	return resp, nil
}

// tries sends the request with the cookies that are to go along, by the owner's
// lease: a second time where the lease's upstream failed, and it does no harm
// twice.
func (x *exchange) tries(r *http.Request, cookies func(*http.Request)) (resp *http.Response, ref *refusal) {
	var failed error
	for try := 1; ; try++ {
		if ref := x.lease(failed); ref != nil {
			return nil, ref
		}
		if ref := x.place(r); ref != nil { // what has been spent, or grown old
			return nil, ref
		}
		cookies(r)
		resp, moved, ref := x.try(r)
		if !moved || try > 1 {
			return resp, ref
		}
		failed, x.err = ref.cause, nil
		x.moved++
	}
}

// try sends the request once. moved says that it may be sent again, by another
// lease.
func (x *exchange) try(r *http.Request) (resp *http.Response, moved bool, ref *refusal) {
	resp, err := x.send(r)
	x.spent.Upstream += time.Since(x.sent)
	if err == nil && !x.possible(resp) {
		resp.Body.Close()
		err = errStatus
	}
	if err != nil {
		return nil, x.moves(err), x.failure(err)
	}
	if ref := x.answered(resp.StatusCode); ref != nil {
		resp.Body.Close()
		return nil, false, ref
	}
	if resp.StatusCode == http.StatusProxyAuthRequired {
		// A client would take it for ours, and ask its user for a password.
		resp.Body.Close()
		return nil, false, refuse(http.StatusBadGateway, "http_protocol_error", "origin_407",
			"The site answered 407, which only a proxy may.")
	}
	return resp, false, nil
}

// possible says whether the response may be passed on as it is. A switch of
// protocols is good only to the one that the client asked for.
func (x *exchange) possible(resp *http.Response) bool {
	if resp.StatusCode == http.StatusSwitchingProtocols {
		to := upgradeOf(resp.Header)
		return to != "" && httpguts.HeaderValuesContainsToken([]string{x.upgrade}, to)
	}
	return resp.StatusCode >= 200 && resp.StatusCode <= 999
}

var errStatus = errors.New("the response has no possible status, or switches protocols unasked")

// send does one round trip. Each transport bounds the origin's silence after
// the request; while a request's body is on its way that is done here.
func (x *exchange) send(r *http.Request) (*http.Response, error) {
	if x.upgrade != "" {
		r.Header["Connection"], r.Header["Upgrade"] = upgradeToken, []string{x.upgrade}
	}
	origin := x.rules.origin(x.site)
	x.forwarded = forwards(x.exit, origin, x.target, x.upgrade != "")
	key := transportKey{origin: origin, exit: x.exit, forward: x.forwarded, h2: x.mode == modeH2, pin: x.pinned(r)}
	if x.form.sentAsQuery() {
		key.once, r.Close = true, true
	}
	t := x.p.pool.get(key, x.target)
	x.sent = time.Now()
	defer x.relay.noMore1xx()
	if x.upload == nil {
		return t.RoundTrip(r)
	}

	ctx, cancel := context.WithCancelCause(r.Context())
	x.relay.cancel = cancel
	var head headTimer
	head.start(x.p.timeouts.ResponseHead, func() {
		if !head.over.Load() {
			cancel(http1.ErrHeadTimeout)
		}
	})
	defer head.stop()
	x.upload.head.Store(&head)
	x.trace.GotConn = func(c httptrace.GotConnInfo) {
		http1.OnEnd(c.Conn, func() {
			if ctx.Err() == nil { // else it ended because of that
				x.upload.abandon()
			}
		})
	}
	resp, err := t.RoundTrip(r.WithContext(ctx))
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	return resp, err
}

var upgradeToken = []string{"Upgrade"}
