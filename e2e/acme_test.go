package e2e_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/internal/pebbletest"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

const proxyName = "proxy.test"

// acmeProxies are addresses of two proxies that share a Redis and fetch a
// certificate for proxy.test.
type acmeProxies struct {
	dir    string
	redis  *redistest.Server
	pebble *pebbletest.Pebble
	https  [2]string // HTTPS proxy ports
	http   [2]string // for http-01
	roots  string    // PEM file, to verify them
}

// newACMEProxies has Pebble look at both, through balancers: whoever fetches,
// any of those that run is asked.
func newACMEProxies(t *testing.T, life time.Duration) *acmeProxies {
	t.Helper()
	p := &acmeProxies{dir: t.TempDir(), redis: redistest.Single(t)}
	for i := range p.https {
		p.https[i], p.http[i] = freeport.Addr(t), freeport.Addr(t)
	}
	p.pebble = pebbletest.Start(t, pebbletest.Options{HTTP: balance(t, p.http[:]), TLS: balance(t, p.https[:]), Life: life})
	p.roots = filepath.Join(p.dir, "roots.pem")
	write(t, p.roots, p.pebble.Root())
	return p
}

// balance is an address whose connections lead to each of addrs in turn, of
// those that somebody serves.
func balance(t *testing.T, addrs []string) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	open.Go(func() {
		for turn := 0; ; turn++ {
			client, err := ln.Accept()
			if err != nil {
				return // closed
			}
			open.Go(func() {
				defer client.Close()
				for i := range addrs {
					server, err := net.Dial("tcp", addrs[(turn+i)%len(addrs)])
					if err != nil {
						continue
					}
					defer server.Close()
					go io.Copy(server, client)
					io.Copy(client, server)
					return
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		open.Wait()
	})
	return ln.Addr().String()
}

// start starts one of the two. The first makes the CA that both sign with.
func (p *acmeProxies) start(t *testing.T, n int) *instance {
	t.Helper()
	config, state := filepath.Join(p.dir, fmt.Sprintf("proxy%d.yaml", n)), filepath.Join(p.dir, fmt.Sprintf("state%d", n))
	text := fmt.Sprintf("store: %s\ntls: {domains: [%s], email: ops@%[2]s, acme: %q, acme_ca: %s, http: %q}\nsites: [{name: shop, hosts: [shop.test]}]\n",
		p.redis.URL(), proxyName, p.pebble.Directory, p.pebble.CA, p.http[n])
	if n > 0 {
		text += fmt.Sprintf("ca: {cert: %s, key: %s}\n", filepath.Join(p.dir, "state0", "ca.pem"), filepath.Join(p.dir, "state0", "ca.key"))
	}
	write(t, config, []byte(text))
	return start(t, "serve", "--config", config, "--state", state, "--listen", p.https[n]+",tls")
}

// serial is that of the certificate that a proxy shows, "" while it has none.
func (p *acmeProxies) serial(n int) string {
	conn, err := tls.Dial("tcp", p.https[n], &tls.Config{ServerName: proxyName, InsecureSkipVerify: true})
	if err != nil {
		return ""
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// waitFor waits longer than waitUntil: for locks that end, and certificates.
func waitFor(t *testing.T, limit time.Duration, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not %s in %v", what, limit)
		}
	}
}

func readyz(t *testing.T, i *instance) string {
	t.Helper()
	resp, err := http.Get("http://" + i.ops + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

// Two proxies get one certificate, and a browser takes it.
func TestTwoProxiesGetOneCertificate(t *testing.T) {
	t.Parallel()
	p := newACMEProxies(t, 0)
	first, second := p.start(t, 0), p.start(t, 1)
	for _, i := range []*instance{first, second} {
		waitFor(t, time.Minute, "ready", func() bool { return readyz(t, i) == "ready" })
	}
	if a, b := p.serial(0), p.serial(1); a == "" || a != b {
		t.Errorf("they show the certificates %q and %q", a, b)
	}
	if orders, issued := p.pebble.Orders(), p.pebble.Issued(); orders != 1 || issued != 1 {
		t.Errorf("%d orders, %d certificates, want one", orders, issued)
	}

	for n := range p.https {
		_, port, _ := strings.Cut(p.https[n], ":")
		page, err := curl(t, "-sS", "--resolve", proxyName+":"+port+":127.0.0.1", "--proxy-cacert", p.roots,
			"-x", "https://"+proxyName+":"+port, "http://sessionproxy.internal/")
		if err != nil || !strings.Contains(page, "sessionproxy") {
			t.Errorf("curl by proxy %d: %v\n%s", n, err, page)
		}
		cmd := exec.CommandContext(t.Context(), headless(t), "--host-resolver-rules=MAP "+proxyName+" 127.0.0.1",
			"--proxy-server=https://"+proxyName+":"+port, "--user-data-dir="+t.TempDir(), "--dump-dom", "http://sessionproxy.internal/")
		cmd.Env = append(os.Environ(), "HOME="+trustingHome(t, p.roots))
		if page, err := cmd.Output(); err != nil || !strings.Contains(string(page), "<title>sessionproxy") {
			t.Errorf("Chromium by proxy %d: %v\n%s", n, err, page)
		}
	}
	for _, i := range []*instance{first, second} {
		resp, err := http.Get("http://" + i.ops + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		metrics, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !regexp.MustCompile(`(?m)^sessionproxy_certificate_not_after_timestamp_seconds\{certificate="proxy.test"\} 1\.\d+e\+09$`).Match(metrics) {
			t.Errorf("no expiry in the metrics: %v", err)
		}
	}
}

// A certificate that is due is renewed, and both proxies show the new one,
// without a word from anybody.
func TestTwoProxiesRenewOneCertificate(t *testing.T) {
	t.Parallel()
	p := newACMEProxies(t, 20*time.Second)
	p.start(t, 0)
	p.start(t, 1)
	var old string
	waitFor(t, time.Minute, "fetched", func() bool { old = p.serial(0); return old != "" })
	for n := range p.https {
		waitFor(t, 2*time.Minute, "renewed", func() bool { s := p.serial(n); return s != "" && s != old })
	}
}

// The one that fetches is killed while the authority looks at it; the other
// goes on when its lock ends.
func TestAProxyIsKilledWhileItFetches(t *testing.T) {
	t.Parallel()
	p := newACMEProxies(t, 0)
	looks, release := p.pebble.DNS.Hold()
	first := p.start(t, 0)
	<-looks // the order is placed, the lock held
	p.start(t, 1)
	if state := p.serial(1); state != "" {
		t.Fatal("there is a certificate already")
	}
	first.stop(t, syscall.SIGKILL)
	release()
	waitFor(t, 2*time.Minute, "fetched by the other", func() bool { return p.serial(1) != "" })
	if issued := p.pebble.Issued(); issued != 1 {
		t.Errorf("%d certificates, want one", issued)
	}
	if left := p.redis.Client().Keys(t.Context(), "session:acme:*:lock:*").Val(); len(left) > 0 {
		waitFor(t, time.Minute, "freed", func() bool { return len(p.redis.Client().Keys(t.Context(), "session:acme:*:lock:*").Val()) == 0 })
	}
}
