package redispool_test

import (
	"context"
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

var chaosFor = flag.Duration("chaos", 10*time.Second, "how long TestChaos lasts at least")

const (
	chaosWorkers   = 50
	chaosProxies   = 10
	chaosUpstreams = 20
	// All run in one process here, which a busy machine may stop for longer
	// than the margin of a shorter lease.
	chaosLease = 6 * time.Second
)

// Workers, proxies, upstreams and Redis, each of which dies now and then: no
// upstream serves two owners at one moment, none is lost, nothing goes directly.
func TestChaos(t *testing.T) {
	server := redistest.Single(t)
	site := newWitness(t, chaosUpstreams)
	upstreams := world.Pool(site.upstreams...)
	upstreams.Idle, upstreams.Wait = 100*time.Millisecond, 2*time.Second
	rdb := client(t, server)

	var mu sync.Mutex
	var last *mortal // of the proxy that was made last
	made := 0
	w := world.New(t, world.Options{
		Handler: site, Faulty: true,
		Leases: func() upstream.Ledger {
			made++
			last = &mortal{name: fmt.Sprint("p", made), journal: site.journal, Ledger: redispool.New(redispool.Options{
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

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := time.Now()
	var ok, refused, failed atomic.Int64
	var proxiesKilled, upstreamsKilled, redisKilled int // each by one goroutine
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
					r.Header.Set("X-Proxy", p.ledger.name)
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
			site.journal.note("", p.ledger.name+" is killed")
			proxiesKilled++
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
			site.journal.note(u.Addr, "is killed")
			upstreamsKilled++
			u.Kill()
			rest(ctx, 500*time.Millisecond)
			u.Restart()
		}
	})
	wg.Go(func() { // kills Redis
		for n := 0; rest(ctx, 4*time.Second); n++ {
			// On a busy machine, too, there are leases to lose.
			for before := ok.Load(); ok.Load() < before+100; {
				if !rest(ctx, 10*time.Millisecond) {
					return
				}
			}
			if n >= 2 && time.Since(began) >= *chaosFor {
				cancel()
				return
			}
			how := rand.IntN(3)
			redisKilled++
			site.journal.note("", "Redis "+[]string{"is killed", "is killed, and loses all", "is emptied"}[how])
			if how == 2 {
				server.Do("FLUSHALL")
				continue
			}
			server.Kill()
			if how == 1 {
				server.Wipe()
			}
			rest(ctx, 500*time.Millisecond)
			server.Start()
		}
	})
	wg.Wait()
	t.Logf("in %v %d proxies, %d upstreams and %d times Redis died", time.Since(began).Round(time.Second), proxiesKilled, upstreamsKilled, redisKilled)
	t.Logf("%d requests answered, %d refused, %d lost with their proxies", ok.Load(), refused.Load(), failed.Load())
	site.judge()
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
