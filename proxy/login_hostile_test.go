package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/login/redislock"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore"
)

// firstLogin is a world whose site answers the first login by first.
func firstLogin(t *testing.T, site *loginsites.Site, l *config.Login, first http.HandlerFunc) *world.World {
	t.Helper()
	var logins atomic.Int32
	return loginWorld(t, site, l, func(o *world.Options) {
		o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost && r.URL.Path == "/login" && logins.Add(1) == 1 {
				first(rw, r)
				return
			}
			site.ServeHTTP(rw, r)
		})
	})
}

// A reply to the login that never ends: who sent it reads what there is, and who
// waits is answered after the time that a page is waited for.
func TestALoginReplyThatNeverEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		more string // again and again
		wait time.Duration
	}{
		{"in drops", ".", time.Second},
		{"in a flood", strings.Repeat("x", 64<<10), 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			via := world.TunnelH1
			site := loginsites.New(loginsites.Options{})
			rules := loginRules()
			rules.LoggedIn = config.Signs{Cookie: "sid"}
			sent := make(chan struct{})
			var once sync.Once
			w := firstLogin(t, site, rules, func(rw http.ResponseWriter, r *http.Request) {
				once.Do(func() { close(sent) })
				http.SetCookie(rw, &http.Cookie{Name: "sid", Value: "endless", Path: "/"})
				fmt.Fprint(rw, "<h1>Welcome</h1>")
				for r.Context().Err() == nil {
					if _, err := fmt.Fprint(rw, tt.more); err != nil {
						return
					}
					rw.(http.Flusher).Flush()
					time.Sleep(tt.wait) // a slow site
				}
			})
			token := formToken(t, w.Proxy, via)
			r := loginForm(t, via, loginsites.Password, token)
			var wg sync.WaitGroup
			wg.Go(func() {
				resp, err := w.Client(via).Do(r)
				if err != nil {
					t.Error(err)
					return
				}
				defer resp.Body.Close() // and leaves
				b := make([]byte, 7)
				if n, err := resp.Body.Read(b); string(b[:n]) != "<h1>Wel" {
					t.Errorf("read %q, %v", b[:n], err)
				}
			})
			<-sent
			status, _, _ := ask(t, w.Proxy, via, loginForm(t, via, loginsites.Password, token))
			if status != http.StatusSeeOther || site.Attempts() != 0 {
				t.Errorf("who waited is answered %d, %d more logins; want the first one's answer", status, site.Attempts())
			}
			wg.Wait()
		})
	}
}

// A storm of informational replies is no answer. The turn goes to the next.
func TestALoginAnsweredByAStorm(t *testing.T) {
	t.Parallel()
	onEach(t, []world.Way{world.TunnelH1, world.TunnelH2}, func(t *testing.T, via world.Way) {
		t.Parallel()
		site := loginsites.New(loginsites.Options{})
		storm := func(rw http.ResponseWriter, _ *http.Request) {
			rw.Header().Set("Link", "</style.css>; rel=preload")
			for range 5000 {
				rw.WriteHeader(http.StatusEarlyHints)
			}
			panic(http.ErrAbortHandler)
		}
		w := firstLogin(t, site, loginRules(), storm)
		token := formToken(t, w.Proxy, via)
		var failed, in atomic.Int32
		each(5, func(int) {
			switch status, _, _ := ask(t, w.Proxy, via, loginForm(t, via, loginsites.Password, token)); status {
			case http.StatusBadGateway:
				failed.Add(1)
			case http.StatusSeeOther:
				in.Add(1)
			}
		})
		if failed.Load() != 1 || in.Load() != 4 || site.Logins() != 1 {
			t.Errorf("%d failed, %d were let in by %d logins; want 1, 4 and 1", failed.Load(), in.Load(), site.Logins())
		}
	})
}

// Each session has its own account, and its own login, at once.
func TestTwoAccountsAtOnce(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{Latency: 20 * time.Millisecond})
	rules := withRecipe(loginRules())
	rules.Accounts = append(rules.Accounts, config.Account{ID: "qa", User: loginsites.Another, Password: loginsites.Password})
	w := loginWorld(t, site, rules)
	users := map[string]string{session.DefaultID: loginsites.User, "qa": loginsites.Another}
	for round := 1; round <= 2; round++ {
		each(40, func(i int) {
			for id, user := range users {
				via := tlsWays[i%len(tlsWays)]
				a := w.GetAs(t, via, world.User{Name: "tester-session-" + id, Password: "x"}, "/account")
				if want := "Hello " + user; !strings.Contains(a.Text, want) {
					t.Errorf("session %s: answered %d %q, want %q", id, a.StatusCode, a.Text, want)
				}
			}
		})
		if site.Logins() != 2*round {
			t.Errorf("round %d: %d logins, want one for each session", round, site.Logins())
		}
		site.Expire()
	}
}

// Redis dies while a login is under way. Each proxy goes on alone with what it
// knows of the session: nobody waits for ever, and no more logins reach the site
// than there are proxies. Afterwards there is one session again.
func TestRedisDiesDuringALogin(t *testing.T) {
	t.Parallel()
	for _, recipe := range []bool{false, true} {
		t.Run(fmt.Sprintf("recipe %t", recipe), func(t *testing.T) {
			t.Parallel()
			via := world.TunnelH1
			died := make(chan struct{})
			site := loginsites.New(loginsites.Options{SameID: true, OnLogin: func(int) { <-died }})
			server := redistest.Single(t)
			stores := []*redisstore.Store{redisStore(t, server), redisStore(t, server), redisStore(t, server)}
			rules := loginRules()
			if recipe {
				rules = withRecipe(rules)
			}
			w := loginWorld(t, site, rules, func(o *world.Options) {
				o.Store = func(session.Store) session.Store { return stores[0] }
				o.Locks = redislock.New(server.Client(), "session:", patience)
			})
			proxies := []*world.Proxy{w.Proxy, w.AddProxyOn(stores[1]), w.AddProxyOn(stores[2])}
			token := formToken(t, w.Proxy, via)
			for _, p := range proxies {
				p.Get(t, via, "/public") // and so it knows the session
			}
			var wg sync.WaitGroup
			for i := range 12 {
				wg.Go(func() {
					if recipe {
						askHello(t, proxies[i%3], via)
						return
					}
					status, to, _ := ask(t, proxies[i%3], via, loginForm(t, via, loginsites.Password, token))
					if status != http.StatusSeeOther || to != "/account" {
						t.Errorf("answered %d to %q", status, to)
					}
				})
			}
			world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
			server.Kill()
			close(died)
			wg.Wait()
			if site.Logins() > len(proxies) {
				t.Errorf("%d logins, want one for each proxy at most", site.Logins())
			}
			server.Start()
			for _, p := range proxies {
				world.Eventually(t, "the session is there", func() bool {
					_, _, page := ask(t, p, via, world.Request(t, http.MethodGet, via.URL("/account"), nil))
					return strings.Contains(page, "Hello")
				})
			}
			for _, store := range stores {
				world.Eventually(t, "nothing waits for Redis", func() bool { return store.Waiting() == 0 })
			}
		})
	}
}

// A proxy that the store tells nothing of a session takes no reply for evidence,
// and makes no login that it could not keep.
func TestAnUnknownSessionIsNotLoggedOut(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
		o.Store = func(s session.Store) session.Store { return unreadable{s} }
	})
	for range 3 {
		if a := w.Get(t, world.TunnelH1, "/account"); a.StatusCode != http.StatusFound {
			t.Errorf("answered %d, want the site's own answer", a.StatusCode)
		}
	}
	if site.Forms() != 3 || site.Attempts() != 0 {
		t.Errorf("%d requests and %d logins reached the site, want one for each client's and none", site.Forms(), site.Attempts())
	}
}

// unreadable is a store in an outage that began before it knew anything.
type unreadable struct{ session.Store }

func (unreadable) Load(context.Context, session.Key) (*session.Jar, error) {
	return nil, errors.New("i/o timeout")
}

// A request that left without its session, as the store was slow for a moment,
// is sent again with it: its client sees no login page, and no login is made.
func TestARequestThatLeftWithoutItsSessionIsSentAgain(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	slow := new(slowOnce)
	w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
		o.Store = func(s session.Store) session.Store { slow.Store = s; return slow }
	})
	wantHello(t, w.Get(t, world.TunnelH1, "/account"))
	slow.next.Store(true)
	wantHello(t, w.Get(t, world.TunnelH1, "/account"))
	if slow.next.Load() || site.Attempts() != 1 {
		t.Errorf("the slow store was asked: %t; %d logins, want the first one", !slow.next.Load(), site.Attempts())
	}
}

// slowOnce is a store that does not answer the next call of Load in time.
type slowOnce struct {
	session.Store
	next atomic.Bool
}

func (s *slowOnce) Load(ctx context.Context, key session.Key) (*session.Jar, error) {
	if s.next.CompareAndSwap(true, false) {
		return nil, context.DeadlineExceeded
	}
	return s.Store.Load(ctx, key)
}
