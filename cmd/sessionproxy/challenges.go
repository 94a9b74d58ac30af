package main

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/certs/acme"
)

// challenges is the port where an authority finds the answers to its http-01
// challenges (tls.http).
type challenges struct {
	addr   string // as it is written
	ln     net.Listener
	server *http.Server
	served sync.WaitGroup
	now    atomic.Pointer[acme.Manager]
}

// bind takes the port.
func (c *challenges) bind(addr string) (err error) {
	c.addr = addr
	c.ln, err = bind("tls.http", addr)
	return err
}

// open serves the port at addr, in the place of another one where it has
// changed, and returns where it is bound.
func (c *challenges) open(addr string, log *slog.Logger) (net.Addr, error) {
	if c.ln == nil || c.addr != addr {
		next := new(challenges)
		if err := next.bind(addr); err != nil {
			return nil, err
		}
		c.close()
		c.addr, c.ln = next.addr, next.ln
	}
	if c.server == nil {
		// Who speaks here is anybody: little is read and nothing waited for.
		c.server = &http.Server{
			Handler: http.HandlerFunc(c.serve), ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
			ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: 10 * time.Second, MaxHeaderBytes: 8 << 10,
		}
		server, ln := c.server, c.ln
		c.served.Go(func() {
			if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
				log.Error("serve tls.http", "err", err)
			}
		})
	}
	return c.ln.Addr(), nil
}

// answer has the challenges of m answered.
func (c *challenges) answer(m *acme.Manager) { c.now.Store(m) }

func (c *challenges) serve(w http.ResponseWriter, r *http.Request) {
	if m := c.now.Load(); m != nil {
		m.ServeHTTP(w, r)
		return
	}
	http.NotFound(w, r)
}

func (c *challenges) close() {
	if c.server != nil {
		_ = c.server.Close()
	}
	if c.ln != nil {
		_ = c.ln.Close() // a served one is closed already
	}
	c.served.Wait()
	c.server, c.ln = nil, nil
}
