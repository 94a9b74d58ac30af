// Package pebbletest runs Pebble, Let's Encrypt's ACME server for tests, on
// loopback. Every name leads to 127.0.0.1, and nothing waits for anything.
//
// Pebble is fetched and built by the go command, at the version below: it is no
// part of this module, whose users need not have it.
package pebbletest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

const program = "github.com/letsencrypt/pebble/v2/cmd/pebble@v2.10.3"

// built is Pebble, built once a process. The build cache has its parts.
var built = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "pebbletest-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	cmd := exec.Command("go", "install", program)
	cmd.Dir = dir // outside of any module
	cmd.Env = append(os.Environ(), "GOBIN="+dir, "GOFLAGS=")
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go install %s: %w\n%s", program, err, out)
	}
	return os.ReadFile(filepath.Join(dir, "pebble"))
})

// Options say where a Pebble looks for the answers to its challenges, at
// 127.0.0.1, and how long its certificates live.
type Options struct {
	HTTP, TLS string        // ports, or addresses with them, for http-01 and tls-alpn-01
	Life      time.Duration // of a certificate; 90 days
}

// Pebble is one that runs.
type Pebble struct {
	// Directory is its URL, and CA the file (PEM) that its server is verified
	// against. That of the certificates that it issues is Root's.
	Directory, CA string

	// DNS is what it asks where names lead.
	DNS *DNS

	t          testing.TB
	management string
	client     *http.Client
	log        *log
}

// Start runs one until the test ends.
func Start(t testing.TB, o Options) *Pebble {
	t.Helper()
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "pebble")
	if err := os.WriteFile(path, program, 0o700); err != nil {
		t.Fatal(err)
	}
	ca, cert, key := certificate(t, dir)
	p := &Pebble{CA: ca, DNS: startDNS(t), t: t, log: new(log)}
	if o.Life == 0 {
		o.Life = 90 * 24 * time.Hour
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	p.client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, DisableKeepAlives: true}}
	for range 5 { // another program may take a port between its choice and its use
		addr, management := freeport.Addr(t), freeport.Addr(t)
		p.Directory, p.management = "https://"+addr+"/dir", "https://"+management
		config := filepath.Join(dir, "pebble.json")
		text, err := json.Marshal(map[string]any{"pebble": map[string]any{
			"listenAddress": addr, "managementListenAddress": management, "certificate": cert, "privateKey": key,
			"httpPort": port(t, o.HTTP), "tlsPort": port(t, o.TLS), "keyAlgorithm": "ecdsa",
			"retryAfter": map[string]int{"authz": 1, "order": 1},
			"profiles": map[string]any{"default": map[string]any{
				"description": "of the test", "validityPeriod": int(o.Life.Seconds()),
			}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if p.run(path, config) {
			return p
		}
	}
	t.Fatalf("Pebble does not start; it wrote:\n%s", p.log)
	return nil
}

// run starts the process, and returns false where it ends before it answers.
func (p *Pebble) run(path, config string) bool {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, "-config", config, "-dnsserver", p.DNS.addr)
	cmd.Env = append(os.Environ(), "PEBBLE_VA_NOSLEEP=1", "PEBBLE_WFE_NONCEREJECT=0")
	cmd.Stdout, cmd.Stderr = p.log, p.log
	if err := cmd.Start(); err != nil {
		stop()
		p.t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // killed
		close(ended)
	}()
	p.t.Cleanup(func() {
		stop()
		<-ended
		if p.t.Failed() {
			p.t.Logf("Pebble wrote:\n%s", p.log)
		}
	})
	for {
		if _, err := p.get(p.Directory); err == nil {
			return true
		}
		select {
		case <-ended:
			return false
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (p *Pebble) get(url string) ([]byte, error) {
	resp, err := p.client.Get(url)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("GET %s: %s", url, resp.Status)
	}
	return io.ReadAll(resp.Body)
}

// Root is what the certificates that it issues are verified against, in PEM.
func (p *Pebble) Root() []byte {
	p.t.Helper()
	pem, err := p.get(p.management + "/roots/0")
	if err != nil {
		p.t.Fatal(err)
	}
	return pem
}

// Orders counts those that it took.
func (p *Pebble) Orders() int { return strings.Count(p.log.String(), "Added order ") }

// Issued counts the certificates that it made.
func (p *Pebble) Issued() int { return strings.Count(p.log.String(), "Issued certificate serial ") }

func port(t testing.TB, addr string) int {
	t.Helper()
	if addr == "" {
		return 9 // discard: nobody is there
	}
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

// log is what a process writes while a test reads.
type log struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

// Write is of [io.Writer].
func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
