package http1

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
)

// Watch guards a connection that net/http's Transport pools. When an origin
// answers a request twice, or a HEAD with a body, the Transport may hand the
// connection to the next request with the surplus still in it, which becomes
// that request's response: another client's. (And where it does notice, it
// prints the surplus, cookies and all.) Watch ends the connection with the
// response that was asked for.
func Watch(c net.Conn) net.Conn {
	return &watched{Conn: c, quiet: quietly(under(c)), framing: Framing{responses: true}}
}

type watched struct {
	net.Conn
	quiet func() bool

	mu       sync.Mutex // guards what follows: the Transport reads and writes at the same time
	framing  Framing
	waiting  bool   // for the response to a request
	ended    func() // see OnEnd
	switched bool   // to another protocol
}

// Write notes that there is a request to be answered.
func (c *watched) Write(b []byte) (int, error) {
	c.mu.Lock()
	if !c.waiting {
		c.waiting = true
		c.framing.head = bytes.HasPrefix(b, []byte("HEAD "))
	}
	c.mu.Unlock()
	return c.Conn.Write(b)
}

// Read returns a response together with the end of the connection where more
// came than the response. The Transport does not pool it then.
func (c *watched) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil && c.waiting && c.ended != nil { // else nothing was sent, and the Transport tries another
		c.ended()
		c.ended = nil
	}
	if n == 0 || c.switched {
		return n, err
	}
	if !c.waiting {
		return 0, io.EOF
	}
	for read := 0; read < n; {
		k, ended := c.framing.Next(b[read:n])
		read += k
		if c.framing.Fault != nil {
			return n, io.EOF // it can't be told where this response ends
		}
		switch {
		case !ended:
		case c.framing.status == http.StatusSwitchingProtocols:
			c.switched = true
			return n, err
		case !c.framing.interim():
			c.waiting, c.ended = false, nil
			if read < n || !c.quiet() {
				return read, io.EOF
			}
		}
	}
	return n, err
}

// OnEnd has f called when the origin ends a watched connection before its
// response is whole. The Transport waits for the request's body then, which may
// be long in coming.
func OnEnd(c net.Conn, f func()) {
	if w, ok := c.(*watched); ok {
		w.mu.Lock()
		w.ended = f
		w.mu.Unlock()
	}
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// watching is dial with Watch on what it returns.
func watching(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return Watch(c), nil
	}
}

// under returns the connection that TLS is spoken over, also where that is TLS
// with an upstream proxy, or c.
func under(c net.Conn) net.Conn {
	for {
		tc, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = tc.NetConn()
	}
}

// quietly returns a function that looks at a socket without waiting, and says
// whether its peer has neither closed it nor sent what has not been read.
func quietly(c net.Conn) func() bool {
	s, ok := c.(syscall.Conn)
	if !ok {
		return func() bool { return true } // it can't be told
	}
	socket, err := s.SyscallConn()
	if err != nil {
		return func() bool { return false } // it is closed
	}
	var is bool
	peek := func(fd uintptr) bool {
		is = quiet(fd)
		return true // whatever it saw: never wait
	}
	return func() bool { return socket.Read(peek) == nil && is }
}
