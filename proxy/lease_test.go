package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// leaving has all traffic leave by a pool of the upstreams.
func leaving(change func(*config.Pool), upstreams ...*world.Upstream) func(*config.Config) {
	return func(c *config.Config) {
		p := world.Pool(upstreams...)
		if change != nil {
			change(&p)
		}
		c.Upstream = "eu"
		c.Upstreams = map[string]config.Pool{"eu": p}
		for i := range c.Sites {
			c.Sites[i].Upstream = "eu"
		}
	}
}

// path answers with the path that was asked for.
var path = handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Host+r.RequestURI) })

// quick is how long leases live where a test waits for what comes of that.
const quick = 3 * time.Second

func hurried() upstream.Ledger { return upstream.NewMemory(quick) }

// worker is a client that names itself.
func worker(n int) world.User { return world.User{Name: fmt.Sprint("crawler-worker-w", n)} }

// wantRefused checks an answer of the proxy's own.
func wantRefused(t *testing.T, a *world.Answer, status int, kind, code string) {
	t.Helper()
	want := fmt.Sprintf("sessionproxy; error=%s; details=\"%s: ", kind, code)
	if a.StatusCode != status || !strings.HasPrefix(a.Header.Get("Proxy-Status"), want) {
		t.Errorf("answered %d, Proxy-Status %q, %q; want %d, %s…", a.StatusCode, a.Header.Get("Proxy-Status"), a.Text, status, want)
	}
}

func TestEveryWayLeavesByTheUpstream(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https", "socks5"} {
		for _, credentials := range []bool{false, true} {
			o := world.UpstreamOptions{Scheme: scheme}
			if credentials {
				o.User, o.Password = "customer zone%eu/\xff", "p@:%/\x01ü"
			}
			t.Run(fmt.Sprintf("%s, credentials: %v", scheme, credentials), func(t *testing.T) {
				t.Parallel()
				onEach(t, world.Ways, func(t *testing.T, via world.Way) {
					u := world.NewUpstream(t, o)
					w := world.New(t, world.Options{Handler: path, Config: leaving(nil, u)})
					for range 2 {
						if a := w.Get(t, via, "/a%2Fb?c"); a.StatusCode != 200 || !strings.HasSuffix(a.Text, "/a%2Fb?c") {
							t.Errorf("answered %d %q", a.StatusCode, a.Text)
						}
					}
					want := 1 // connections are kept
					if via == world.TunnelH2H1 {
						want = 2 // with HTTP/2 at first, in vain
					}
					if u.Reached() != want || w.Origin.Accepted() != want {
						t.Errorf("the upstream was asked for %q and reached %d targets; the origin has %d connections",
							u.Asked(), u.Reached(), w.Origin.Accepted())
					}
					if n := w.Count("exchange", "upstream", scheme+"://"+u.Addr); n != 2 {
						t.Errorf("%d records name the upstream, want 2", n)
					}
					for _, r := range w.All() {
						if strings.Contains(r.String(), "customer") {
							t.Errorf("a record has the user name: %s", r)
						}
					}
				})
			})
		}
	}
}

func TestWebSocketsAndBlindTunnelsLeaveByTheUpstream(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https", "socks5"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			mail := world.Serve(t, smtp)
			u := world.NewUpstream(t, world.UpstreamOptions{Scheme: scheme, Names: map[string]string{"mail.example:25": mail}})
			w := world.New(t, world.Options{Script: socket(echo), Config: leaving(nil, u)})
			onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
				before := u.Reached()
				c, _ := upgrade(t, w, via, "websocket", "\x81\x05early")
				c.Want("\x81\x05early")
				if u.Reached() != before+1 {
					t.Error("the WebSocket did not leave by the upstream")
				}
				c.Close()
			})
			before := u.Reached()
			talkSMTP(w.Connect(t, "mail.example:25")) // which no DNS knows
			if u.Reached() != before+1 {
				t.Error("the blind tunnel did not leave by the upstream")
			}
			if w.Origin.Accepted() > u.Reached() {
				t.Error("a connection went directly")
			}
		})
	}
}

// Each worker's requests leave by its own upstream, also where the origin
// speaks HTTP/2, whose connections net/http pools by host alone.
func TestNoRequestLeavesByAnothersUpstream(t *testing.T) {
	t.Parallel()
	const workers = 4
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		var mu sync.Mutex
		from := map[string]map[string]bool{} // worker → the origin's peers
		resumed := 0
		origin := handler(func(_ http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			name := r.Header.Get("X-Worker")
			if from[name] == nil {
				from[name] = map[string]bool{}
				if r.TLS != nil && r.TLS.DidResume {
					resumed++
				}
			}
			from[name][r.RemoteAddr] = true
		})
		var upstreams []*world.Upstream
		for range workers {
			upstreams = append(upstreams, world.NewUpstream(t, world.UpstreamOptions{}))
		}
		w := world.New(t, world.Options{Handler: origin, Config: leaving(nil, upstreams...)})
		for range 3 {
			var wg sync.WaitGroup
			for n := range workers {
				wg.Go(func() {
					for range 5 {
						r := world.Request(t, "GET", via.URL("/"), nil, "X-Worker", fmt.Sprint(n))
						resp, err := w.ClientAs(via, worker(n)).Do(r)
						if err != nil {
							t.Error(err)
							return
						}
						resp.Body.Close()
					}
				})
			}
			wg.Wait()
		}
		mu.Lock()
		defer mu.Unlock()
		taken := map[string]string{}
		for name, peers := range from {
			for peer := range peers {
				if other := taken[peer]; other != "" {
					t.Errorf("workers %s and %s share the connection of %s", name, other, peer)
				}
				taken[peer] = name
			}
		}
		if resumed > 0 {
			t.Errorf("%d workers resumed a TLS session that another's upstream had seen", resumed)
		}
		for n, u := range upstreams {
			if u.Reached() == 0 {
				t.Errorf("nobody left by the upstream %d", n)
			}
		}
	})
}

// Plain http goes to an HTTP upstream as a whole: many let CONNECT reach no port
// but 443.
func TestPlainRequestsGoInAbsoluteForm(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "https"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: mirror})
			u := world.NewUpstream(t, world.UpstreamOptions{
				Scheme: scheme, User: "ana", Password: "hunter2", ConnectPort: "443",
				Names: map[string]string{"api.shop.test:80": w.Origin.Addr("80"), "api.shop.test:8000": w.Origin.Addr("80"), "elsewhere.test:80": w.Origin.Addr("80")},
			})
			w.Change(t, leaving(nil, u))
			client := w.Client(world.Plain)
			for _, tt := range []struct{ method, url, want string }{
				{"GET", "http://api.shop.test/a%2Fb?c=%20&d", "GET http://api.shop.test/a%2Fb?c=%20&d"},
				{"GET", "http://api.shop.test:8000", "GET http://api.shop.test:8000/"},
				{"POST", "http://elsewhere.test/?q", "POST http://elsewhere.test/?q"},
				{"HEAD", "http://api.shop.test/x;y=(z)", "HEAD http://api.shop.test/x;y=(z)"},
			} {
				r := world.Request(t, tt.method, tt.url, strings.NewReader("body"), "User-Agent", "test")
				if tt.method != "POST" {
					r = world.Request(t, tt.method, tt.url, nil, "User-Agent", "test")
				}
				a := world.Do(t, client, r)
				asked := u.Asked()
				if a.StatusCode != 200 || asked[len(asked)-1] != tt.want {
					t.Errorf("%s %s: answered %d %q; the upstream was asked for %q", tt.method, tt.url, a.StatusCode, a.Text, asked[len(asked)-1])
				}
				if tt.method != "HEAD" && seen(t, a).Get("Proxy-Authorization") != "" {
					t.Error("the origin saw the upstream's credentials")
				}
			}
			c := w.Dial(t)
			c.Send("OPTIONS http://api.shop.test HTTP/1.1\r\nHost: api.shop.test\r\nConnection: close\r\n\r\n")
			c.Answer("OPTIONS")
			if asked := u.Asked(); asked[len(asked)-1] != "OPTIONS http://api.shop.test" {
				t.Errorf("for OPTIONS * the upstream was asked for %q", asked[len(asked)-1])
			}
		})
	}
}

func TestWhoHasNoLeaseWaitsAndIsRefused(t *testing.T) {
	t.Parallel()
	u := world.NewUpstream(t, world.UpstreamOptions{})
	w := world.New(t, world.Options{Handler: path, Config: leaving(func(p *config.Pool) { p.Wait = 50 * time.Millisecond }, u)})
	for _, via := range world.Ways {
		w.GetAs(t, via, worker(1), "/")
	}
	for _, via := range world.Ways {
		wantRefused(t, w.GetAs(t, via, worker(2), "/"), 503, "connection_limit_reached", "lease_exhausted")
	}
	c := w.Dial(t)
	if a := c.Connect("elsewhere.test:443", "Proxy-Authorization: Basic Y3Jhd2xlci13b3JrZXItdzI6"); a.StatusCode != 503 || !strings.Contains(a.Status, "lease_exhausted") {
		t.Errorf("a blind tunnel was answered %s", a.Status)
	}
	if w.Origin.Accepted() != u.Reached() {
		t.Error("a request went directly")
	}
	if held, waits := count(t, w.Proxy, "sessionproxy_leases", "pool", "eu", "state", "held"), count(t, w.Proxy, "sessionproxy_lease_wait_seconds"); held != 1 || waits < 6 {
		t.Errorf("%v leases held and %v waits counted, want 1 and at least 6", held, waits)
	}
}

func TestALeaseThatNobodyUsesGoesToWhoWaits(t *testing.T) {
	t.Parallel()
	u := world.NewUpstream(t, world.UpstreamOptions{})
	w := world.New(t, world.Options{
		Handler: path, Leases: hurried, Config: leaving(func(p *config.Pool) { p.Idle = 100 * time.Millisecond }, u),
	})
	for n := range 4 {
		if a := w.GetAs(t, world.TunnelH1, worker(n), "/"); a.StatusCode != 200 {
			t.Errorf("worker %d was answered %d %q", n, a.StatusCode, a.Text)
		}
	}
}

func TestWhoOwnsALease(t *testing.T) {
	t.Parallel()
	a, b, c := world.User{Name: "crawler-worker-a-session-qa1"}, world.User{Name: "crawler-worker-b-session-qa1"}, world.User{Name: "other-worker-a-session-qa2"}
	for _, tt := range []struct {
		affinity config.Affinity
		want     int // upstreams in use
	}{{config.ByWorker, 3}, {config.ByClient, 2}, {config.BySession, 2}} {
		t.Run(string(tt.affinity), func(t *testing.T) {
			t.Parallel()
			var all []*world.Upstream
			for range 3 {
				all = append(all, world.NewUpstream(t, world.UpstreamOptions{}))
			}
			leave := leaving(nil, all...)
			w := world.New(t, world.Options{Handler: path, Config: func(c *config.Config) {
				leave(c)
				c.Sites[0].Affinity = tt.affinity
			}})
			for range 2 {
				for _, user := range []world.User{a, b, c} {
					w.GetAs(t, world.TunnelH1, user, "/")
				}
			}
			used := 0
			for _, u := range all {
				if u.Reached() > 0 {
					used++
				}
			}
			if used != tt.want {
				t.Errorf("%d upstreams are in use, want %d", used, tt.want)
			}
		})
	}
}

func TestTheEnvironmentsProxiesAreNotUsed(t *testing.T) {
	other := world.NewUpstream(t, world.UpstreamOptions{})
	for _, name := range []string{"http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
		t.Setenv(name, other.URL)
	}
	t.Setenv("NO_PROXY", "")
	u := world.NewUpstream(t, world.UpstreamOptions{Names: map[string]string{"elsewhere.test:80": "127.0.0.1:1"}})
	for _, config := range []func(*config.Config){nil, leaving(nil, u)} {
		w := world.New(t, world.Options{Handler: path, Config: config, Faulty: true})
		onEach(t, world.Ways, func(t *testing.T, via world.Way) {
			if a := w.Get(t, via, "/"); a.StatusCode != 200 {
				t.Errorf("answered %d %q", a.StatusCode, a.Text)
			}
		})
		world.Do(t, w.Client(world.Plain), world.Request(t, "GET", "http://elsewhere.test/", nil))
	}
	if asked := other.Asked(); len(asked) > 0 {
		t.Errorf("the environment's proxy was asked for %q", asked)
	}
}

func TestAReloadChangesThePools(t *testing.T) {
	t.Parallel()
	one, two := world.NewUpstream(t, world.UpstreamOptions{}), world.NewUpstream(t, world.UpstreamOptions{})
	w := world.New(t, world.Options{Handler: path, Leases: hurried})
	for _, tt := range []struct {
		name   string
		change func(*config.Config)
		want   *world.Upstream
	}{
		{"directly at first", nil, nil},
		{"by a pool", leaving(nil, one), one},
		{"by another upstream of it", leaving(nil, two), two},
		{"by another pool", func(c *config.Config) {
			c.Upstreams = map[string]config.Pool{"us": world.Pool(one)}
			c.Sites[0].Upstream = "us"
		}, one},
		{"directly again", nil, nil},
	} {
		w.Change(t, func(c *config.Config) {
			if tt.change != nil {
				tt.change(c)
			}
		})
		// A lease on what has left the pool ends with the next renewal.
		world.Eventually(t, tt.name, func() bool {
			before := map[*world.Upstream]int{one: one.Reached(), two: two.Reached()}
			direct := w.Origin.Accepted()
			for _, via := range world.Ways {
				w.Get(t, via, "/")
				w.Client(via).CloseIdleConnections()
			}
			left := w.Origin.Accepted() - direct
			for u, n := range before {
				left -= u.Reached() - n
				if u != tt.want && u.Reached() > n {
					return false
				}
			}
			return left == 0 || tt.want == nil
		})
	}
}

func TestTheProxyItselfIsNotLeased(t *testing.T) {
	t.Parallel()
	u := world.NewUpstream(t, world.UpstreamOptions{})
	w := world.New(t, world.Options{Handler: path})
	w.Change(t, leaving(func(p *config.Pool) {
		self := world.Pool(&world.Upstream{URL: "http://" + w.Addr}, &world.Upstream{URL: "http://" + strings.Replace(w.Addr, "127.0.0.1", "localhost", 1)})
		p.Proxies = slices.Concat(self.Proxies, p.Proxies)
	}, u))
	for range 6 {
		a := w.GetAs(t, world.TunnelH1, worker(1), "/")
		if a.StatusCode != 200 {
			t.Errorf("answered %d %q", a.StatusCode, a.Text)
		}
	}
	if n := w.Count("exchange", "mode", "tunnel"); n > 0 {
		t.Errorf("%d requests came back to the proxy", n)
	}
}

// What a pool's upstreams are verified against can change while they are leased:
// no request leaves any more by one that the new authority does not know, be it
// by a connection that is open yet.
func TestANewCAHoldsForUpstreamsInUse(t *testing.T) {
	t.Parallel()
	onEach(t, []world.Way{world.Plain, world.TunnelH1, world.TunnelH2}, func(t *testing.T, via world.Way) {
		t.Parallel()
		u, other := world.NewUpstream(t, world.UpstreamOptions{Scheme: "https"}), world.NewUpstream(t, world.UpstreamOptions{Scheme: "https"})
		w := world.New(t, world.Options{Handler: path, Faulty: true, Config: leaving(nil, u)})
		post := func() *world.Answer {
			return world.Do(t, w.Client(via), world.Request(t, "POST", via.URL("/"), strings.NewReader("x")))
		}
		if a := post(); a.StatusCode != 200 {
			t.Fatalf("answered %d %q", a.StatusCode, a.Text)
		}
		before := u.Reached()
		w.Change(t, leaving(nil, u)) // the same, read again
		if a := post(); a.StatusCode != 200 || u.Reached() != before {
			t.Errorf("answered %d by %d more connections", a.StatusCode, u.Reached()-before)
		}
		w.Change(t, leaving(func(p *config.Pool) { p.CA = other.CAFile }, u))
		wantRefused(t, post(), 502, "tls_protocol_error", "upstream_failed")
	})
}
