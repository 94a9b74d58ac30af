package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"

	"github.com/sessionproxy/sessionproxy/proxy/egress"
	"github.com/sessionproxy/sessionproxy/proxy/http1"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// failure says in words and in RFC 9209's types why a request got no response.
func (x *exchange) failure(err error) *refusal {
	x.err = err
	var upload uploadError
	switch {
	case x.upload != nil && x.upload.lost.Load() && !errors.Is(err, http1.ErrHeadTimeout):
		return originFailed(x.target.host, io.EOF)
	case x.upload.malformed():
		return badBody()
	case x.Err() != nil:
		ref := refuse(statusClientGone, "connection_terminated", "client_gone", "The client closed the connection before the answer.")
		ref.cause = err
		return ref
	case errors.As(err, &upload):
		return badBody()
	}
	return originFailed(x.target.host, err)
}

func badBody() *refusal {
	return refuse(http.StatusBadRequest, "http_request_error", "body", "The request's body is not framed as HTTP wants it.")
}

// statusClientGone is nginx's: nobody reads it but the log.
const statusClientGone = 499

// originFailed sorts a failure to reach an origin.
func originFailed(host string, err error) *refusal {
	status, kind, code, what := http.StatusBadGateway, "destination_unavailable", "origin_unreachable", "could not be reached"
	var exit *upstream.Error
	if errors.As(err, &exit) {
		return upstreamFailed(host, exit)
	}
	var dns *net.DNSError
	var cert *tls.CertificateVerificationError
	var record tls.RecordHeaderError
	var op *net.OpError
	var dial dialError
	var reset streamError
	var netErr net.Error
	var forbidden *egress.Refusal
	isTimeout := errors.As(err, &netErr) && netErr.Timeout()
	switch {
	case errors.As(err, &forbidden):
		ref := deny(http.StatusForbidden, "destination_ip_prohibited", "egress", forbidden.Reason)
		ref.cause = err
		return ref
	case errors.Is(err, errOwnListener):
		status, kind, code, what = http.StatusForbidden, "proxy_loop_detected", "own_listener", "is this proxy itself, which is not reached through the proxy"
	case errors.Is(err, http1.ErrHeadTimeout), isTimeout && !errors.As(err, &dial):
		status, kind, code, what = http.StatusGatewayTimeout, "http_response_timeout", "response_timeout", "did not answer in time"
	case errors.As(err, &dns) && dns.IsTimeout:
		status, kind, code, what = http.StatusGatewayTimeout, "dns_timeout", "dns_timeout", "could not be looked up in time"
	case errors.As(err, &dns):
		kind, code, what = "dns_error", "dns_error", "is not known to the DNS"
	case errors.As(err, &cert):
		kind, code, what = "tls_certificate_error", "origin_certificate", untrusted(cert)
	case tlsAlert(err):
		kind, code, what = "tls_alert_received", "origin_tls", "refused the TLS handshake"
	case errors.As(err, &record):
		kind, code, what = "tls_protocol_error", "origin_tls", "does not speak TLS there"
	case errors.Is(err, syscall.ECONNREFUSED):
		kind, code, what = "connection_refused", "origin_refused", "refused the connection"
	case isTimeout:
		status, kind, code, what = http.StatusGatewayTimeout, "connection_timeout", "connect_timeout", "could not be connected in time"
	case errors.Is(err, syscall.ECONNRESET), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.EPIPE), errors.As(err, &reset):
		kind, code, what = "connection_terminated", "origin_closed", "closed the connection without an answer"
	case !errors.As(err, &op): // not of the network: net/http did not like what it read
		kind, code, what = "http_protocol_error", "origin_protocol", "answered with what is no valid HTTP"
	}
	ref := refuse(status, kind, code, fmt.Sprintf("%s %s.", host, what))
	ref.cause, ref.audit = err, code == "own_listener"
	return ref
}

// tlsAlert says whether err is an alert that the peer sent. crypto/tls has no
// type for it outside QUIC.
func tlsAlert(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// streamError is a reset of an HTTP/2 stream. net/http's own type is private,
// and converts itself to any that has its fields.
type streamError struct {
	StreamID, Code uint32
	Cause          error
}

func (streamError) Error() string { return "stream reset" }

// untrusted says why a certificate was refused.
func untrusted(err error) string {
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &name):
		return "showed a certificate that is good for other names only"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "showed a certificate that has expired, or is not valid yet"
	}
	return "showed a certificate of an authority that is not trusted; the proxy's operator can name it as origin.ca"
}
