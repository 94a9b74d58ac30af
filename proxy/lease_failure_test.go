package proxy_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// inUse is the one of two upstreams that has been used since before.
func inUse(t *testing.T, before map[*world.Upstream]int) (used, other *world.Upstream) {
	t.Helper()
	for u, n := range before {
		if u.Reached() > n {
			used = u
		} else {
			other = u
		}
	}
	if used == nil || other == nil {
		t.Fatal("not one of the two upstreams is in use")
	}
	return used, other
}

func two(t *testing.T, o world.UpstreamOptions) (a, b *world.Upstream, before map[*world.Upstream]int) {
	a, b = world.NewUpstream(t, o), world.NewUpstream(t, o)
	return a, b, map[*world.Upstream]int{a: 0, b: 0}
}

func TestARequestMovesWhenItsUpstreamDies(t *testing.T) {
	t.Parallel()
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		a, b, before := two(t, world.UpstreamOptions{})
		w := world.New(t, world.Options{Handler: path, Config: leaving(nil, a, b), Faulty: true})
		w.Get(t, via, "/")
		used, other := inUse(t, before)
		used.Kill()
		for range 3 {
			if a := w.Get(t, via, "/again"); a.StatusCode != 200 {
				t.Fatalf("answered %d %q", a.StatusCode, a.Text)
			}
		}
		if other.Reached() == 0 {
			t.Error("it went directly")
		}
		if n := count(t, w.Proxy, "sessionproxy_upstream_failures_total", "pool", "eu", "reason", "dial"); n != 1 {
			t.Errorf("%v failures counted, want 1", n)
		}
		if n := count(t, w.Proxy, "sessionproxy_leases", "state", "resting"); n != 1 {
			t.Errorf("%v places rest, want 1", n)
		}
	})
}

// Under way is moved as well, where no byte of the answer has come.
func TestARequestUnderWayMovesWhenItsUpstreamDies(t *testing.T) {
	t.Parallel()
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		a, b, before := two(t, world.UpstreamOptions{})
		var tries atomic.Int32
		w := world.New(t, world.Options{Faulty: true, Config: leaving(nil, a, b), Handler: handler(func(rw http.ResponseWriter, r *http.Request) {
			if tries.Add(1) == 1 {
				used, _ := inUse(t, before)
				go used.Kill()
				<-r.Context().Done()
				return
			}
			io.WriteString(rw, "moved")
		})})
		if answer := w.Get(t, via, "/"); answer.StatusCode != 200 || answer.Text != "moved" || tries.Load() != 2 {
			t.Errorf("answered %d %q; the origin saw it %d times", answer.StatusCode, answer.Text, tries.Load())
		}
	})
}

// An answer may be on its way when an upstream dies: what does harm twice is
// not sent twice.
func TestWhatDoesHarmTwiceIsNotSentTwice(t *testing.T) {
	t.Parallel()
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		a, b, before := two(t, world.UpstreamOptions{})
		var posts atomic.Int32
		w := world.New(t, world.Options{Faulty: true, Config: leaving(nil, a, b), Handler: handler(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				io.Copy(io.Discard, r.Body)
				posts.Add(1)
				used, _ := inUse(t, before)
				go used.Kill()
				<-r.Context().Done()
			}
		})})
		w.Get(t, via, "/")
		answer := world.Do(t, w.Client(via), world.Request(t, "POST", via.URL("/"), strings.NewReader("once")))
		if answer.StatusCode != 502 || posts.Load() != 1 {
			t.Errorf("answered %d %q; the origin saw it %d times", answer.StatusCode, answer.Text, posts.Load())
		}
		if answer := w.Get(t, via, "/"); answer.StatusCode != 200 {
			t.Errorf("then it is answered %d %q", answer.StatusCode, answer.Text)
		}
	})
}

func TestAStrictPoolGivesNoOtherUpstream(t *testing.T) {
	t.Parallel()
	a, b, before := two(t, world.UpstreamOptions{})
	w := world.New(t, world.Options{
		Handler: path, Faulty: true, Leases: hurried,
		Config: leaving(func(p *config.Pool) { p.Strict, p.Idle = true, 300*time.Millisecond }, a, b),
	})
	w.Get(t, world.TunnelH1, "/")
	used, other := inUse(t, before)
	used.Kill()
	for _, via := range world.Ways {
		wantRefused(t, w.Get(t, via, "/"), 503, "destination_unavailable", "lease_lost")
	}
	if other.Reached() > 0 {
		t.Error("it left by the other upstream")
	}
	world.Eventually(t, "it gets another once it has paused", func() bool {
		time.Sleep(600 * time.Millisecond) // the pause, and a sweep
		return w.Get(t, world.TunnelH1, "/").StatusCode == 200
	})
}

func TestWhatIsWrongWithAnUpstreamIsSaid(t *testing.T) {
	t.Parallel()
	user := func(scheme string) func(*testing.T) *world.Upstream {
		return func(t *testing.T) *world.Upstream {
			u := world.NewUpstream(t, world.UpstreamOptions{Scheme: scheme, User: "ana", Password: "hunter2"})
			u.URL = strings.Replace(u.URL, "hunter2", "other", 1)
			return u
		}
	}
	answers := func(scheme string, code int) func(*testing.T) *world.Upstream {
		return func(t *testing.T) *world.Upstream {
			return world.NewUpstream(t, world.UpstreamOptions{Scheme: scheme, Answer: func(string) int { return code }})
		}
	}
	script := func(s string) func(*testing.T) *world.Upstream {
		return func(t *testing.T) *world.Upstream {
			return &world.Upstream{URL: "http://" + world.Serve(t, func(c *world.Conn) {
				if _, err := http.ReadRequest(c.R); err == nil { // else it only looks whether we are there
					c.Send(s)
				}
			})}
		}
	}
	for _, tt := range []struct {
		name       string
		upstream   func(*testing.T) *world.Upstream
		status     int
		kind, code string
	}{
		{"an HTTP upstream wants another password", user("http"), 502, "proxy_configuration_error", "upstream_auth"},
		{"an HTTPS upstream wants another password", user("https"), 502, "proxy_configuration_error", "upstream_auth"},
		{"a SOCKS5 upstream wants another password", user("socks5"), 502, "proxy_configuration_error", "upstream_auth"},
		{"an HTTP upstream refuses the target", answers("http", 403), 502, "destination_unavailable", "upstream_failed"},
		{"an HTTP upstream is overloaded", answers("http", 503), 502, "destination_unavailable", "upstream_failed"},
		{"a SOCKS5 upstream can't reach the target", answers("socks5", 4), 502, "destination_unavailable", "upstream_failed"},
		{"an upstream is not there", func(*testing.T) *world.Upstream { return &world.Upstream{URL: "http://127.0.0.1:1"} }, 502, "destination_unavailable", "upstream_failed"},
		{"an HTTPS upstream shows a certificate of nobody", func(t *testing.T) *world.Upstream {
			u := world.NewUpstream(t, world.UpstreamOptions{Scheme: "https"})
			u.CAFile = ""
			return u
		}, 502, "tls_protocol_error", "upstream_failed"},
		{"an HTTPS upstream speaks no TLS", func(t *testing.T) *world.Upstream {
			return &world.Upstream{URL: strings.Replace(world.NewUpstream(t, world.UpstreamOptions{}).URL, "http:", "https:", 1)}
		}, 502, "tls_protocol_error", "upstream_failed"},
		{"an upstream says nothing", func(t *testing.T) *world.Upstream {
			u := world.NewUpstream(t, world.UpstreamOptions{})
			u.Mute(true)
			return u
		}, 504, "connection_timeout", "upstream_failed"},
		{"an upstream closes the connection", script(""), 502, "connection_terminated", "upstream_failed"},
		{"an upstream speaks another protocol", script("220 smtp ready\r\n"), 502, "http_protocol_error", "upstream_failed"},
		{"an upstream switches protocols", script("HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"), 502, "destination_unavailable", "upstream_failed"},
		{"an upstream's head has no end", script("HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 100)), 502, "http_protocol_error", "upstream_failed"},
		{"an upstream sends 1xx without end", script(strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 100)), 502, "http_protocol_error", "upstream_failed"},
		{"a SOCKS5 upstream is none", func(t *testing.T) *world.Upstream {
			return &world.Upstream{URL: "socks5://" + world.Serve(t, func(c *world.Conn) {
				c.Send("HTTP/1.1 400 Bad Request\r\n\r\n")
				io.Copy(io.Discard, c.R)
			})}
		}, 502, "http_protocol_error", "upstream_failed"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			u := tt.upstream(t)
			w := world.New(t, world.Options{
				Handler: path, Config: leaving(func(p *config.Pool) { p.Wait = 50 * time.Millisecond }, u),
				Timeouts: proxy.Timeouts{Connect: 300 * time.Millisecond, Handshake: time.Second},
			})
			a := world.Do(t, w.Client(world.TunnelH1), world.Request(t, "POST", world.TunnelH1.URL("/"), strings.NewReader("x")))
			wantRefused(t, a, tt.status, tt.kind, tt.code)
			for _, r := range w.All() {
				if strings.Contains(r.String(), "hunter2") || strings.Contains(r.String(), "other@") {
					t.Errorf("a record has the password: %s", r)
				}
			}
			if w.Origin.Accepted() > 0 {
				t.Error("it went directly")
			}
		})
	}
}

// A plain request's 407 may be the origin's as well: no client sees it, and no
// origin can have all upstreams rest by it.
func TestA407OfAPlainRequest(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: always("HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic\r\nContent-Length: 0\r\n\r\n"), Faulty: true})
	names := map[string]string{}
	for _, host := range []string{"a.shop.test:80", "b.shop.test:80"} {
		names[host] = w.Origin.Addr("80")
	}
	a, b, _ := two(t, world.UpstreamOptions{Names: names})
	w.Change(t, leaving(nil, a, b))
	for range 8 {
		got := world.Do(t, w.Client(world.Plain), world.Request(t, "GET", "http://a.shop.test/", nil))
		wantRefused(t, got, 502, "proxy_configuration_error", "upstream_auth")
	}
	if n := count(t, w.Proxy, "sessionproxy_leases", "state", "resting"); n > 1 {
		t.Errorf("one origin has %v upstreams rest", n)
	}
}

// An origin that is down is not the upstreams' fault: one of them may rest for
// it, not all in turn.
func TestADeadOriginRestsNoMoreThanOneUpstream(t *testing.T) {
	t.Parallel()
	var all []*world.Upstream
	for range 4 {
		all = append(all, world.NewUpstream(t, world.UpstreamOptions{Answer: func(string) int { return 503 }}))
	}
	w := world.New(t, world.Options{Handler: path, Config: leaving(nil, all...)})
	for range 20 {
		wantRefused(t, w.Get(t, world.TunnelH1, "/"), 502, "destination_unavailable", "upstream_failed")
	}
	if n := count(t, w.Proxy, "sessionproxy_leases", "state", "resting"); n > 1 {
		t.Errorf("%v upstreams rest", n)
	}
}

func TestASiteThatRefusesAnUpstreamHasItRest(t *testing.T) {
	t.Parallel()
	a, b, before := two(t, world.UpstreamOptions{})
	var banned atomic.Bool
	w := world.New(t, world.Options{
		Handler: handler(func(rw http.ResponseWriter, _ *http.Request) {
			if banned.Load() {
				rw.WriteHeader(http.StatusTooManyRequests)
			}
		}),
		Config: leaving(func(p *config.Pool) {
			p.Ban = config.Ban{Status: []int{403, 429}, After: 3, For: time.Hour}
		}, a, b),
	})
	banned.Store(true)
	w.Get(t, world.TunnelH1, "/")
	w.Get(t, world.TunnelH1, "/")
	banned.Store(false)
	w.Get(t, world.TunnelH1, "/") // not three in a row
	banned.Store(true)
	used, other := inUse(t, before)
	for range 3 {
		if got := w.Get(t, world.TunnelH1, "/"); got.StatusCode != 429 {
			t.Errorf("answered %d, want the site's own 429", got.StatusCode)
		}
	}
	banned.Store(false)
	world.Eventually(t, "the next request leaves by the other upstream", func() bool {
		w.Get(t, world.TunnelH1, "/")
		return other.Reached() > 0
	})
	world.Eventually(t, "the banned upstream is left", func() bool { return used.Open() == 0 })
}

func TestAMoveBreaksNoResponse(t *testing.T) {
	t.Parallel()
	a, b, before := two(t, world.UpstreamOptions{})
	more := make(chan string)
	w := world.New(t, world.Options{
		Handler: handler(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/slow" {
				http.NewResponseController(rw).Flush()
				for s := range more {
					io.WriteString(rw, s)
					http.NewResponseController(rw).Flush()
				}
			}
		}),
		Config: leaving(nil, a, b),
	})
	resp, err := w.Client(world.TunnelH1).Do(world.Request(t, "GET", world.TunnelH1.URL("/slow"), nil))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	more <- "one "
	used, other := inUse(t, before)
	pool := w.Upstreams().Pool("eu")
	list, err := pool.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		for _, l := range s.Leases {
			if err := pool.End(t.Context(), l.Token); err != nil {
				t.Fatal(err)
			}
		}
	}
	world.Eventually(t, "new requests leave by the other", func() bool {
		w.Get(t, world.TunnelH1, "/")
		return other.Reached() > 0
	})
	more <- "two"
	close(more)
	b2, err := io.ReadAll(resp.Body)
	if err != nil || string(b2) != "one two" {
		t.Errorf("the response under way is %q, %v", b2, err)
	}
	world.Eventually(t, "the upstream is left once it is over", func() bool { return used.Open() == 0 })
}

// cutOff is a ledger that can be away.
type cutOff struct {
	upstream.Ledger
	away atomic.Bool
}

var errAway = errors.New("the ledger is away")

func (c *cutOff) Acquire(ctx context.Context, pool string, asks []upstream.Ask) ([]upstream.Answer, error) {
	if c.away.Load() {
		<-ctx.Done() // as where packets are lost
		return nil, errAway
	}
	return c.Ledger.Acquire(ctx, pool, asks)
}

func (c *cutOff) Renew(ctx context.Context, pool string, held []upstream.Hold) ([]upstream.Standing, error) {
	if c.away.Load() {
		<-ctx.Done()
		return nil, errAway
	}
	return c.Ledger.Renew(ctx, pool, held)
}

// Who can't renew a lease keeps it to its deadline and no longer: others may be
// given the upstream then. Nothing goes directly.
func TestALeaseThatCantBeRenewedEnds(t *testing.T) {
	t.Parallel()
	u := world.NewUpstream(t, world.UpstreamOptions{})
	ledger := &cutOff{Ledger: upstream.NewMemory(quick)}
	w := world.New(t, world.Options{
		Script: socket(echo), Leases: func() upstream.Ledger { return ledger }, Faulty: true,
		Config: leaving(func(p *config.Pool) { p.Wait = 200 * time.Millisecond }, u),
	})
	c, _ := upgrade(t, w, world.TunnelH1, "websocket", "")
	c.Send("held")
	c.Want("held")
	ledger.away.Store(true)
	c.Send("held yet")
	c.Want("held yet")
	began := time.Now()
	c.WantEnd()
	if took := time.Since(began); took < quick/3 || took > 2*quick {
		t.Errorf("the WebSocket ended after %v, want about the time of a lease (%v)", took, quick)
	}
	world.Eventually(t, "the upstream is left", func() bool { return u.Open() == 0 })
	wantRefused(t, w.Get(t, world.TunnelH1, "/"), 503, "proxy_internal_error", "store_unavailable")
	ledger.away.Store(false)
	world.Eventually(t, "leases are given again", func() bool { return w.Get(t, world.TunnelH1, "/").StatusCode == 426 })
	c, _ = upgrade(t, w, world.TunnelH1, "websocket", "")
	c.Send("back")
	c.Want("back")
	if w.Origin.Accepted() != u.Reached() {
		t.Error("a request went directly")
	}
}

func TestChecksFindWhatIsDownAndWhatIsBack(t *testing.T) {
	t.Parallel()
	a, b, _ := two(t, world.UpstreamOptions{})
	w := world.New(t, world.Options{Handler: path, Leases: hurried})
	w.Change(t, leaving(func(p *config.Pool) {
		p.Check = config.Check{URL: "http://shop.test/health", Every: 100 * time.Millisecond}
	}, a, b))
	resting := func(n float64) func() bool {
		return func() bool { return count(t, w.Proxy, "sessionproxy_leases", "state", "resting") == n }
	}
	world.Eventually(t, "both are checked", func() bool { return a.Reached() > 0 && b.Reached() > 0 })
	a.Kill()
	world.Eventually(t, "the one that is down rests", resting(1))
	a.Restart()
	world.Eventually(t, "it is back", resting(0))
	if n := count(t, w.Proxy, "sessionproxy_upstream_failures_total", "reason", "check"); n == 0 {
		t.Error("no failed check is counted")
	}
}

// What is asked for again without the session moves to another upstream, too.
func TestAnAnonymousTryMovesWhenItsUpstreamDies(t *testing.T) {
	t.Parallel()
	one, two := world.NewUpstream(t, world.UpstreamOptions{}), world.NewUpstream(t, world.UpstreamOptions{})
	var once sync.Once
	h := handler(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/set"):
			login(w, r)
			return
		case r.Header.Get("Cookie") == "":
			once.Do(func() {
				first := one
				if two.Has(r.RemoteAddr) {
					first = two
				}
				go first.Kill()
				<-r.Context().Done()
			})
		}
		w.Header().Set("Access-Control-Allow-Origin", "*")
		io.WriteString(w, "who asks: "+r.Header.Get("Cookie"))
	})
	w := world.New(t, world.Options{Handler: h, Config: leaving(nil, one, two)})
	via := world.TunnelH1
	w.Get(t, via, set("sid=a1; Path=/"))
	a := w.Get(t, via, "/star", "Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://www.shop.test")
	if a.StatusCode != http.StatusOK || a.Text != "who asks: " {
		t.Errorf("answered %d %q, want what everybody gets", a.StatusCode, a.Text)
	}
}
