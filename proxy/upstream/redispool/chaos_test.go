package redispool_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/redispool"
)

var chaosFor = flag.Duration("chaos", 20*time.Second, "how long TestChaos lasts")

const (
	chaosWorkers   = 50
	chaosProxies   = 10
	chaosUpstreams = 20
	// All run in one process here, which a busy machine may stop for longer
	// than the margin of a shorter lease.
	chaosLease = 6 * time.Second
)

// mortal is the ledger of a proxy that can die without a word.
type mortal struct {
	upstream.Ledger
	dead atomic.Bool
}

var errDead = errors.New("the proxy is dead")

func (m *mortal) Release(ctx context.Context, pool string, back []upstream.Return) error {
	if m.dead.Load() {
		return errDead
	}
	return m.Ledger.Release(ctx, pool, back)
}

// witness is an origin that knows who leaves by which upstream at every moment.
type witness struct {
	t         *testing.T
	upstreams []*world.Upstream

	mu     sync.Mutex // guards what follows
	inside []map[string]int
	served int
}

func (w *witness) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	who := r.Header.Get("X-Worker")
	by := -1
	for i, u := range w.upstreams {
		if u.Is(r.RemoteAddr) {
			by = i
		}
	}
	if by < 0 { // the upstream may have been killed just now
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
			w.t.Errorf("%s came directly", who)
		}
		return
	}
	w.mu.Lock()
	w.inside[by][who]++
	if len(w.inside[by]) > 1 {
		w.t.Errorf("at one moment these left by the upstream %d: %v", by, w.inside[by])
	}
	w.served++
	w.mu.Unlock()
	select {
	case <-time.After(rand.N(20 * time.Millisecond)):
	case <-r.Context().Done():
	}
	w.mu.Lock()
	if w.inside[by][who]--; w.inside[by][who] == 0 {
		delete(w.inside[by], who)
	}
	w.mu.Unlock()
	io.WriteString(rw, "served")
}

// Workers, proxies, upstreams and Redis, each of which dies now and then: no
// upstream serves two owners at one moment, none is lost, nothing goes directly.
func TestChaos(t *testing.T) {
	server := redistest.Single(t)
	site := &witness{t: t}
	for range chaosUpstreams {
		site.upstreams = append(site.upstreams, world.NewUpstream(t, world.UpstreamOptions{}))
		site.inside = append(site.inside, map[string]int{})
	}
	upstreams := world.Pool(site.upstreams...)
	upstreams.Idle, upstreams.Wait = 100*time.Millisecond, 2*time.Second
	rdb := client(t, server)

	var mu sync.Mutex
	var last *mortal // of the proxy that was made last
	w := world.New(t, world.Options{
		Handler: site, Faulty: true,
		Leases: func() upstream.Ledger {
			last = &mortal{Ledger: redispool.New(redispool.Options{
				Client: rdb, Prefix: "session:", Log: slog.New(slog.DiscardHandler), LeaseTime: chaosLease, ForeignTime: time.Minute,
			})}
			return last
		},
		Config: func(c *config.Config) {
			c.Upstream, c.Upstreams, c.Sites[0].Upstream = pool, map[string]config.Pool{pool: upstreams}, pool
		},
	})
	type running struct {
		*world.Proxy
		ledger *mortal
	}
	proxies := []running{{w.Proxy, last}}
	for range chaosProxies - 1 {
		p := w.AddProxy()
		proxies = append(proxies, running{p, last})
	}

	ctx, cancel := context.WithTimeout(t.Context(), *chaosFor)
	defer cancel()
	var ok, refused, failed atomic.Int64
	var wg sync.WaitGroup
	for n := range chaosWorkers {
		name := fmt.Sprint("w", n)
		wg.Go(func() {
			via := []world.Way{world.Plain, world.TunnelH1, world.Plain, world.TunnelH2}[n%4]
			for ctx.Err() == nil {
				mu.Lock()
				p := proxies[rand.IntN(len(proxies))]
				mu.Unlock()
				for range 1 + rand.IntN(10) {
					r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, via.URL("/"), nil)
					if err != nil {
						t.Error(err)
						return
					}
					r.Header.Set("X-Worker", name)
					resp, err := p.ClientAs(via, world.User{Name: "crawler-worker-" + name}).Do(r)
					if err != nil {
						failed.Add(1) // its proxy was killed
						break
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode == http.StatusOK {
						ok.Add(1)
					} else {
						refused.Add(1)
					}
				}
				rest(ctx, 50*time.Millisecond)
			}
		})
	}
	wg.Go(func() { // kills proxies
		for rest(ctx, 2*time.Second) {
			n := rand.IntN(chaosProxies)
			mu.Lock()
			p := proxies[n]
			mu.Unlock()
			p.ledger.dead.Store(true)
			p.Abort()
			mu.Lock()
			proxies[n].Proxy = w.AddProxy()
			proxies[n].ledger = last
			mu.Unlock()
		}
	})
	wg.Go(func() { // kills upstreams
		for rest(ctx, time.Second) {
			u := site.upstreams[rand.IntN(chaosUpstreams)]
			u.Kill()
			rest(ctx, 500*time.Millisecond)
			u.Restart()
		}
	})
	wg.Go(func() { // kills Redis
		for n := 0; rest(ctx, 8*time.Second); n++ {
			server.Kill()
			if n%2 == 1 {
				server.Wipe()
			}
			rest(ctx, 500*time.Millisecond)
			server.Start()
		}
	})
	wg.Wait()
	t.Logf("%d answered, %d refused, %d lost with their proxies", ok.Load(), refused.Load(), failed.Load())
	if ok.Load() < 200 {
		t.Errorf("%d requests were answered, want many", ok.Load())
	}
	ledger := proxies[0].ledger
	redistest.Eventually(t, 10*chaosLease, "all upstreams are free again", func() bool {
		list, err := ledger.List(t.Context(), pool)
		if err != nil || len(list) != chaosUpstreams {
			return false
		}
		for _, s := range list {
			if s.Rests > 0 && ledger.Recover(t.Context(), pool, s.URL) != nil || len(s.Leases) > 0 || s.Foreign {
				return false
			}
		}
		members, err := rdb.SMembers(t.Context(), set).Result()
		return err == nil && len(members) == chaosUpstreams
	})
}

// rest waits up to twice d, and says whether there is time left.
func rest(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(rand.N(2 * d)):
		return true
	case <-ctx.Done():
		return false
	}
}
