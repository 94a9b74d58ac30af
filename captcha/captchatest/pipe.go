package captchatest

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"
)

// Pipe serves a handler on connections that never leave memory, so that it
// runs under testing/synctest. The zero value is not usable: see [NewPipe].
type Pipe struct {
	server *http.Server
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	wg     sync.WaitGroup
}

// NewPipe serves h until Close.
func NewPipe(h http.Handler) *Pipe {
	p := &Pipe{conns: make(chan net.Conn), closed: make(chan struct{})}
	p.server = &http.Server{Handler: h, ReadHeaderTimeout: time.Minute}
	p.wg.Go(func() { _ = p.server.Serve(pipeListener{p}) })
	return p
}

// Dial is for a client's options. It ignores network and address.
func (p *Pipe) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the server and its connections.
func (p *Pipe) Close() {
	p.once.Do(func() { close(p.closed) })
	_ = p.server.Close()
	p.wg.Wait()
}

type pipeListener struct{ *Pipe }

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l pipeListener) Addr() net.Addr { return pipeAddr{} }

type pipeAddr struct{}

func (pipeAddr) Network() string { return "pipe" }
func (pipeAddr) String() string  { return "pipe" }
