package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// processes are proxies that run as programs of their own, as on machines of
// their own, before a site of the test's.
type processes struct {
	t       *testing.T
	dir     string
	ca      *x509.CertPool // of the proxies
	site    string         // where the site listens
	proxies []*process
}

// process is one of them.
type process struct {
	name, listen, admin, ops string
	args                     []string

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

// newProcesses serves the site at https://shop.test.
func newProcesses(t *testing.T, site http.Handler) *processes {
	t.Helper()
	p := &processes{t: t, dir: t.TempDir(), ca: x509.NewCertPool()}
	for _, name := range []string{"site", "proxy"} {
		if err := os.Mkdir(filepath.Join(p.dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	origin, err := certs.Open(filepath.Join(p.dir, "site"), nil)
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := certs.Open(filepath.Join(p.dir, "proxy"), nil)
	if err != nil {
		t.Fatal(err)
	}
	p.ca.AppendCertsFromPEM(proxies.PEM())
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p.site = ln.Addr().String()
	server := &http.Server{Handler: site, ErrorLog: log.New(io.Discard, "", 0), TLSConfig: &tls.Config{
		GetCertificate: func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return origin.Leaf(h.Context(), h.ServerName) },
	}}
	var wg sync.WaitGroup
	wg.Go(func() { _ = server.ServeTLS(ln, "", "") }) // says that it was closed
	t.Cleanup(func() { server.Close(); wg.Wait() })
	return p
}

// add starts a proxy with that store. The site knows its requests by the field
// Via-Proxy. login is what the configuration says below login.
func (p *processes) add(store, login string) *process {
	p.t.Helper()
	name := fmt.Sprintf("p%d", len(p.proxies))
	q := &process{name: name, listen: freeport.Addr(p.t), admin: freeport.Addr(p.t), ops: freeport.Addr(p.t)}
	file := filepath.Join(p.dir, name+".yaml")
	text := fmt.Sprintf(`
listen: [{addr: %q, auth: none}]
admin: %q
ops: %q
state: %q
store: %q
ca: {cert: proxy/ca.pem, key: proxy/ca.key}
sites:
  - name: shop
    hosts: [shop.test]
    origin: {ca: site/ca.pem, resolve: {shop.test: %q}}
    headers: {Via-Proxy: %s}
    login: %s
`, q.listen, q.admin, q.ops, filepath.Join(p.dir, name), store, p.site, name, login)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	q.args = []string{"serve", "--config", file}
	p.proxies = append(p.proxies, q)
	p.t.Cleanup(q.kill)
	p.start(q)
	return q
}

// start runs a proxy, and waits until it serves.
func (p *processes) start(q *process) {
	p.t.Helper()
	cmd := exec.Command("sessionproxy", q.args...)
	cmd.Env = append(os.Environ(), "SHOP_PASSWORD=wonderland")
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	q.mu.Lock()
	q.cmd = cmd
	q.mu.Unlock()
	redistest.Eventually(p.t, 30*time.Second, "the proxy serves", func() bool { return get(p.t, "http://"+q.ops+"/readyz") == "ready" })
}

// kill ends the process as kill -9 does, once.
func (q *process) kill() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.cmd != nil {
		_ = q.cmd.Process.Kill()
		_ = q.cmd.Wait() // says that it was killed
		q.cmd = nil
	}
}

// client sends requests through a proxy, all by one HTTP/2 connection.
func (p *processes) client(q *process) *http.Client {
	tr := &http.Transport{
		Proxy:             http.ProxyURL(&url.URL{Scheme: "http", Host: q.listen}),
		TLSClientConfig:   &tls.Config{RootCAs: p.ca},
		ForceAttemptHTTP2: true,
	}
	p.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
}

// answer is what a client got.
type answer struct {
	status   int
	location string
	body     string
}

// ask sends a request by the clients in turn, until a proxy answers: what dies
// with its proxy is sent to the next one.
func (p *processes) ask(clients []*http.Client, first int, request func(ctx context.Context) (*http.Request, error)) (answer, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), 2*time.Minute)
	defer cancel()
	for n := first; ; n++ {
		r, err := request(ctx)
		if err != nil {
			return answer{}, err
		}
		resp, err := clients[n%len(clients)].Do(r)
		if err == nil {
			var body []byte
			body, err = io.ReadAll(resp.Body)
			resp.Body.Close()
			if err == nil {
				return answer{resp.StatusCode, resp.Header.Get("Location"), string(body)}, nil
			}
		}
		if ctx.Err() != nil {
			return answer{}, err
		}
		time.Sleep(20 * time.Millisecond) // nobody may listen on its port
	}
}

// seeing is a way to a Redis that calls seen before it passes on what holds text.
func seeing(t *testing.T, target, text string, seen func()) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			near, err := ln.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", target)
			if err != nil {
				near.Close()
				continue
			}
			wg.Go(func() { _, _ = io.Copy(near, far); near.Close() })
			wg.Go(func() {
				defer far.Close()
				for buf := make([]byte, 64<<10); ; {
					n, err := near.Read(buf)
					if bytes.Contains(buf[:n], []byte(text)) {
						seen()
					}
					if _, werr := far.Write(buf[:n]); err != nil || werr != nil {
						return
					}
				}
			})
		}
	})
	t.Cleanup(func() { ln.Close(); wg.Wait() })
	return ln.Addr().String()
}
