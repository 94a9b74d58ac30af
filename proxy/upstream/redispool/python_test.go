package redispool_test

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/redispool"
)

var pythonFor = flag.Duration("python", 8*time.Second, "how long TestPythonWorkersBesideTwoProxies lasts")

// The class that Python workers use, as it is, beside two proxies: no upstream
// is leased twice among the proxies, and none is lost.
func TestPythonWorkersBesideTwoProxies(t *testing.T) {
	const n = 6
	server := redistest.Single(t)
	rdb := client(t, server)
	site := newWitness(t, n)
	made := 0
	w := world.New(t, world.Options{
		Handler: site, Faulty: true,
		Leases: func() upstream.Ledger {
			made++
			return &mortal{name: fmt.Sprint("p", made), journal: site.journal, Ledger: redispool.New(redispool.Options{
				Client: rdb, Prefix: "session:", Log: slog.New(slog.DiscardHandler), LeaseTime: chaosLease, ForeignTime: 2 * chaosLease,
			})}
		},
		Config: func(c *config.Config) {
			p := world.Pool(site.upstreams...)
			p.Idle, p.Wait = 100*time.Millisecond, 2*time.Second
			c.Upstream, c.Upstreams, c.Sites[0].Upstream = pool, map[string]config.Pool{pool: p}, pool
		},
	})
	proxies := []*world.Proxy{w.Proxy, w.AddProxy()}
	ctx, cancel := context.WithTimeout(t.Context(), *pythonFor+chaosLease)
	defer cancel()
	_, port, _ := net.SplitHostPort(server.Addr)
	var urls []string
	for _, u := range site.upstreams {
		urls = append(urls, u.URL)
	}
	var wg sync.WaitGroup
	for i := range 3 {
		args := append([]string{"testdata/proxypool.py", port, fmt.Sprint((*pythonFor + chaosLease).Seconds()), fmt.Sprint("python-", i)}, urls...)
		wg.Go(func() {
			out, err := exec.CommandContext(t.Context(), "/usr/bin/python3", args...).CombinedOutput()
			if pops, _ := strconv.Atoi(strings.TrimSpace(string(out))); err != nil || pops == 0 {
				t.Errorf("the worker python-%d (Debian's python3-redis): %v: %s", i, err, out)
			}
		})
	}
	for i := range n {
		name := fmt.Sprint("w", i)
		p := proxies[i%2]
		wg.Go(func() {
			for ctx.Err() == nil {
				r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, world.Plain.URL("/"), nil)
				if err != nil {
					t.Error(err)
					return
				}
				r.Header.Set("X-Worker", name)
				r.Header.Set("X-Proxy", fmt.Sprint("p", i%2+1))
				resp, err := p.ClientAs(world.Plain, world.User{Name: "crawler-worker-" + name}).Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				rest(ctx, 200*time.Millisecond)
			}
		})
	}
	wg.Wait()
	t.Logf("%d requests left by upstreams", site.served.Load())
	site.judge()
	if site.served.Load() == 0 {
		t.Error("no request left by an upstream")
	}
	ledger := redispool.New(redispool.Options{
		Client: rdb, Prefix: "session:", Log: slog.New(slog.DiscardHandler), LeaseTime: chaosLease, ForeignTime: ledgertest.LeaseTime,
	})
	redistest.Eventually(t, 10*chaosLease, "all upstreams are free again", func() bool {
		_, err := ledger.Renew(t.Context(), pool, nil)
		return err == nil && rdb.SCard(t.Context(), set).Val() == n
	})
}
