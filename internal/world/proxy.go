package world

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// Proxy is a running proxy.
type Proxy struct {
	*proxy.Proxy
	Addr    string // of its port
	CA      []byte // that its clients trust
	Metrics *prometheus.Registry

	*Records
	Audit *Records // the audit log: each message is an action

	t      testing.TB
	faulty bool // its own faults are the test
	audit  *audit.Log
	certs  proxy.CertSource
	roots  *x509.CertPool
	serve  sync.WaitGroup
	once   sync.Once // ends it

	mu      sync.Mutex // guards clients
	clients map[clientKey]*http.Client
}

func startProxy(t testing.TB, o proxy.Options, l config.Listen) *Proxy {
	t.Helper()
	p := &Proxy{
		CA: o.CA, certs: o.Certs, Metrics: prometheus.NewRegistry(), Records: newRecords(),
		t: t, roots: x509.NewCertPool(), clients: map[clientKey]*http.Client{},
	}
	p.roots.AppendCertsFromPEM(o.CA)
	o.Log, o.Metrics = slog.New(p.Records), p.Metrics
	p.Audit = newRecords()
	var err error
	if p.audit, err = audit.Open(audit.Options{To: audit.Stdout, Stdout: auditLines{p.Audit}, Log: o.Log, Metrics: o.Metrics}); err != nil {
		t.Fatal(err)
	}
	o.Audit = p.audit
	if p.Proxy, err = proxy.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	p.Addr = p.Listen(l)
	return p
}

// Listen opens another port, and returns its address. One with TLS shows a
// certificate of the proxy's CA.
func (p *Proxy) Listen(l config.Listen) string {
	p.t.Helper()
	addr := l.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	ln := listen(p.t, addr)
	if l.TLS {
		ln = tls.NewListener(ln, serverTLS(p.certs, "http/1.1"))
	}
	p.serve.Go(func() {
		if err := p.Proxy.Serve(ln, l); err != nil && !errors.Is(err, http.ErrServerClosed) {
			p.t.Errorf("proxy: %v", err)
		}
	})
	return ln.Addr().String()
}

// close ends the proxy as its command does. Whatever still runs then, the
// test has left behind.
func (p *Proxy) close() {
	p.once.Do(func() {
		p.closeClients()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.Shutdown(ctx); err != nil {
			p.t.Errorf("shut the proxy down: %v", err)
		}
		p.serve.Wait()
		if err := p.audit.Close(); err != nil {
			p.t.Error(err)
		}
	})
	if !p.faulty {
		p.checkErrors(p.t)
	}
}

// Abort ends the proxy in the middle of whatever it does.
func (p *Proxy) Abort() {
	p.once.Do(func() {
		p.closeClients()
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = p.Shutdown(ctx) // says that it was hurried
		p.serve.Wait()
		_ = p.audit.Close() // nobody reads it
	})
}

func (p *Proxy) closeClients() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.clients {
		c.CloseIdleConnections()
	}
}

// User is who a client says it is. The zero User says nothing.
type User struct{ Name, Password string }

func (u User) authorization() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.Name+":"+u.Password))
}

type clientKey struct {
	via  Way
	user User
}

// Client is a client of its own for each way. It follows no redirect, holds no
// cookies, and leaves bodies packed as they came.
func (p *Proxy) Client(via Way) *http.Client { return p.ClientAs(via, User{}) }

// ClientAs is the same with credentials.
func (p *Proxy) ClientAs(via Way, user User) *http.Client {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := clientKey{via, user}
	c := p.clients[key]
	if c == nil {
		c = p.newClient(via, user)
		p.clients[key] = c
	}
	return c
}

func (p *Proxy) newClient(via Way, user User) *http.Client {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!via.H2)
	protocols.SetHTTP2(via.H2)
	tr := &http.Transport{
		Protocols:             protocols,
		TLSClientConfig:       &tls.Config{RootCAs: p.roots},
		DisableCompression:    true,
		ExpectContinueTimeout: patience,
	}
	if via.Tunnel && !via.TLS {
		tr.DialContext = func(ctx context.Context, _, addr string) (net.Conn, error) { return p.tunnel(ctx, addr, user) }
	} else {
		u := &url.URL{Scheme: "http", Host: p.Addr}
		if user != (User{}) {
			u.User = url.UserPassword(user.Name, user.Password)
		}
		tr.Proxy = http.ProxyURL(u)
	}
	return &http.Client{
		Transport:     tr,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// tunnel is a connection through a CONNECT, as a dialler returns it.
func (p *Proxy) tunnel(ctx context.Context, addr string, user User) (net.Conn, error) {
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", p.Addr)
	if err != nil {
		return nil, err
	}
	r := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: http.Header{}}
	if user != (User{}) {
		r.Header.Set("Proxy-Authorization", user.authorization())
	}
	br := bufio.NewReader(c)
	err = r.Write(c)
	if err == nil {
		var resp *http.Response
		if resp, err = http.ReadResponse(br, r); err == nil && resp.StatusCode != http.StatusOK {
			err = errors.New(resp.Status)
		}
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	return buffered{c, br}, nil
}

// Get fetches a path of Host. fields are names and values in turn.
func (p *Proxy) Get(t testing.TB, via Way, path string, fields ...string) *Answer {
	t.Helper()
	return p.GetAs(t, via, User{}, path, fields...)
}

// GetAs is Get with credentials.
func (p *Proxy) GetAs(t testing.TB, via Way, user User, path string, fields ...string) *Answer {
	t.Helper()
	return Do(t, p.ClientAs(via, user), Request(t, http.MethodGet, via.URL(path), nil, fields...))
}

// Request makes a request that lives as long as the test. fields are names and
// values in turn; a value of "" is no field, which keeps net/http from adding
// its own User-Agent.
func Request(t testing.TB, method, url string, body io.Reader, fields ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, url, body)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		name := http.CanonicalHeaderKey(fields[i])
		r.Header[name] = append(r.Header[name], fields[i+1])
	}
	return r
}

// Do sends the request and reads the whole answer, in ten seconds at most.
func Do(t testing.TB, c *http.Client, r *http.Request) *Answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	resp, err := c.Do(r.WithContext(ctx))
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return newAnswer(resp)
}

// Dial connects to the proxy.
func (p *Proxy) Dial(t testing.TB) *Conn {
	t.Helper()
	return p.DialTo(t, p.Addr)
}

// DialTo connects to another port of the proxy, see Listen.
func (p *Proxy) DialTo(t testing.TB, addr string) *Conn {
	t.Helper()
	c, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		t.Fatal(err)
	}
	return newClientConn(t, p, c)
}

// Connect asks for a tunnel, and gets one. fields are lines of the head.
func (p *Proxy) Connect(t testing.TB, addr string, fields ...string) *Conn {
	t.Helper()
	c := p.Dial(t)
	if a := c.Connect(addr, fields...); a.StatusCode != http.StatusOK {
		t.Fatalf("CONNECT %s: %s %s", addr, a.Status, a.Text)
	}
	return c
}

// Connect asks for a tunnel and returns the answer.
func (c *Conn) Connect(addr string, fields ...string) *Answer {
	c.Send(fmt.Sprintf("CONNECT %s HTTP/1.1\r\nHost: %[1]s\r\n%s\r\n", addr, lines(fields)))
	return c.Answer(http.MethodConnect)
}

// Raw is a connection on which HTTP/1.1 can be written by hand: in a request
// line stands via.Target.
func (p *Proxy) Raw(t testing.TB, via Way) *Conn {
	t.Helper()
	if !via.Tunnel {
		return p.Dial(t)
	}
	c := p.Connect(t, via.addr(Host))
	if via.TLS {
		c = c.TLS(Host)
	}
	return c
}

// Head is a request's head for a path of Host, with its empty line.
func Head(method string, via Way, path string, fields ...string) string {
	return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n%s\r\n", method, via.Target(path), Host, lines(fields))
}

func lines(fields []string) string {
	if len(fields) == 0 {
		return ""
	}
	return strings.Join(fields, "\r\n") + "\r\n"
}

// Eventually waits until ok says so, which should be soon.
func Eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen in %v: %s", patience, what)
		}
	}
}
