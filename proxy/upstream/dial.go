package upstream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"sync/atomic"
	"time"
)

// DialFunc opens a connection, as [net.Dialer.DialContext] does.
type DialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// Limits bound the phases in which an upstream may be silent.
type Limits struct {
	Handshake time.Duration // TLS with an https upstream
	Connect   time.Duration // its answer to CONNECT or to SOCKS5, its own dial included
}

// ErrOwn is what Options.Dial returns, wrapped, for an address that is a
// listener of this proxy.
var ErrOwn = errors.New("the address is one of this proxy's own listeners")

// dialer reaches targets through one upstream.
type dialer struct {
	Upstream
	dial   DialFunc
	tls    atomic.Pointer[tls.Config] // towards an https upstream
	limits Limits
}

func newDialer(u Upstream, dial DialFunc, roots *x509.CertPool, limits Limits) *dialer {
	d := &dialer{Upstream: u, dial: dial, limits: limits}
	d.trust(roots)
	return d
}

// trust says what an https upstream is verified against from now on; nil is the
// system's.
func (d *dialer) trust(roots *x509.CertPool) {
	host, _, _ := net.SplitHostPort(d.addr) // as Parse joined it
	d.tls.Store(&tls.Config{
		MinVersion: tls.VersionTLS12,
		ServerName: host,
		RootCAs:    roots,
		NextProtos: []string{"http/1.1"},
		// Its own, and new: a ticket links two connections, and the second is
		// not verified again.
		ClientSessionCache: tls.NewLRUClientSessionCache(8),
	})
}

// open connects to the upstream itself. Its errors are of type *[Error], as are
// those of the other methods.
func (d *dialer) open(ctx context.Context) (net.Conn, error) {
	c, err := d.dial(ctx, "tcp", d.addr)
	if errors.Is(err, ErrOwn) {
		return nil, &Error{Reason: Own, Upstream: d.Upstream, err: err}
	}
	if err != nil {
		return nil, fault(d.Upstream, Dial, err)
	}
	if d.scheme != "https" {
		return c, nil
	}
	tc := tls.Client(c, d.tls.Load())
	ctx, cancel := context.WithTimeout(ctx, d.limits.Handshake)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, fault(d.Upstream, TLS, err)
	}
	return tc, nil
}

// tunnel connects to a target. Its name is looked up by the upstream.
func (d *dialer) tunnel(ctx context.Context, addr string) (net.Conn, error) {
	c, err := d.open(ctx)
	if err != nil {
		return nil, err
	}
	// One deadline for the whole talk: bytes that trickle do not move it.
	limit := time.Now().Add(d.limits.Connect)
	if at, ok := ctx.Deadline(); ok && at.Before(limit) {
		limit = at
	}
	c.SetDeadline(limit)
	stop := context.AfterFunc(ctx, func() { c.SetDeadline(time.Unix(1, 0)) })
	talk := connect
	if d.scheme == "socks5" {
		talk = socks5
	}
	tunnel, err := talk(c, d.Upstream, addr)
	if !stop() && err == nil {
		err = unanswered(d.Upstream, context.Cause(ctx))
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.SetDeadline(time.Time{})
	return tunnel, nil
}
