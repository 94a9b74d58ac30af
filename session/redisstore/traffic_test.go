package redisstore_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/redisstore/tracking"
)

// site is what the traffic logs in to: each cookie's value is a number that rises.
func site(w http.ResponseWriter, r *http.Request) {
	if name := r.URL.Query().Get("set"); name != "" {
		w.Header().Set("Set-Cookie", name+"="+r.URL.Query().Get("to")+"; Path=/; Secure; Max-Age=3600")
	}
	io.WriteString(w, r.Header.Get("Cookie"))
}

// openStore opens a store of its own for each proxy, as on machines of their own.
func openStore(t testing.TB, url string) *redisstore.Store {
	t.Helper()
	o, err := conn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := conn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	store, err := redisstore.Open(redisstore.Options{Client: client, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close the store: %v", err)
		}
		client.Close()
	})
	return store
}

// traffic is clients of two proxies that share a Redis.
type traffic struct {
	t       testing.TB
	world   *world.World
	proxies [2]*world.Proxy
	stores  [2]*redisstore.Store

	mu       sync.Mutex // guards what follows
	requests int
	failed   []string
	slowest  time.Duration
	given    map[string][]given // what clients saw set, by cookie
	stale    time.Duration      // how long a proxy sent a value after another was there to see
}

// given is a value that a client saw set, and when.
type given struct {
	value int
	at    time.Time
}

func begin(t *testing.T, urls ...string) *traffic {
	t.Helper()
	tr := &traffic{t: t, given: map[string][]given{}}
	w := world.New(t, world.Options{
		Handler: http.HandlerFunc(site), Faulty: true,
		Store: func(session.Store) session.Store { tr.stores[0] = openStore(t, urls[0]); return tr.stores[0] },
	})
	tr.stores[1] = openStore(t, urls[len(urls)-1])
	tr.world, tr.proxies = w, [2]*world.Proxy{w.Proxy, w.AddProxyOn(tr.stores[1])}
	return tr
}

// get asks a proxy for a path and returns the cookies that the site saw.
func (tr *traffic) get(ctx context.Context, proxy int, path string) (map[string]int, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, world.TunnelH1.URL(path), nil)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	resp, err := tr.proxies[proxy].Client(world.TunnelH1).Do(r)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.requests++
	tr.slowest = max(tr.slowest, time.Since(began))
	if err != nil {
		tr.failed = append(tr.failed, err.Error())
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		tr.failed = append(tr.failed, fmt.Sprintf("%s %s %v", resp.Status, resp.Header.Get("Proxy-Status"), err))
		return nil, fmt.Errorf("status %d: %w", resp.StatusCode, err)
	}
	return sent(string(body)), nil
}

// sent are the cookies that the site says it saw.
func sent(body string) map[string]int {
	cookies := map[string]int{}
	for pair := range strings.SplitSeq(body, "; ") {
		if name, value, ok := strings.Cut(pair, "="); ok {
			cookies[name], _ = strconv.Atoi(value)
		}
	}
	return cookies
}

// last are the values that clients have seen set until now.
func (tr *traffic) last() map[string]int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	values := map[string]int{}
	for name, g := range tr.given {
		values[name] = g[len(g)-1].value
	}
	return values
}

// set has the site set a cookie, and notes what the client saw.
func (tr *traffic) set(ctx context.Context, proxy int, name string, value int) {
	if _, err := tr.get(ctx, proxy, "/?"+url.Values{"set": {name}, "to": {strconv.Itoa(value)}}.Encode()); err != nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.given[name] = append(tr.given[name], given{value, time.Now()})
}

// look asks a proxy for a page, and notes how old a cookie was that it sent.
func (tr *traffic) look(ctx context.Context, proxy int, name string) {
	began := time.Now()
	cookies, err := tr.get(ctx, proxy, "/")
	if err != nil {
		return
	}
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for _, g := range tr.given[name] {
		if g.value > cookies[name] && g.at.Before(began) {
			tr.stale = max(tr.stale, began.Sub(g.at))
			return
		}
	}
}

// through has clients set cookies by either proxy and look by both while a fault
// happens, and until it is mended. It reports the figures.
func (tr *traffic) through(fault func()) {
	tr.t.Helper()
	ctx, stop := context.WithCancel(tr.t.Context())
	var wg sync.WaitGroup
	for i := range 4 {
		name := fmt.Sprintf("c%d", i)
		wg.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				tr.set(ctx, i%2, name, n)
				tr.look(ctx, i%2, name)
				tr.look(ctx, 1-i%2, name)
				time.Sleep(time.Millisecond)
			}
		})
	}
	time.Sleep(300 * time.Millisecond)
	fault()
	time.Sleep(300 * time.Millisecond)
	eventually(20*time.Second, tr.loaded) // a busy machine takes its time
	stop()
	wg.Wait()
	tr.mu.Lock()
	defer tr.mu.Unlock()
	sets := 0
	for _, g := range tr.given {
		sets += len(g)
	}
	tr.t.Logf("%d requests, %d failed, slowest %v; %d captures; stale for %v at most",
		tr.requests, len(tr.failed), tr.slowest.Round(time.Millisecond), sets, tr.stale.Round(10*time.Microsecond))
	if len(tr.failed) > 0 {
		slices.Sort(tr.failed)
		tr.t.Errorf("%d of %d requests failed: %q", len(tr.failed), tr.requests, slices.Compact(tr.failed))
	}
	for name, g := range tr.given {
		if len(g) < 10 {
			tr.t.Errorf("%s was set %d times: no load", name, len(g))
		}
	}
}

// loaded says whether each client has set its cookie so often that there was load.
func (tr *traffic) loaded() bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	for i := range 4 {
		if len(tr.given[fmt.Sprintf("c%d", i)]) < 10 {
			return false
		}
	}
	return true
}

// kept waits until both proxies send what clients saw last: no capture is lost.
func (tr *traffic) kept() {
	tr.t.Helper()
	for proxy := range tr.proxies {
		for name, g := range tr.given {
			last := g[len(g)-1].value
			var got atomic.Int64
			ok := eventually(10*time.Second, func() bool {
				cookies, err := tr.get(tr.t.Context(), proxy, "/")
				got.Store(int64(cookies[name]))
				return err == nil && cookies[name] >= last // one more may have been captured whose client went
			})
			if !ok {
				tr.t.Errorf("proxy %d sends %s=%d, and a client saw %d set", proxy, name, got.Load(), last)
			}
		}
	}
}

func eventually(within time.Duration, holds func() bool) bool {
	for deadline := time.Now().Add(within); ; time.Sleep(10 * time.Millisecond) {
		if holds() {
			return true
		}
		if time.Now().After(deadline) {
			return false
		}
	}
}

// Whatever becomes of Redis under load, no request fails for it, and no capture
// is lost where Redis comes back with its data, or with none.
func TestTrafficGoesOnThroughFaults(t *testing.T) {
	for _, tt := range []struct {
		name  string
		start func(t *testing.T) (url string, fault func())
	}{
		{"kill -9, and a restart with its data", func(t *testing.T) (string, func()) {
			s := redistest.Single(t)
			return s.URL(), func() { s.Kill(); time.Sleep(time.Second); s.Start() }
		}},
		{"kill -9, and a restart without", func(t *testing.T) (string, func()) {
			s := redistest.Single(t)
			return s.URL(), func() { s.Kill(); s.Wipe(); time.Sleep(time.Second); s.Start() }
		}},
		{"a stalled road", func(t *testing.T) (string, func()) {
			r := redistest.NewRelay(t, redistest.Single(t).Addr)
			return "redis://" + r.Addr, func() { r.Stall(); time.Sleep(2 * time.Second); r.Resume() }
		}},
		{"connections that a router forgot", func(t *testing.T) (string, func()) {
			r := redistest.NewRelay(t, redistest.Single(t).Addr)
			return "redis://" + r.Addr, func() { r.Lose(); time.Sleep(2 * time.Second) }
		}},
		{"a frozen server", func(t *testing.T) (string, func()) {
			s := redistest.Single(t)
			return s.URL(), func() { s.Freeze(); time.Sleep(2 * time.Second); s.Thaw() }
		}},
		{"a full memory", func(t *testing.T) (string, func()) {
			s := redistest.Single(t)
			return s.URL(), func() {
				s.Do("CONFIG", "SET", "maxmemory", "1")
				time.Sleep(time.Second)
				s.Do("CONFIG", "SET", "maxmemory", "0")
			}
		}},
		{"FLUSHALL", func(t *testing.T) (string, func()) {
			s := redistest.Single(t)
			return s.URL(), func() { s.Do("FLUSHALL") }
		}},
		{"killed connections", func(t *testing.T) (string, func()) {
			s := redistest.Single(t)
			return s.URL(), func() {
				for range 20 {
					s.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
					s.Do("CLIENT", "KILL", "TYPE", "pubsub")
					time.Sleep(50 * time.Millisecond)
				}
			}
		}},
		{"a graceful failover by Sentinels", func(t *testing.T) (string, func()) {
			g := redistest.Sentinel(t, redistest.Conf("min-replicas-to-write 1", "min-replicas-max-lag 1"))
			return g.URL(), func() { g.Failover(); time.Sleep(2 * time.Second) }
		}},
		{"a killed master behind Sentinels", func(t *testing.T) (string, func()) {
			g := redistest.Sentinel(t)
			return g.URL(), func() {
				old := g.Master()
				old.Kill()
				g.WaitMaster(old)
				time.Sleep(time.Second)
			}
		}},
		{"a lost node of a Cluster", func(t *testing.T) (string, func()) {
			c := redistest.Cluster(t)
			return c.URL(), func() {
				n := c.Master(conn.Slot("session:cookies:" + world.Host))
				n.Kill()
				c.WaitFailover(n)
				time.Sleep(time.Second)
			}
		}},
		{"a slot that moves", func(t *testing.T) (string, func()) {
			c := redistest.Cluster(t)
			slot := conn.Slot("session:cookies:" + world.Host)
			return c.URL(), func() {
				for _, n := range c.Nodes[:3] {
					if n != c.Master(slot) {
						c.MoveSlot(slot, n)
						time.Sleep(500 * time.Millisecond)
					}
				}
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url, fault := tt.start(t)
			tr := begin(t, url)
			tr.through(fault)
			tr.kept()
		})
	}
}

// One proxy's road breaks without a word; the other goes on.
// The first request of a proxy that joins under load is logged in.
func TestAProxyThatJoinsUnderLoadIsLoggedInAtOnce(t *testing.T) {
	s := redistest.Single(t)
	tr := begin(t, s.URL())
	tr.through(func() {
		for range 5 {
			known := tr.last()
			answer := tr.world.AddProxyOn(openStore(t, s.URL())).Get(t, world.TunnelH1, "/")
			for name, value := range known {
				if got := sent(answer.Text)[name]; got < value {
					t.Errorf("the first request left with %s=%d, and a client had seen %d", name, got, value)
				}
			}
		}
	})
}

func TestAHalfOpenRoadIsStaleForAMomentOnly(t *testing.T) {
	s := redistest.Single(t)
	r := redistest.NewRelay(t, s.Addr)
	tr := begin(t, s.URL(), "redis://"+r.Addr)
	tr.through(func() {
		r.Lose()
		time.Sleep(3 * time.Second)
	})
	tr.kept()
	if tr.stale > tracking.MaxStale {
		t.Errorf("a proxy sent what was replaced %v before, want %v at most", tr.stale, tracking.MaxStale)
	}
}
