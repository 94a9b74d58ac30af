package world

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/proxy"
)

// Origin is the server behind the proxies.
type Origin struct {
	ports    map[string]string // as clients name them → where they are
	roots    *x509.CertPool
	accepted atomic.Int64
	open     atomic.Int64
}

// Accepted is how many connections the origin has taken.
func (o *Origin) Accepted() int { return int(o.accepted.Load()) }

// Open is how many connections are open now.
func (o *Origin) Open() int { return int(o.open.Load()) }

// Addr is where a port really is: "80", "443" or "8443".
func (o *Origin) Addr(port string) string { return o.ports[port] }

// TLS is for a client that reaches the origin itself, by that name.
func (o *Origin) TLS(name string) *tls.Config {
	return &tls.Config{RootCAs: o.roots, ServerName: name}
}

func newOrigin(t testing.TB, ca *certs.Authority, opts Options) *Origin {
	t.Helper()
	o := &Origin{ports: map[string]string{}, roots: x509.NewCertPool()}
	o.roots.AppendCertsFromPEM(ca.PEM())
	serve := func(port string, protos ...string) {
		ln := counting{listen(t, "127.0.0.1:0"), o}
		o.ports[port] = ln.Addr().String()
		var conf *tls.Config
		if len(protos) > 0 {
			conf = serverTLS(ca, protos...)
		}
		if opts.Script != nil {
			serveScript(t, ln, conf, opts.Script)
		} else {
			serveHTTP(t, ln, conf, opts.Handler)
		}
	}
	serve("80")
	if opts.Script == nil {
		serve("443", "h2", "http/1.1")
	} else {
		serve("443", "http/1.1") // nobody writes HTTP/2 by hand
	}
	serve("8443", "http/1.1")
	return o
}

// serverTLS shows a certificate for whatever name the client asks for, and for
// 127.0.0.1 where it names none.
func serverTLS(ca proxy.CertSource, protos ...string) *tls.Config {
	return &tls.Config{
		NextProtos: protos,
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) {
			name := h.ServerName
			if name == "" {
				name, _, _ = net.SplitHostPort(h.Conn.LocalAddr().String())
			}
			return ca.Leaf(h.Context(), name)
		},
	}
}

func serveHTTP(t testing.TB, ln net.Listener, conf *tls.Config, h http.Handler) {
	if h == nil {
		h = http.NotFoundHandler()
	}
	s := &http.Server{Handler: h, TLSConfig: conf, ErrorLog: log.New(discard{}, "", 0), DisableGeneralOptionsHandler: true}
	var wg sync.WaitGroup
	wg.Go(func() {
		var err error
		if conf != nil {
			err = s.ServeTLS(ln, "", "")
		} else {
			err = s.Serve(ln)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("origin: %v", err)
		}
	})
	t.Cleanup(func() {
		s.Close()
		wg.Wait()
	})
}

type discard struct{}

func (discard) Write(b []byte) (int, error) { return len(b), nil }

// Serve runs a server that is a script, on loopback, and returns its address.
// The script's connection is closed when it returns.
func Serve(t testing.TB, script func(*Conn)) (addr string) {
	t.Helper()
	ln := listen(t, "127.0.0.1:0")
	serveScript(t, ln, nil, script)
	return ln.Addr().String()
}

func serveScript(t testing.TB, ln net.Listener, conf *tls.Config, script func(*Conn)) {
	s := &scripted{conns: map[net.Conn]bool{}}
	s.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			s.wg.Go(func() { s.run(t, c, conf, script) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		s.close()
	})
}

// scripted are the connections of a script's server.
type scripted struct {
	wg sync.WaitGroup

	mu     sync.Mutex // guards what follows
	conns  map[net.Conn]bool
	closed bool
}

func (s *scripted) run(t testing.TB, c net.Conn, conf *tls.Config, script func(*Conn)) {
	defer c.Close()
	s.mu.Lock()
	closed := s.closed
	s.conns[c] = true
	s.mu.Unlock()
	if closed {
		return
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.conns, c)
	}()
	if conf != nil {
		tc := tls.Server(c, conf)
		if tc.HandshakeContext(t.Context()) != nil {
			return // a client that does not trust it, or is gone
		}
		defer tc.Close()
		c = tc
	}
	script(newScriptConn(t, c, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.closed
	}))
}

func (s *scripted) close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.wg.Wait()
}

func listen(t testing.TB, addr string) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func hostPort(host, port string) string { return net.JoinHostPort(host, port) }

// counting counts the connections of a listener.
type counting struct {
	net.Listener
	o *Origin
}

func (l counting) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.o.accepted.Add(1)
	l.o.open.Add(1)
	return &countedConn{TCPConn: c.(*net.TCPConn), o: l.o}, nil
}

type countedConn struct {
	*net.TCPConn
	o    *Origin
	once sync.Once
}

func (c *countedConn) Close() error {
	c.once.Do(func() { c.o.open.Add(-1) })
	return c.TCPConn.Close()
}
