package proxy

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Revoke ends a session for all its clients: its cookies go, replies that are
// under way bring none back, and its open WebSockets and tunnels close. In
// intercepted ones the requests under way are finished first.
func (p *Proxy) Revoke(ctx context.Context, key session.Key) error {
	if err := p.store.Revoke(ctx, key); err != nil {
		return err
	}
	shared := key.Shared()
	p.conns.closeOf(func(o owner) bool { return o.session == shared })
	return nil
}

// intercepted is a tunnel whose decrypted connection a server of ours has: the
// fast one for plain requests, or net/http's, in that order.
type intercepted struct {
	conn    net.Conn    // as the server knows it
	release func()      // nil before the first of them has it
	idle    atomic.Bool // no request is under way
	over    atomic.Bool // it ends with the request under way
}

// follow is the ConnState of those servers.
func (p *Proxy) follow(conn net.Conn, state http.ConnState) {
	c := connectionOf(conn)
	switch state {
	case http.StateNew:
		c.inner.conn = conn
		if c.inner.release != nil {
			return // from the other server, with a request that has begun
		}
		c.inner.idle.Store(true)
		release, ok := p.conns.add(&c.inner, c.owner())
		if !ok {
			conn.Close()
			release = func() {}
		}
		c.inner.release = func() {
			p.pool.unpin(&c.pin)
			release()
		}
	case http.StateActive:
		c.inner.idle.Store(false)
		if c.inner.over.Load() {
			conn.SetReadDeadline(time.Time{})
		}
	case http.StateIdle:
		c.inner.idle.Store(true)
		if c.inner.over.Load() {
			c.inner.end()
		}
	case http.StateHijacked, http.StateClosed:
		c.inner.release()
	}
}

// Close ends the connection as soon as no request is under way on it.
func (i *intercepted) Close() error {
	i.over.Store(true)
	if i.idle.Load() {
		i.end()
	}
	return nil
}

// end closes an idle connection. In HTTP/2 the last bytes of the last answer
// may be on their way still, and net/http sends GOAWAY by itself with an answer
// that says "close" only: one that is just idle gets a moment.
func (i *intercepted) end() {
	if _, h2 := i.conn.(*tls.Conn); h2 {
		i.conn.SetReadDeadline(time.Now().Add(time.Second))
		return
	}
	i.conn.Close()
}

// connectionOf returns the tunnel of a connection that the inner server has.
func connectionOf(conn net.Conn) *connection {
	if h1, ok := conn.(*h1Conn); ok {
		return h1.c
	}
	return conn.(*tls.Conn).NetConn().(*clientConn).c
}

// owner is whose end closes the tunnel.
func (c *connection) owner() owner {
	var of session.Key
	if s := c.p.rules.Load().site(c.target.host, c.target.port); s != nil {
		of = session.Key{Site: s.Key, ID: c.id.session}
	}
	return c.id.owner(of)
}
