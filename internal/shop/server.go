package shop

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Server is a running [Shop] on a loopback port, over HTTP/1.1 and HTTP/2.
type Server struct {
	shop *Shop
	addr string
	ca   []byte

	stop context.CancelFunc
	done chan struct{} // closed when all connections are gone
	err  error         // why it ended by itself; read after done
}

// Start opens the shop on a free port of 127.0.0.1, with a certificate for
// o.Host from an authority of its own ([Server.CAPEM]). It is open until
// [Server.Close], or until ctx ends.
func Start(ctx context.Context, o Options) (*Server, error) {
	ca, leaf, err := newCertificate(o.Host)
	if err != nil {
		return nil, fmt.Errorf("certify %s: %w", o.Host, err)
	}
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err // listen tcp 127.0.0.1:0: …
	}
	ctx, stop := context.WithCancel(ctx)
	s := &Server{shop: New(o), addr: ln.Addr().String(), ca: ca, stop: stop, done: make(chan struct{})}
	var conns sync.WaitGroup
	server := &http.Server{
		Handler:           s.shop,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{leaf}},
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		ErrorLog:          log.New(io.Discard, "", 0), // what clients do wrong is no news for the demo's user
		// A connection accepted while the server closes escapes it, and ends
		// by this context in its handshake.
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnState: func(_ net.Conn, state http.ConnState) {
			switch state {
			case http.StateNew: // from ServeTLS itself, so never after it returned
				conns.Add(1)
			case http.StateClosed:
				conns.Done()
			}
		},
	}
	// Not Shutdown: it gives each HTTP/2 client a second to hang up by itself.
	context.AfterFunc(ctx, func() { _ = server.Close() })
	go func() {
		defer close(s.done)
		if err := server.ServeTLS(ln, "", ""); !errors.Is(err, http.ErrServerClosed) {
			s.err = err
		}
		stop()
		conns.Wait()
	}()
	return s, nil
}

// Addr returns the address to dial, such as 127.0.0.1:41234.
func (s *Server) Addr() string { return s.addr }

// CAPEM returns the certificate, in PEM, of the authority to verify the shop by.
func (s *Server) CAPEM() []byte { return s.ca }

// Logins returns how many logins have succeeded so far.
func (s *Server) Logins() int { return s.shop.Logins() }

// Close cuts all connections and waits until they are gone. It returns why the
// shop had closed before, if it had by itself. It may be called again.
func (s *Server) Close() error {
	s.stop()
	<-s.done
	return s.err
}
