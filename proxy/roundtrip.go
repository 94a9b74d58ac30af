package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/elazarl/goproxy"
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

// send does one round trip. The time until the response's head is bounded, but
// only while the request's body makes no progress: an upload may take long.
func (x *exchange) send(r *http.Request) (*http.Response, error) {
	if x.upgrade != "" {
		r.Header["Connection"], r.Header["Upgrade"] = upgradeToken, []string{x.upgrade}
	}
	origin := x.rules.direct
	if x.site != nil {
		origin = x.site.origin
	}
	ctx, cancel := context.WithCancelCause(x)
	x.relay.cancel = cancel
	head := &headTimer{cancel: cancel, limit: x.p.timeouts.ResponseHead}
	head.timer = time.AfterFunc(head.limit, head.expired)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &progress{ReadCloser: r.Body, head: head}
	}
	x.trace.Got1xxResponse = x.relay.informational
	x.sent = time.Now()
	resp, err := x.p.pool.get(origin, x.mode == modeH2).RoundTrip(
		r.WithContext(httptrace.WithClientTrace(ctx, &x.trace)))
	x.relay.noMore1xx()
	head.stop()
	if err != nil {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		cancel(nil)
		return nil, err
	}
	return resp, nil
}

var upgradeToken = []string{"Upgrade"}

var errHeadTimeout = errors.New("no response head in time")

// headTimer cancels a request whose origin is silent.
type headTimer struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	timer  *time.Timer
	over   atomic.Bool // the head is there; an upload may still go on, and restart the timer
}

func (h *headTimer) expired() {
	if !h.over.Load() {
		h.cancel(errHeadTimeout)
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

// failure says in words and in RFC 9209's types why a request got no response.
func (x *exchange) failure(err error) *refusal {
	x.err = err
	if x.Err() != nil {
		ref := refuse(statusClientGone, "connection_terminated", "client_gone", "The client went away.")
		ref.cause = err
		return ref
	}
	return originFailed(x.target.host, err)
}

// statusClientGone is nginx's: nobody reads it but the log.
const statusClientGone = 499

// originFailed sorts a failure to reach an origin.
func originFailed(host string, err error) *refusal {
	status, kind, code, what := http.StatusBadGateway, "destination_unavailable", "origin_unreachable", "could not be reached"
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var netErr net.Error
	switch {
	case errors.Is(err, errOwnListener):
		status, kind, code, what = http.StatusForbidden, "proxy_loop_detected", "own_listener", "is this proxy itself, which is not reached through the proxy"
	case errors.Is(err, errHeadTimeout):
		status, kind, code, what = http.StatusGatewayTimeout, "http_response_timeout", "response_timeout", "did not answer in time"
	case errors.As(err, &dns) && dns.IsTimeout:
		status, kind, code, what = http.StatusGatewayTimeout, "dns_timeout", "dns_timeout", "could not be looked up in time"
	case errors.As(err, &dns):
		kind, code, what = "dns_error", "dns_error", "is not known to the DNS"
	case errors.As(err, &cert):
		kind, code, what = "tls_certificate_error", "origin_certificate", "showed a certificate that is not trusted (origin.ca names a private authority)"
	case errors.As(err, &alert):
		kind, code, what = "tls_alert_received", "origin_tls", "refused the TLS handshake"
	case errors.As(err, &record):
		kind, code, what = "tls_protocol_error", "origin_tls", "does not speak TLS there"
	case errors.Is(err, syscall.ECONNREFUSED):
		kind, code, what = "connection_refused", "origin_refused", "refused the connection"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &netErr) && netErr.Timeout():
		status, kind, code, what = http.StatusGatewayTimeout, "connection_timeout", "connect_timeout", "could not be connected in time"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE):
		kind, code, what = "connection_terminated", "origin_closed", "closed the connection without an answer"
	case isProtocolError(err):
		kind, code, what = "http_protocol_error", "origin_protocol", "answered with what is no valid HTTP"
	}
	ref := refuse(status, kind, code, fmt.Sprintf("%s %s.", host, what))
	ref.cause = err
	return ref
}

func isProtocolError(err error) bool {
	var p textproto.ProtocolError
	return errors.As(err, &p)
}
