package e2e_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// The programs that worked with the hash before there was a proxy.
var workers = []struct {
	name    string
	command []string
}{
	{"Python", []string{"/usr/bin/python3", "worker.py"}},
	{"Node", []string{"node", "worker.mjs"}},
}

// shared is two proxies and workers on one Redis.
type shared struct {
	t       *testing.T
	redis   *redistest.Server
	clients [2]*http.Client
}

const workSite = "example.com"

func share(t *testing.T) *shared {
	t.Helper()
	origin := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := r.URL.Query().Get("set"); c != "" {
			w.Header().Add("Set-Cookie", c+"; Path=/; Max-Age=3600")
		}
		io.WriteString(w, r.Header.Get("Cookie"))
	}))
	t.Cleanup(origin.Close)
	s := &shared{t: t, redis: redistest.Single(t)}
	dir := t.TempDir()
	ca := filepath.Join(dir, "origin.pem")
	write(t, ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: origin.Certificate().Raw}))
	first := filepath.Join(dir, "state0")
	for i := range s.clients {
		config, state := filepath.Join(dir, fmt.Sprintf("proxy%d.yaml", i)), filepath.Join(dir, fmt.Sprintf("state%d", i))
		text := fmt.Sprintf("store: %s\nsites:\n  - name: work\n    hosts: [%s]\n    origin: {ca: %s, resolve: {%[2]s: %[4]q}}\n",
			s.redis.URL(), workSite, ca, strings.TrimPrefix(origin.URL, "https://"))
		if i > 0 { // proxies on one Redis sign with one CA
			text += fmt.Sprintf("ca: {cert: %s, key: %s}\n", filepath.Join(first, "ca.pem"), filepath.Join(first, "ca.key"))
		}
		write(t, config, []byte(text))
		s.clients[i] = trusting(t, start(t, "serve", "--config", config, "--state", state), first)
		t.Cleanup(s.clients[i].CloseIdleConnections)
	}
	return s
}

// get asks the site through a proxy, and returns the cookies that it saw.
func (s *shared) get(proxy int, query string) (map[string]string, error) {
	resp, err := s.clients[proxy].Get("https://" + workSite + "/" + query)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %w", resp.Status, err)
	}
	cookies := map[string]string{}
	for pair := range strings.SplitSeq(string(body), "; ") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			cookies[name] = value
		}
	}
	return cookies, nil
}

// set has the site set a cookie through a proxy.
func (s *shared) set(proxy int, cookie string) {
	s.t.Helper()
	if _, err := s.get(proxy, "?set="+strings.ReplaceAll(cookie, "=", "%3D")); err != nil {
		s.t.Fatal(err)
	}
}

// sends waits until a proxy sends a cookie; "" none.
func (s *shared) sends(proxy int, name, value string) {
	s.t.Helper()
	waitUntil(s.t, fmt.Sprintf("proxy %d sends %s=%s", proxy, name, value), func() bool {
		cookies, err := s.get(proxy, "")
		return err == nil && cookies[name] == value
	})
}

func (s *shared) run(command []string, args ...string) string {
	s.t.Helper()
	return output(s.t, nil, command[0], append(append(command[1:len(command):len(command)], s.redis.URL()), args...)...)
}

func TestWorkersShareALoginWithProxiedClients(t *testing.T) {
	s := share(t)
	for _, w := range workers {
		t.Run(w.name, func(t *testing.T) {
			s.t = t
			load := func() map[string]string {
				t.Helper()
				var cookies map[string]string
				if err := json.Unmarshal([]byte(s.run(w.command, "load", workSite)), &cookies); err != nil {
					t.Fatal(err)
				}
				return cookies
			}
			s.set(0, "sid=from-"+w.name)
			if got := load()["sid"]; got != "from-"+w.name {
				t.Errorf("the worker loads sid=%q after a client logged in", got)
			}
			s.run(w.command, "save", workSite, "sid=by-"+w.name, "more="+w.name+"=b")
			for proxy := range s.clients {
				s.sends(proxy, "sid", "by-"+w.name)
				s.sends(proxy, "more", w.name+"=b")
			}
			s.run(w.command, "save", workSite, "sid=from-"+w.name) // what it loaded before
			waitUntil(t, "what is old is put right", func() bool { return load()["sid"] == "by-"+w.name })
			s.run(w.command, "forget", workSite, "more")
			for proxy := range s.clients {
				s.sends(proxy, "sid", "by-"+w.name)
				s.sends(proxy, "more", "")
			}
			s.set(1, "sid=again-"+w.name)
			s.sends(0, "sid", "again-"+w.name)
			if got := load()["sid"]; got != "again-"+w.name {
				t.Errorf("the worker loads sid=%q after a client logged in again", got)
			}
		})
	}
}

// Proxies and workers write for a minute, each a number of its own that rises;
// and the workers save all that they loaded. No request sees a number fall, and
// the last ones stay.
func TestBothSidesWriteForAMinute(t *testing.T) {
	s := share(t)
	s.set(0, "begin=1")
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	last := map[string]int{}
	var wg sync.WaitGroup
	for _, w := range workers {
		wg.Go(func() {
			cmd := exec.CommandContext(t.Context(), w.command[0], append(append(w.command[1:len(w.command):len(w.command)], s.redis.URL()), "work", workSite, w.name, "60")...)
			out, err := cmd.Output()
			n, _ := strconv.Atoi(strings.TrimSpace(string(out)))
			mu.Lock()
			defer mu.Unlock()
			last[w.name] = n
			if err != nil || n < 100 {
				t.Errorf("%s: %d writes, %v", w.name, n, err)
			}
		})
	}
	requests := 0
	for proxy := range s.clients {
		wg.Go(func() {
			name, seen := fmt.Sprintf("proxy%d", proxy), map[string]int{}
			for n := 1; ctx.Err() == nil; n++ {
				for _, query := range []string{fmt.Sprintf("?set=%s%%3D%d", name, n), ""} {
					cookies, err := s.get(proxy, query)
					if err != nil {
						t.Errorf("proxy %d: %v", proxy, err)
						return
					}
					mu.Lock()
					requests++
					mu.Unlock()
					for c, text := range cookies {
						v, _ := strconv.Atoi(text)
						if v < seen[c] {
							t.Errorf("proxy %d sends %s=%d after %d", proxy, c, v, seen[c])
						}
						seen[c] = v
					}
				}
				mu.Lock()
				last[name] = n
				mu.Unlock()
				time.Sleep(40 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests; last numbers %v", requests, last)
	for name, n := range last {
		for proxy := range s.clients {
			s.sends(proxy, name, strconv.Itoa(n))
		}
		if got := s.redis.Do("HGET", "session:cookies:"+workSite, name); got != strconv.Itoa(n) {
			t.Errorf("the hash has %s=%v, want %d", name, got, n)
		}
	}
}
