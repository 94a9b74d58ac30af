package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// clientConn is a client's connection after its CONNECT. It replays what was
// read ahead, and knows its connection for the inner server.
type clientConn struct {
	net.Conn
	c     *connection
	ahead []byte
	joins bool // its writes; set before any that may be
	out   joined
}

func (c *clientConn) Read(b []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(b, c.ahead)
		if c.ahead = c.ahead[n:]; len(c.ahead) == 0 {
			c.ahead = nil
		}
		return n, nil
	}
	return c.Conn.Read(b)
}

func (c *clientConn) Write(b []byte) (int, error) {
	if c.joins {
		return c.out.write(c.Conn, b)
	}
	return c.Conn.Write(b)
}

// Close sends what was written, as a close in the kernel does.
func (c *clientConn) Close() error {
	c.out.end(c.Conn)
	return c.Conn.Close()
}

// CloseWrite ends one direction.
func (c *clientConn) CloseWrite() error { return closeWrite(c.Conn) }

// peek waits up to d for the peer's first bytes, and keeps them in c.ahead.
func (c *clientConn) peek(d time.Duration) error {
	if len(c.ahead) > 0 {
		return nil
	}
	return c.peekMore(d)
}

// peekMore waits up to d for bytes after those in c.ahead.
func (c *clientConn) peekMore(d time.Duration) error {
	c.Conn.SetReadDeadline(time.Now().Add(d))
	defer c.Conn.SetReadDeadline(time.Time{})
	return c.readAhead()
}

// readAhead reads once, and adds to c.ahead.
func (c *clientConn) readAhead() error {
	b := make([]byte, 2048) // a ClientHello fits
	n, err := c.Conn.Read(b)
	c.ahead = append(c.ahead, b[:n]...)
	if n > 0 {
		return nil
	}
	return err
}

// helloName reads the client's TLS hello and returns the name in it, if any.
// The hello stays in c.ahead.
func (c *clientConn) helloName(d time.Duration) (name string) {
	c.Conn.SetReadDeadline(time.Now().Add(d))
	defer c.Conn.SetReadDeadline(time.Time{})
	spy := &spyConn{Conn: c.Conn, ahead: c.ahead}
	// The handshake is given up as soon as the hello is read.
	_ = tls.Server(spy, &tls.Config{GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		name = h.ServerName
		return nil, errors.New("hello seen")
	}}).HandshakeContext(context.Background())
	c.ahead = append(spy.seen, spy.ahead...)
	return name
}

// spyConn lets a TLS server read a hello and answer nothing.
type spyConn struct {
	net.Conn
	ahead, seen []byte
}

func (s *spyConn) Read(b []byte) (n int, err error) {
	if len(s.ahead) > 0 {
		n = copy(b, s.ahead)
		s.ahead = s.ahead[n:]
	} else {
		n, err = s.Conn.Read(b)
	}
	s.seen = append(s.seen, b[:n]...)
	return n, err
}

func (s *spyConn) Write(b []byte) (int, error) { return len(b), nil }

// dial connects to the origin for a blind tunnel to a declared host, unless the
// proxy closes first.
func (c *connection) dial() bool {
	rules := c.p.rules.Load()
	start := time.Now()
	origin, lease, ref := c.p.open(c.p.conns.closing, rules, c.id, rules.site(c.target.host, c.target.port), c.target)
	if ref != nil {
		c.ref = ref
		c.p.recordTunnel(c, start, 0, 0, ref.cause)
		return false
	}
	c.origin, c.lease = origin, lease
	return true
}

// tunnel copies between the client and c.origin until both have stopped, and
// records it.
func (c *connection) tunnel(conn net.Conn) {
	start := time.Now()
	defer conn.Close()
	defer c.closeOrigin()
	release, ok := c.p.conns.add(c.origin, c.owner())
	if !ok {
		return
	}
	defer release()
	if !c.p.holds(c.id) { // since it was asked for: nobody else would close this
		return
	}
	c.leaveTrace(trace.Record{Start: start, Outcome: trace.Open})
	c.opened = true
	up, down, err := pipe(conn, c.origin, c.p.timeouts.Tunnel)
	c.p.recordTunnel(c, start, up, down, err)
}

// pipe copies both ways until both sides have stopped sending, one failed, or
// neither sent a byte for idle. It closes neither, but where one failed.
func pipe(client, server io.ReadWriteCloser, idle time.Duration) (up, down int64, err error) {
	var first sync.Once // what fails after it does so because of it
	var wg sync.WaitGroup
	end := func(why error) {
		first.Do(func() {
			err = why
			client.Close()
			server.Close()
		})
	}
	alive := newWatch(idle, func() { end(nil) })
	defer alive.stop()
	one := func(dst, src io.ReadWriteCloser, n *int64) {
		var failed error
		if *n, failed = copyAlive(dst, src, alive); failed == nil {
			if closeWrite(dst) != nil { // all has been written, and nobody is left to tell
				end(nil)
			}
			return
		}
		// Closed by ourselves: revoked, or shut down.
		if errors.Is(failed, net.ErrClosed) || errors.Is(failed, os.ErrClosed) {
			failed = nil
		}
		end(failed)
	}
	wg.Go(func() { one(server, client, &up) })
	wg.Go(func() { one(client, server, &down) })
	wg.Wait()
	return up, down, err
}

func copyAlive(dst io.Writer, src io.Reader, alive *watch) (n int64, err error) {
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	for {
		r, err := src.Read(buf[:])
		if r > 0 {
			alive.touch()
			w, werr := dst.Write(buf[:r])
			n += int64(w)
			if werr != nil {
				return n, werr
			}
		}
		if errors.Is(err, io.EOF) {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

// bufferSize is one and a half TLS records: less makes small writes of large
// bodies, more is memory that idle streams hold.
const bufferSize = 32 << 10

var buffers = sync.Pool{New: func() any { return new([bufferSize]byte) }}

// closeWrite ends one direction, or both where the connection can't do one.
func closeWrite(c io.Closer) error {
	if h, ok := c.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return c.Close()
}

// lingerClose ends a connection so that the peer can still read what was
// written: a plain close with unread input would reset it. Many clients read
// only when all is sent.
func lingerClose(conn net.Conn) {
	if closeWrite(conn) != nil {
		return
	}
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	end := time.Now().Add(lingerTime)
	for n := 0; n < lingerBytes && time.Now().Before(end); {
		conn.SetReadDeadline(time.Now().Add(time.Second))
		r, err := conn.Read(buf[:])
		if err != nil {
			return
		}
		n += r
	}
}

// What a client may go on to send that has been refused.
const (
	lingerTime  = 10 * time.Second
	lingerBytes = 64 << 20
)
