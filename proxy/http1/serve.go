package http1

import (
	"bufio"
	"context"
	"errors"
	"log"
	"net"
	"net/http"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// Server answers the plain requests of HTTP/1.1 connections: those without a
// body, which are most, see plain. It needs no goroutine beside the
// connection's own, and so about half of what net/http's server costs a proxy.
// With the first request that is not plain it gives the connection back, to be
// served by net/http from there on.
type Server struct {
	Handler http.HandlerFunc
	Idle    time.Duration // a connection without a request; it may end a quarter earlier
	Log     *log.Logger   // of handlers that panic

	mu      sync.Mutex // guards what follows
	conns   map[*serving]struct{}
	closing bool
	ended   chan struct{} // closed when closing and there is no connection; nil until Shutdown
}

// Serve serves a connection with ctx as the context of its requests, and tells
// state of it as [http.Server] does, but for the end: it returns the bytes that
// were read and not served, and again, which says whether they begin a request
// that is not plain. If not, the connection is to be closed.
func (s *Server) Serve(ctx context.Context, conn net.Conn, state func(http.ConnState)) (unread []byte, again bool) {
	c := &serving{s: s, conn: conn, state: state, remote: conn.RemoteAddr().String()}
	if !s.add(c) {
		return nil, false
	}
	defer s.remove(c)
	c.br = bufio.NewReaderSize(conn, readBuffer)
	state(http.StateNew)
	again = c.serve(ctx)
	unread, _ = c.br.Peek(c.br.Buffered()) // they are there
	return unread, again
}

func (s *Server) add(c *serving) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return false
	}
	if s.conns == nil {
		s.conns = map[*serving]struct{}{}
	}
	s.conns[c] = struct{}{}
	return true
}

func (s *Server) remove(c *serving) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	if s.ended != nil && len(s.conns) == 0 {
		close(s.ended)
		s.ended = nil
	}
}

// Shutdown ends idle connections at once, and the others after the request
// under way. It waits for that until ctx ends. It is called once.
func (s *Server) Shutdown(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	ended := make(chan struct{})
	if len(s.conns) == 0 {
		close(ended)
	} else {
		s.ended = ended
	}
	for c := range s.conns {
		if c.phase.CompareAndSwap(waiting, over) {
			c.conn.SetReadDeadline(longAgo)
		} else {
			c.phase.CompareAndSwap(working, last)
		}
	}
	s.mu.Unlock()
	select {
	case <-ended:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close closes all connections.
func (s *Server) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
	for c := range s.conns {
		c.conn.Close()
	}
}

// The phases of a connection.
const (
	waiting int32 = iota // for a request
	working              // on one
	last                 // the same, and there will be no other
	over
)

// serving is one connection.
type serving struct {
	s      *Server
	conn   net.Conn
	remote string
	state  func(http.ConnState)
	br     *bufio.Reader
	buf    *[outSize]byte // borrowed for the response under way
	out    []byte         // of it, in buf while it fits
	phase  atomic.Int32
	until  time.Time // the read deadline; zero: none

	timer  *time.Timer        // starts look
	mu     sync.Mutex         // guards what follows
	cancel context.CancelFunc // of the request under way; nil: none
	looked chan struct{}      // closed when look has ended; nil: it has not begun
}

// serve returns true where the next request is not plain.
func (c *serving) serve(ctx context.Context) (again bool) {
	for {
		if now := time.Now(); c.until.Sub(now) < c.s.Idle*3/4 {
			c.until = now.Add(c.s.Idle)
			c.conn.SetReadDeadline(c.until)
			if c.phase.Load() != waiting { // else Shutdown's deadline comes after this one
				return false
			}
		}
		if _, err := c.br.Peek(1); err != nil || !c.phase.CompareAndSwap(waiting, working) {
			return false
		}
		head, _ := c.br.Peek(c.br.Buffered()) // they are there
		ctx, cancel := context.WithCancel(ctx)
		r, n := plain(ctx, head)
		c.state(http.StateActive)
		if r == nil {
			cancel()
			c.conn.SetReadDeadline(time.Time{})
			return true
		}
		_, _ = c.br.Discard(n) // they are there
		r.RemoteAddr = c.remote
		if !c.answer(r, cancel) {
			return false
		}
		c.state(http.StateIdle)
		if !c.phase.CompareAndSwap(working, waiting) {
			return false
		}
	}
}

// answer has one request answered, and says whether another may follow.
func (c *serving) answer(r *http.Request, cancel context.CancelFunc) (more bool) {
	defer cancel()
	w := &response{c: c, header: make(http.Header, len(r.Header)), head: r.Method == http.MethodHead, length: -1}
	c.begin(cancel)
	defer c.end()
	defer func() {
		v := recover()
		if v == nil {
			return
		}
		if err, ok := v.(error); !ok || !errors.Is(err, http.ErrAbortHandler) {
			stack := make([]byte, 16<<10)
			c.s.Log.Printf("panic serving %s: %v\n%s", c.remote, v, stack[:runtime.Stack(stack, false)])
		}
		more = false
	}()
	c.buf = outBuffers.Get().(*[outSize]byte)
	c.out = c.buf[:0]
	defer func() {
		outBuffers.Put(c.buf)
		c.buf, c.out = nil, nil
	}()
	c.s.Handler(w, r)
	return w.finish() && c.phase.Load() == working
}

// outSize holds most heads together with the body's beginning: one write, and
// one TLS record.
const outSize = 4 << 10

var outBuffers = sync.Pool{New: func() any { return new([outSize]byte) }}

// patience is how long a request may take before its client is looked after.
// Most are answered by then, and need no look.
const patience = 100 * time.Millisecond

// begin notes a request. While it takes long, look finds out whether its client
// is still there.
func (c *serving) begin(cancel context.CancelFunc) {
	c.mu.Lock()
	c.cancel = cancel
	c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(patience, c.look)
	} else {
		c.timer.Reset(patience)
	}
}

// look reads ahead: the client's next request, or the end of the connection,
// which ends the request under way.
func (c *serving) look() {
	c.mu.Lock()
	cancel := c.cancel
	if cancel == nil || c.looked != nil || c.br.Buffered() == c.br.Size() {
		c.mu.Unlock()
		return
	}
	looked := make(chan struct{})
	c.looked = looked
	c.conn.SetReadDeadline(time.Time{})
	c.mu.Unlock()
	defer close(looked)
	if _, err := c.br.Peek(c.br.Buffered() + 1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		cancel()
	}
}

// end ends what begin began.
func (c *serving) end() {
	c.timer.Stop()
	c.mu.Lock()
	c.cancel = nil
	looked := c.looked
	c.looked = nil
	if looked != nil {
		c.until = time.Time{}
		c.conn.SetReadDeadline(longAgo)
	}
	c.mu.Unlock()
	if looked != nil {
		<-looked
	}
}
