package proxy_test

import (
	"flag"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	logins "github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/redislock"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

var (
	stormFor  = flag.Duration("storm", 4*time.Second, "how long TestNoStorm lasts for each site")
	simulated = flag.Duration("simulated", 2*time.Minute, "how much traffic TestNoStormInAnHour simulates for each site")
)

// stormy are sites that renew, restrict or lose their sessions.
var stormy = []struct {
	name string
	o    loginsites.Options // without Life
}{
	{"a session that is renewed by every reply", loginsites.Options{Rotate: true}},
	{"one session at a time", loginsites.Options{Single: true}},
	{"the form with 200", loginsites.Options{Form: true}},
	{"replies that are logged out at random", loginsites.Options{Flaky: 0.05}},
	{"a session that ends at random", loginsites.Options{Lost: 0.05}},
}

// traffic is what a site's workers have seen: pages, of which out are the site's
// login pages and refused the proxy's own, which say when to come again.
type traffic struct{ pages, out, refused atomic.Int64 }

// visit asks for page after page until its time is over.
func (s *traffic) visit(t *testing.T, c *http.Client, via world.Way, begin time.Time, last, pause time.Duration) {
	for time.Since(begin) < last {
		r := world.Request(t, http.MethodGet, via.URL("/page/1"), nil)
		resp, err := c.Do(r)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil {
			t.Error(err)
			return
		}
		s.pages.Add(1)
		switch {
		case strings.Contains(string(body), "Hello"):
		case resp.StatusCode == http.StatusServiceUnavailable && resp.Header.Get("Retry-After") != "":
			s.refused.Add(1)
		default:
			s.out.Add(1)
		}
		time.Sleep(rand.N(pause))
	}
}

// judge holds what a site has seen against one login for each life of a session,
// of which nobody sees the login page. Where the session may end at any page,
// logins have a bound, and between them clients are told when to come again; two
// that end at once are taken for a page that is closed to the account.
func (s *traffic) judge(t *testing.T, site *loginsites.Site, o loginsites.Options, took time.Duration) {
	t.Helper()
	pages, out, refused := s.pages.Load(), s.out.Load(), s.refused.Load()
	t.Logf("%d pages in %v, %d of them logged out, %d refused, %d logins of %d tries", pages, took.Round(time.Millisecond), out, refused, site.Logins(), site.Attempts())
	most := 1 + int(took/o.Life)
	if o.Lost > 0 {
		most = logins.MaxWon * (1 + int(took/(10*time.Minute)))
	}
	if site.Attempts() > most {
		t.Errorf("%d logins, want %d at most", site.Attempts(), most)
	}
	if o.Lost == 0 && out+refused > 0 || pages == out+refused {
		t.Errorf("of %d pages %d are the site's login page, and %d refused", pages, out, refused)
	}
}

// Workers ask for pages all the time, and the session ends every now and then.
// Each end is followed by one login, and no client sees the form. Each proxy follows one Redis by itself.
func TestNoStorm(t *testing.T) {
	t.Parallel()
	for _, tt := range stormy {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := tt.o
			o.Life = *stormFor / 2
			site := loginsites.New(o)
			server := redistest.Single(t)
			w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
				o.Store = func(session.Store) session.Store { return redisStore(t, server) }
				o.Locks = redislock.New(server.Client(), "session:", patience)
			})
			proxies := []*world.Proxy{w.Proxy, w.AddProxyOn(redisStore(t, server)), w.AddProxyOn(redisStore(t, server))}
			var s traffic
			begin := time.Now()
			each(12, func(i int) {
				via := tlsWays[i%len(tlsWays)]
				s.visit(t, proxies[i%3].Client(via), via, begin, *stormFor, 10*time.Millisecond)
			})
			s.judge(t, site, o, time.Since(begin))
			if o.Lost == 0 {
				wantHello(t, proxies[0].Get(t, world.TunnelH1, "/account"))
			}
		})
	}
}

// redisStore is what a proxy of its own machine keeps sessions in.
func redisStore(t *testing.T, server *redistest.Server) *redisstore.Store {
	t.Helper()
	o, err := conn.Parse(server.URL())
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

// The same on the store of one machine, where the ways to the site are longer
// than the pauses, and replies overtake each other. Simulated, an hour of it
// takes a minute.
func TestNoStormInAnHour(t *testing.T) {
	t.Parallel()
	ca, err := certs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range stormy {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				o := tt.o
				o.Life = *simulated / 4
				w := simulate(t, ca, o, 3)
				var s traffic
				begin := time.Now()
				each(12, func(i int) {
					s.visit(t, w.clients[i%3], world.Plain, begin, *simulated, time.Second)
				})
				s.judge(t, w.site, o, time.Since(begin))
			})
		})
	}
}

// A site that honours the newest value only, and gives another with each reply,
// can't serve requests at once. Those that are too late are sent again, which is
// not always enough; they are not taken for the end of the session.
func TestASiteThatHonoursTheNewestValueOnly(t *testing.T) {
	t.Parallel()
	ca, err := certs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		o := loginsites.Options{Rotate: true, Strict: true, Life: 30 * time.Second}
		w := simulate(t, ca, o, 3)
		var s traffic
		begin := time.Now()
		each(12, func(i int) {
			s.visit(t, w.clients[i%3], world.Plain, begin, time.Minute, time.Second)
		})
		t.Logf("%d pages, %d of them logged out, %d logins", s.pages.Load(), s.out.Load(), w.site.Attempts())
		if w.site.Attempts() > 3 {
			t.Errorf("%d logins, want one for each life of the session", w.site.Attempts())
		}
		if s.out.Load() > s.pages.Load()/2 {
			t.Errorf("%d of %d pages are for nobody", s.out.Load(), s.pages.Load())
		}
	})
}
