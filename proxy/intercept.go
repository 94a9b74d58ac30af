package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/elazarl/goproxy"

	"github.com/sessionproxy/sessionproxy/proxy/http1"
	"github.com/sessionproxy/sessionproxy/session"
)

// serve owns a client's connection after its CONNECT. It runs on the goroutine
// of the front server, and returns when the connection is a tunnel that ended,
// or the inner server's.
func (c *connection) serve(_ *http.Request, hijacked net.Conn, _ *goproxy.ProxyCtx) {
	conn := hijacked.(*clientConn)
	release, ok := c.p.conns.add(conn, c.id.owner(session.Key{}))
	if !ok {
		conn.Close()
		c.closeOrigin()
		return
	}
	defer release()
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		conn.Close()
		c.closeOrigin()
		return
	}
	if c.origin != nil && !c.target.ip {
		c.tunnel(conn)
		return
	}
	c.sniff(conn)
}

// sniff finds out what the client speaks. To a declared host TLS and HTTP are
// intercepted; anything else, and a client that waits for the server to speak
// first, gets a blind tunnel. To an address that nobody declares, which is
// dialled already, only TLS is looked at: the name in it may be declared.
func (c *connection) sniff(conn *clientConn) {
	start := time.Now()
	blind := c.origin != nil
	wait := c.p.timeouts.Sniff
	if c.target.port == "443" && !blind {
		wait = c.p.timeouts.Header // no server speaks first there
	}
	err := conn.peek(wait)
	if errors.Is(err, os.ErrDeadlineExceeded) && wait == c.p.timeouts.Sniff {
		if (blind || c.dial()) && c.serverSpeaks(conn) {
			c.tunnel(conn)
			return
		}
		if !blind {
			c.closeOrigin()
		}
		err = conn.peek(c.p.timeouts.Header) // the client is only slow
	}
	switch {
	case err != nil && blind:
		c.tunnel(conn) // the client may have said all, and wait for an answer
		return
	case err != nil:
		c.p.recordHandshake(c, time.Since(start), fmt.Errorf("%w: %w", errSilent, err))
		conn.Close()
		return
	}
	for err == nil && !blind && beginsLikeHTTP(conn.ahead) {
		err = conn.peekMore(c.p.timeouts.Sniff)
	}
	switch {
	case conn.ahead[0] == tlsHandshake && c.declares(conn):
		c.closeOrigin()
		c.intercept(conn)
	case !blind && looksLikeHTTP(conn.ahead):
		go c.serveH1(conn)
	case c.origin != nil || c.dial():
		c.tunnel(conn)
	default:
		conn.Close()
	}
}

var errSilent = errors.New("wait for the client to speak")

// declares says whether a site declares the host that the client speaks TLS to:
// that of the CONNECT, but for an address the name in the client's hello.
func (c *connection) declares(conn *clientConn) bool {
	host := c.target.host
	if c.target.ip {
		if name := conn.helloName(c.p.timeouts.Handshake); name != "" {
			host = name
		}
	}
	t, ref := newTarget(host, c.target.port, true)
	return ref == nil && (t.host == internalHost || c.p.rules.Load().site(t.host, t.port) != nil)
}

// serverSpeaks waits until either side sends a byte, and says whether the
// server did. What they have sent stands in their ahead.
func (c *connection) serverSpeaks(conn *clientConn) bool {
	origin := &clientConn{Conn: c.origin}
	c.origin = origin
	limit := time.Now().Add(c.p.timeouts.Idle)
	conn.SetReadDeadline(limit)
	origin.SetReadDeadline(limit)
	var wg sync.WaitGroup
	wait := func(one, other *clientConn) {
		_ = one.readAhead() // whatever came of it, the other need not wait on
		other.SetReadDeadline(time.Unix(1, 0))
	}
	wg.Go(func() { wait(conn, origin) })
	wg.Go(func() { wait(origin, conn) })
	wg.Wait()
	conn.SetReadDeadline(time.Time{})
	origin.SetReadDeadline(time.Time{})
	return len(origin.ahead) > 0
}

// intercept shakes hands with our own leaf and gives the connection to the
// inner server.
func (c *connection) intercept(conn *clientConn) {
	ctx, cancel := context.WithTimeout(context.Background(), c.p.timeouts.Handshake)
	defer cancel()
	conf := c.p.tls
	if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil && a.Addr().Unmap().IsLoopback() {
		conf = c.p.tlsLocal
	}
	tc := tls.Server(conn, conf)
	start := time.Now()
	if err := tc.HandshakeContext(ctx); err != nil {
		c.p.recordHandshake(c, time.Since(start), err)
		c.p.alerts.failed(c.id, c.target.host, err)
		tc.Close()
		return
	}
	c.p.alerts.succeeded(c.id)
	c.sni = tc.ConnectionState().ServerName
	c.target.secure = true
	if c.target.ip && c.sni != "" {
		if t, ref := newTarget(c.sni, c.target.port, true); ref == nil {
			c.target = t
		}
	}
	if tc.ConnectionState().NegotiatedProtocol == "h2" {
		conn.joins = true
		c.p.hand(tc) // net/http serves it on a *tls.Conn only
	} else {
		go c.serveH1(tc)
	}
}

// serveH1 serves a decrypted HTTP/1.1 connection: by the fast server as long
// as its requests are plain, then by net/http's.
func (c *connection) serveH1(conn net.Conn) {
	growStack()
	p := c.p
	served := &h1Conn{Conn: conn, p: p, c: c}
	ctx := context.WithValue(context.Background(), connectionKey{}, c)
	unread, again := p.plain.Serve(ctx, conn, func(s http.ConnState) { p.follow(served, s) })
	if again && p.hand(&h1Conn{Conn: &clientConn{Conn: conn, c: c, ahead: unread}, p: p, c: c}) {
		return
	}
	if len(unread) > 0 {
		lingerClose(conn) // the answer before would be lost with what is not read
	}
	conn.Close()
	if c.inner.release != nil { // else the proxy is closing
		c.inner.release()
	}
}

// growStack makes the goroutine's stack as large as a handshake or a request
// needs it, once and while it is short: growing step by step the runtime would
// copy it at each doubling, and deep in the calls.
//
//go:noinline
func growStack() {
	var room [12 << 10]byte
	runtime.KeepAlive(&room)
}

// leaf picks the certificate of a handshake: by the name that the client asks
// for, else by the host of its CONNECT.
func (p *Proxy) leaf(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	host := hello.ServerName
	if cc, ok := hello.Conn.(*clientConn); ok && host == "" {
		host = cc.c.target.host
	}
	t, ref := newTarget(host, "443", true)
	if ref != nil {
		return nil, fmt.Errorf("sign leaf for %q: no host name", host)
	}
	return p.certs.Leaf(hello.Context(), t.host)
}

// newPlain is the server of the plain requests of decrypted HTTP/1.1 connections.
func (p *Proxy) newPlain() *http1.Server {
	return &http1.Server{Handler: p.serveInner, Idle: p.timeouts.Idle, Log: serverLog(p.log)}
}

// newInner is the server of all other decrypted connections, and of what else
// comes on those.
func (p *Proxy) newInner() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	return &http.Server{
		Handler:           p.checked(p.serveInner),
		ReadHeaderTimeout: p.timeouts.Header,
		IdleTimeout:       p.timeouts.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          serverLog(p.log),
		Protocols:         protocols,
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams:          128, // browsers open up to 100
			MaxReceiveBufferPerConnection: 1 << 20,
			MaxReceiveBufferPerStream:     256 << 10,
		},
		// "OPTIONS *" is the origin's to answer.
		DisableGeneralOptionsHandler: true,
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(withH1Conn(ctx, conn), connectionKey{}, connectionOf(conn))
		},
		ConnState: p.follow,
	}
}

// serveInner takes the requests of intercepted connections.
func (p *Proxy) serveInner(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor == 2 {
		growStack() // each request has a goroutine of its own
	}
	c := r.Context().Value(connectionKey{}).(*connection)
	m := modeH1
	if r.ProtoMajor == 2 {
		m = modeH2
	}
	id, ref := p.rules.Load().again(c)
	if !p.holds(c.id) {
		ref = tokenEnded()
	}
	if ref != nil {
		w.Header().Set("Connection", "close") // in HTTP/2 a GOAWAY
		p.refused(w, r, c.id, ref)
		return
	}
	p.exchange(w, r, m, id, c.target)
}

// hand gives a connection to the inner server. It reports false where the proxy
// is closing, and has closed the connection then.
func (p *Proxy) hand(conn net.Conn) bool {
	select {
	case p.decrypted <- conn:
		return true
	case <-p.conns.done():
		conn.Close()
		return false
	}
}

// handover is the inner server's listener.
type handover struct {
	conns <-chan net.Conn
	done  <-chan struct{} // the proxy is closing
	stop  chan struct{}
}

func newHandover(conns <-chan net.Conn, done <-chan struct{}) *handover {
	return &handover{conns: conns, done: done, stop: make(chan struct{})}
}

func (h *handover) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.stop:
	case <-h.done:
	}
	return nil, net.ErrClosed
}

func (h *handover) Close() error   { close(h.stop); return nil } // http.Server closes it once
func (h *handover) Addr() net.Addr { return &net.TCPAddr{} }

func (c *connection) closeOrigin() {
	if c.origin != nil {
		c.origin.Close()
		c.origin = nil
	}
	if c.lease != nil {
		c.lease.Done()
		c.lease = nil
	}
}

const tlsHandshake = 0x16 // record type of a ClientHello

// looksLikeHTTP tells a request line from other protocols in which the client
// speaks first. "SSH-2.0-…" is none.
func looksLikeHTTP(b []byte) bool {
	method, rest, ok := bytes.Cut(b, []byte(" "))
	if !ok || !isMethod(method) || len(rest) == 0 {
		return false
	}
	return rest[0] == '/' || rest[0] == '*' || rest[0] == 'h' || string(method) == http.MethodConnect
}

// beginsLikeHTTP says whether b may become a request line, and is too short to
// tell.
func beginsLikeHTTP(b []byte) bool { return isMethod(bytes.TrimSuffix(b, []byte(" "))) }

// isMethod: HTTP/2 begins with "PRI", and is left alone outside TLS.
func isMethod(b []byte) bool {
	return len(b) > 0 && len(b) <= 20 && len(bytes.TrimLeft(b, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")) == 0 && string(b) != "PRI"
}
