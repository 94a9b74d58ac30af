package proxy_test

import (
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// brokenLogin is a world whose site answers so many login pages by broken.
func brokenLogin(t *testing.T, site *loginsites.Site, wait time.Duration, times int32, broken http.HandlerFunc) *world.World {
	t.Helper()
	rules := withRecipe(loginRules())
	rules.Wait = wait
	var asked atomic.Int32
	return loginWorld(t, site, rules, func(o *world.Options) {
		o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet && r.URL.Path == "/login" && r.UserAgent() == "sessionproxy" && asked.Add(1) <= times {
				broken(rw, r)
				return
			}
			site.ServeHTTP(rw, r)
		})
	})
}

// busy is the answer of a site that wants to be left alone for long.
func busy(rw http.ResponseWriter, _ *http.Request) {
	rw.Header().Set("Retry-After", "1200")
	rw.WriteHeader(http.StatusServiceUnavailable)
}

// What hinders a login is soon over: clients wait for that, and all get their
// page.
func TestClientsWaitWhileAHinderedRecipeRests(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := brokenLogin(t, site, time.Minute, 1, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	each(20, func(i int) { askHello(t, w.Proxy, tlsWays[i%len(tlsWays)]) })
	if site.Logins() != 1 {
		t.Errorf("%d logins, want one", site.Logins())
	}
}

// Where that takes longer than clients wait they are told so in the place of the
// login page, and why. A POST passes, as ever.
func TestClientsAreToldOfARecipeThatRests(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := brokenLogin(t, site, time.Minute, 1<<30, busy)
	onEach(t, tlsWays, func(t *testing.T, via world.Way) {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			a := world.Do(t, w.Client(via), world.Request(t, method, via.URL("/account"), nil))
			wantRests(t, a)
			if method == http.MethodGet && !strings.Contains(a.Text, "step 1: GET https://shop.test/login: the site answered 503 Service Unavailable. Try again in 1") {
				t.Errorf("answered %q, want why, and when to try again", a.Text)
			}
		}
		if a := world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL("/page/1"), strings.NewReader("x"))); a.StatusCode != http.StatusFound {
			t.Errorf("a POST is answered %d, want the site's own answer", a.StatusCode)
		}
		if a := w.Get(t, via, "/public"); !strings.Contains(a.Text, "Welcome") {
			t.Errorf("a page for everyone: answered %d %q", a.StatusCode, a.Text)
		}
	})
}

// Who waits for the end of a rest needs no recipe where a client logs in.
func TestALoginByHandEndsTheWait(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	w := brokenLogin(t, site, time.Hour, 1<<30, busy)
	var wg sync.WaitGroup
	wg.Go(func() { askHello(t, w.Proxy, via) })
	world.Eventually(t, "the recipe rests", func() bool { return w.LoginStatus(t.Context(), shopKey).Failed != nil })
	submit(t, w.Proxy, via, loginsites.Password)
	wg.Wait()
}

// A session that ends right after a login gets another, once.
func TestASessionThatEndsRightAfterALogin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		ends, logins int
		in           bool
	}{
		{"once", 1, 2, true},
		{"twice", 2, 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			via := world.TunnelH1
			site := loginsites.New(loginsites.Options{})
			w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
				ended := 0
				var mu sync.Mutex
				o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
					mu.Lock()
					if r.URL.Path == "/page/1" && site.Logins() == ended+1 && ended < tt.ends {
						ended++
						site.Expire()
					}
					mu.Unlock()
					site.ServeHTTP(rw, r)
				})
			})
			a := w.Get(t, via, "/page/1")
			if in := strings.Contains(a.Text, "Hello"); in != tt.in || site.Logins() != tt.logins {
				t.Errorf("answered %d %q after %d logins, want logged in %t after %d", a.StatusCode, a.Text, site.Logins(), tt.in, tt.logins)
			}
		})
	}
}

// A page that logged-in clients may not see sends them to the login, too. It
// costs two logins, not one for each request, and harms no other page.
func TestAPageThatStaysClosedStartsNoLogins(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	var open atomic.Bool
	w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
		o.Handler = sendsAway(site, func(r *http.Request) bool { return r.URL.Path == "/page/admin" && !open.Load() })
	})
	wantHello(t, w.Get(t, via, "/account"))
	for range 5 {
		if a := w.Get(t, via, "/page/admin"); a.StatusCode != http.StatusFound {
			t.Errorf("answered %d, want the site's own answer", a.StatusCode)
		}
		wantHello(t, w.Get(t, via, "/account"))
	}
	if site.Logins() != 3 {
		t.Errorf("%d logins, want two more than the session's", site.Logins())
	}
	open.Store(true)
	wantHello(t, w.Get(t, via, "/page/admin"))
	site.Expire()
	wantHello(t, w.Get(t, via, "/page/admin"))
}

// A site that is seen to err is asked more often, and costs no login.
func TestASiteThatErrsCostsNoLogin(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	var errs atomic.Int32
	w := loginWorld(t, site, withRecipe(loginRules()), func(o *world.Options) {
		o.Handler = sendsAway(site, func(r *http.Request) bool { return r.URL.Path == "/page/1" && errs.Add(-1) >= 0 })
	})
	wantHello(t, w.Get(t, via, "/account"))
	for _, n := range []int32{1, 2, 5, 5} { // the first two are more than chance
		errs.Store(n)
		wantHello(t, w.Get(t, via, "/page/1"))
	}
	if site.Logins() != 1 {
		t.Errorf("%d logins, want the first one", site.Logins())
	}
	if s := w.LoginStatus(t.Context(), shopKey); s.Verdict.String() != "in" {
		t.Errorf("the session is said to be %v, want in", s.Verdict)
	}
}

// sendsAway is a site that answers some requests with the way to its login,
// whoever sends them.
func sendsAway(site http.Handler, when func(*http.Request) bool) http.Handler {
	return handler(func(rw http.ResponseWriter, r *http.Request) {
		if when(r) {
			http.Redirect(rw, r, "/login?next="+r.URL.Path, http.StatusFound)
			return
		}
		site.ServeHTTP(rw, r)
	})
}
