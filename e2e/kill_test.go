package e2e_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// Eight clients are given a thousand cookies; the proxy is killed in the
// middle. What a client was given is there after a restart.
func TestNoCaptureThatAClientSawIsLostByKill(t *testing.T) {
	const clients, killAt = 8, 500
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := r.URL.Query().Get("set"); c != "" {
			w.Header().Add("Set-Cookie", c+"; Path=/; Max-Age=3600")
			return
		}
		io.WriteString(w, r.Header.Get("Cookie"))
	}))
	defer origin.Close()
	dir := t.TempDir()
	config := filepath.Join(dir, "sessionproxy.yaml")
	ca := filepath.Join(dir, "origin.pem")
	write(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: origin.Certificate().Raw}))
	write(t, config, fmt.Appendf(nil, `sites:
  - name: kill
    hosts: [example.com]
    origin: {ca: %s, resolve: {example.com: %q}}
`, ca, strings.TrimPrefix(origin.URL, "https://")))
	state := filepath.Join(dir, "state")

	i := start(t, "serve", "--config", config, "--state", state)
	var seen [clients]atomic.Int64 // the last value that each client was given
	var total atomic.Int64
	var wg sync.WaitGroup
	for n := range clients {
		wg.Go(func() {
			c := trusting(t, i, state)
			defer c.CloseIdleConnections()
			for v := int64(1); ; v++ {
				resp, err := c.Get(fmt.Sprintf("https://example.com/?set=c%d%%3D%d", n, v))
				if err != nil {
					return // killed
				}
				resp.Body.Close()
				if resp.Header.Get("Set-Cookie") == "" {
					t.Errorf("client %d: status %d without its cookie", n, resp.StatusCode)
					return
				}
				seen[n].Store(v)
				if total.Add(1) == killAt {
					i.cmd.Process.Signal(syscall.SIGKILL)
				}
			}
		})
	}
	wg.Wait()
	i.cmd.Wait() // killed
	if total.Load() < killAt {
		t.Fatalf("%d captures before the end, want %d", total.Load(), killAt)
	}

	again := start(t, "serve", "--config", config, "--state", state)
	c := trusting(t, again, state)
	defer c.CloseIdleConnections()
	resp, err := c.Get("https://example.com/")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	sent := map[string]int64{}
	for pair := range strings.SplitSeq(string(body), "; ") {
		name, value, _ := strings.Cut(pair, "=")
		sent[name], _ = strconv.ParseInt(value, 10, 64)
	}
	for n := range clients {
		// One more may have been captured whose reply never came.
		if got, want := sent[fmt.Sprintf("c%d", n)], seen[n].Load(); got != want && got != want+1 {
			t.Errorf("client %d was given %d; after the kill the session holds %d", n, want, got)
		}
	}
}

// trusting is a client of the instance's proxy that trusts its CA.
func trusting(t *testing.T, i *instance, state string) *http.Client {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(state, "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(b)
	return &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", Host: i.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: roots},
	}}
}

func write(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
