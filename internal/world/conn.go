package world

import (
	"bufio"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what should be there at once.
const patience = 10 * time.Second

// Conn is a connection whose bytes are written and read by hand. Where a
// method fails, so does the test: a script ends, a client's test stops.
type Conn struct {
	net.Conn
	R *bufio.Reader // reads go through it

	proxy *Proxy // of a client's connection
	fatal func(format string, args ...any)
}

func newScriptConn(t testing.TB, c net.Conn, over func() bool) *Conn {
	c.SetDeadline(time.Now().Add(patience))
	return &Conn{Conn: c, R: bufio.NewReader(c), fatal: func(format string, args ...any) {
		if !over() {
			t.Errorf("origin: "+format, args...)
		}
		runtime.Goexit()
	}}
}

func newClientConn(t testing.TB, p *Proxy, c net.Conn) *Conn {
	c.SetDeadline(time.Now().Add(patience))
	t.Cleanup(func() { c.Close() })
	return &Conn{Conn: c, R: bufio.NewReader(c), proxy: p, fatal: func(format string, args ...any) {
		t.Helper()
		t.Fatalf(format, args...)
	}}
}

// Send writes s.
func (c *Conn) Send(s string) {
	if _, err := io.WriteString(c.Conn, s); err != nil {
		c.fatal("write %.60q: %v", s, err)
	}
}

// Want reads as many bytes as s has, which have to be s.
func (c *Conn) Want(s string) {
	b := make([]byte, len(s))
	n, err := io.ReadFull(c.R, b)
	if string(b[:n]) != s {
		c.fatal("read %q, %v; want %q", b[:n], err, s)
	}
}

// WantEnd waits until the peer ends the connection, or its direction of it,
// without another byte.
func (c *Conn) WantEnd() {
	b, err := c.R.ReadByte()
	switch {
	case err == nil:
		rest, _ := c.R.Peek(c.R.Buffered())
		c.fatal("read %q, want the end", append([]byte{b}, rest...))
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
	default:
		c.fatal("wait for the end: %v", err)
	}
}

// Rest reads to the end.
func (c *Conn) Rest() string {
	b, err := io.ReadAll(c.R)
	if err != nil {
		c.fatal("read to the end: %v", err)
	}
	return string(b)
}

// Head reads up to and with an empty line.
func (c *Conn) Head() string {
	var b strings.Builder
	for {
		line, err := c.R.ReadString('\n')
		b.WriteString(line)
		if err != nil {
			c.fatal("read %q, then %v; want a head", b.String(), err)
		}
		if line == "\r\n" {
			return b.String()
		}
	}
}

// Request reads a request's head.
func (c *Conn) Request() *http.Request {
	r, err := http.ReadRequest(c.R)
	if err != nil {
		c.fatal("read a request: %v", err)
	}
	return r
}

// Answer reads a whole response to a request of that method. What follows the
// 200 to a CONNECT is the tunnel's.
func (c *Conn) Answer(method string) *Answer {
	resp, err := http.ReadResponse(c.R, &http.Request{Method: method})
	if err != nil {
		c.fatal("read the answer to %s: %v", method, err)
		return nil
	}
	if method == http.MethodConnect && resp.StatusCode == http.StatusOK {
		return &Answer{Response: resp}
	}
	return newAnswer(resp)
}

// CloseWrite ends one direction.
func (c *Conn) CloseWrite() {
	h, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		c.fatal("%T can't close one direction", c.Conn)
		return
	}
	if err := h.CloseWrite(); err != nil {
		c.fatal("close for writing: %v", err)
	}
}

// Reset drops the connection so that the peer gets a reset, as from a client
// that died.
func (c *Conn) Reset() {
	conn := c.Conn
	if tc, ok := conn.(*tls.Conn); ok {
		conn = tc.NetConn()
	}
	if b, ok := conn.(buffered); ok {
		conn = b.Conn
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	conn.Close()
}

// TLS shakes hands as a client that trusts the proxy's CA and asks for name.
func (c *Conn) TLS(name string, protos ...string) *Conn {
	tc, err := c.TryTLS(&tls.Config{ServerName: name, NextProtos: protos})
	if err != nil {
		c.fatal("shake hands for %q: %v", name, err)
	}
	return tc
}

// TryTLS shakes hands, trusting the proxy's CA where conf trusts no other.
func (c *Conn) TryTLS(conf *tls.Config) (*Conn, error) {
	if conf.RootCAs == nil {
		conf.RootCAs = c.proxy.roots
	}
	tc := tls.Client(buffered{c.Conn, c.R}, conf)
	if err := tc.Handshake(); err != nil {
		return nil, err
	}
	return &Conn{Conn: tc, R: bufio.NewReader(tc), proxy: c.proxy, fatal: c.fatal}, nil
}

// buffered reads what a reader has read ahead.
type buffered struct {
	net.Conn
	r *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.r.Read(p) }
func (b buffered) CloseWrite() error          { return b.Conn.(*net.TCPConn).CloseWrite() }

// Answer is a response and its whole body.
type Answer struct {
	*http.Response
	Text string
	Err  error // why the body broke off
}

func newAnswer(resp *http.Response) *Answer {
	b, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	return &Answer{resp, string(b), err}
}
