package proxy_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
)

// login is an origin that hands out cookies at /set, one for each "c" in the
// query, and says at every other path which ones it was sent.
var login = handler(func(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/set") || strings.HasPrefix(r.URL.Path, "/logout") {
		w.Header()["Set-Cookie"] = r.URL.Query()["c"]
	}
	io.WriteString(w, strings.Join(r.Header["Cookie"], " | "))
})

// set makes the origin set the cookies, and returns what came of it.
func set(cookies ...string) string {
	var path strings.Builder
	path.WriteString("/set?")
	for _, c := range cookies {
		fmt.Fprintf(&path, "c=%s&", strings.NewReplacer(" ", "+", ";", "%3B", "&", "%26", "+", "%2B", "\"", "%22", "%", "%25").Replace(c))
	}
	return path.String()
}

// wantCookie asserts the Cookie header that arrived.
func wantCookie(t *testing.T, a *world.Answer, want string) {
	t.Helper()
	if a.Text != want {
		t.Errorf("the origin was sent %q, want %q", a.Text, want)
	}
}

func TestALoginSeenByOneClientHoldsForAll(t *testing.T) {
	t.Parallel()
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login})
			second := w.AddProxy()
			a := w.GetAs(t, via, world.User{Name: "ana"}, set("sid=a1; Path=/; HttpOnly", "lang=de; Path=/"))
			if got := a.Header["Set-Cookie"]; !slices.Equal(got, []string{"sid=a1; Path=/; HttpOnly", "lang=de; Path=/"}) {
				t.Errorf("ana was given %q", got)
			}
			wantCookie(t, w.GetAs(t, via, world.User{Name: "ben"}, "/"), "sid=a1; lang=de")
			wantCookie(t, second.Get(t, via, "/"), "sid=a1; lang=de")
			w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "ana", "captured", 2, "injected", 0)
			w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "ben", "captured", 0, "injected", 2)
		})
	}
}

// The store has the login before the client has a byte of the answer.
func TestALoginIsStoredBeforeItIsAnswered(t *testing.T) {
	t.Parallel()
	rest := make(chan bool)
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/login" {
			w.Header().Set("Set-Cookie", "sid=a1; Path=/")
			w.(http.Flusher).Flush()
			<-rest
			return
		}
		io.WriteString(w, r.Header.Get("Cookie"))
	})})
	for _, via := range world.Ways {
		resp := stream(t, w.Client(via), world.Request(t, "GET", via.URL("/login"), nil))
		wantCookie(t, w.Get(t, via, "/"), "sid=a1") // the login's body is still under way
		rest <- true
		io.Copy(io.Discard, resp.Body)
	}
}

func TestTheClientsOwnCookiesAreMerged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, client, want string }{
		{"none", "", "sid=shared; lang=de"},
		{"another name stays in front", "theme=dark", "theme=dark; sid=shared; lang=de"},
		{"a name of the session is replaced in its place", "a=1; sid=mine; b=2", "a=1; sid=shared; b=2; lang=de"},
		{"every copy of it is", "sid=1; a=1; sid=2", "sid=shared; a=1; lang=de"},
		{"bytes stay bytes", `j={"a":[1,2]}; q="x y"; b=` + "\xc3\xa4" + `; =nameless; bare`, `j={"a":[1,2]}; q="x y"; b=` + "\xc3\xa4" + `; =nameless; bare; sid=shared; lang=de`},
		{"it has all of them already", "lang=de; sid=shared", "lang=de; sid=shared"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				w.Get(t, via, set("sid=shared; Path=/", "lang=de; Path=/"))
				var fields []string
				if tt.client != "" {
					fields = []string{"Cookie", tt.client}
				}
				wantCookie(t, w.Get(t, via, "/", fields...), tt.want)
			})
		})
	}
}

// RFC 9113 section 8.2.3 lets a client split its Cookie header.
func TestCrumbsAreJoined(t *testing.T) {
	t.Parallel()
	for _, via := range []world.Way{world.TunnelH2, world.TunnelH2H1} {
		t.Run(via.Name, func(t *testing.T) {
			w := world.New(t, world.Options{Handler: login})
			wantCookie(t, w.Get(t, via, "/", "Cookie", "a=1", "Cookie", "b=2", "Cookie", "c=3; d=4"), "a=1; b=2; c=3; d=4")
			w.Get(t, via, set("sid=shared; Path=/"))
			wantCookie(t, w.Get(t, via, "/", "Cookie", "a=1", "Cookie", "sid=mine", "Cookie", "b=2"), "a=1; sid=shared; b=2")
		})
	}
}

func TestSetCookieLinesStayLines(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	lines := []string{
		"b=2; Path=/", "a=1; Expires=Wed, 01 Dec 2100 00:00:00 GMT; Path=/", "b=3; Path=/x", `j={"a":"b, c"}`,
		"csrftoken=private; Path=/", "evil=1; Domain=evil.test", "b=4; Path=/",
	}
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		if got := w.Get(t, via, set(lines...)).Header["Set-Cookie"]; !slices.Equal(got, lines) {
			t.Errorf("given %q, want %q", got, lines)
		}
		wantCookie(t, w.GetAs(t, via, world.User{Name: "another-worker-2"}, "/set"), `b=4; a=1; j={"a":"b, c"}`)
	})
}

func TestASessionIsASession(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Config: func(c *config.Config) {
		c.Sites = append(c.Sites, world.Site("bank", "bank.test"))
	}})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		w.Get(t, via, set("sid=default; Path=/"))
		qa := world.User{Name: "ana-session-qa1"}
		w.GetAs(t, via, qa, set("sid=qa; Path=/"))
		wantCookie(t, w.Get(t, via, "/"), "sid=default")
		wantCookie(t, w.GetAs(t, via, qa, "/"), "sid=qa")
		wantCookie(t, w.GetAs(t, via, world.User{Name: "ana-session-qa2"}, "/"), "")
		none := world.User{Name: "ana-session-none"}
		w.GetAs(t, via, none, set("sid=none; Path=/"))
		wantCookie(t, w.GetAs(t, via, none, "/"), "")
		wantCookie(t, w.GetAs(t, via, none, "/", "Cookie", "sid=own"), "sid=own")
		wantCookie(t, w.Get(t, via, "/"), "sid=default")
		bank := world.Do(t, w.Client(via), world.Request(t, "GET", via.URLOf("bank.test", "/"), nil))
		wantCookie(t, bank, "")
	})
}

func TestHostsOfNoSiteHaveNoPartInIt(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	w.Get(t, world.Plain, set("sid=shared; Path=/"))
	plain := "http://" + w.Origin.Addr("80") // the same server by a name that nobody declared
	a := world.Do(t, w.Client(world.Plain), world.Request(t, "GET", plain+set("sid=evil; Path=/", "other=1; Path=/"), nil))
	wantCookie(t, a, "")
	wantCookie(t, world.Do(t, w.Client(world.Plain), world.Request(t, "GET", plain+"/", nil)), "")
	wantCookie(t, w.Get(t, world.Plain, "/"), "sid=shared")
	infos, err := w.Store().List(context.Background(), "")
	if err != nil || len(infos) != 1 || infos[0].Key != (session.Key{Site: world.Host, ID: session.DefaultID}) {
		t.Errorf("the store has %v, %v; want the shop's session alone", infos, err)
	}
}

func TestSecureCookiesStayOnTLS(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	w.Get(t, world.TunnelH1, set("sid=secure; Path=/; Secure", "lang=de; Path=/"))
	wantCookie(t, w.Get(t, world.TunnelH2, "/"), "sid=secure; lang=de")
	wantCookie(t, w.Get(t, world.Plain, "/"), "lang=de")
	wantCookie(t, w.Get(t, world.TunnelPlain, "/"), "lang=de")
	w.Get(t, world.Plain, set("sid=overlaid; Path=/")) // RFC 6265bis section 5.7: leave secure cookies alone
	wantCookie(t, w.Get(t, world.TunnelH1, "/"), "sid=secure; lang=de")
}

func TestALogoutEndsNobodyElsesLogin(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		w.Get(t, via, set("sid=a1; Path=/"))
		a := w.Get(t, via, "/logout?c=sid=gone%3B+Max-Age=0", "Cookie", "sid=a1; theme=dark")
		wantCookie(t, a, "theme=dark")
		if a.Header.Get("Set-Cookie") != "sid=gone; Max-Age=0" {
			t.Errorf("its own client was given %q", a.Header["Set-Cookie"])
		}
		wantCookie(t, w.Get(t, via, "/"), "sid=a1")
	})
}

func TestSwitches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		config    func(*config.Config)
		user      world.User
		delivered []string
		sent      string // by another client afterwards
	}{
		{"all on", nil, crawler, []string{"sid=a1; Path=/", "old=; Path=/; Max-Age=0"}, "sid=a1"},
		{"the site delivers no cookies, but deletions pass", func(c *config.Config) { c.Sites[0].Cookies.Deliver = false }, crawler, []string{"old=; Path=/; Max-Age=0"}, "sid=a1"},
		{"the client is given none", func(c *config.Config) { c.Clients[0].Deliver = false }, crawler, []string{"old=; Path=/; Max-Age=0"}, "sid=a1"},
		{"a client that reads does not log in", nil, viewer, []string{"sid=a1; Path=/", "old=; Path=/; Max-Age=0"}, ""},
		{"capture is off", func(c *config.Config) { c.Sites[0].Cookies.Capture = false }, crawler, []string{"sid=a1; Path=/", "old=; Path=/; Max-Age=0"}, ""},
		{"injection is off", func(c *config.Config) { c.Sites[0].Cookies.Inject = false }, crawler, []string{"sid=a1; Path=/", "old=; Path=/; Max-Age=0"}, ""},
		{"the name is not shared", func(c *config.Config) { c.Sites[0].Cookies.Share = []string{"other*"} }, crawler, []string{"sid=a1; Path=/", "old=; Path=/; Max-Age=0"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login, Listen: asking, Config: func(c *config.Config) {
				clients(c)
				if tt.config != nil {
					tt.config(c)
				}
			}})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				a := w.GetAs(t, via, tt.user, set("sid=a1; Path=/", "old=; Path=/; Max-Age=0"))
				if got := a.Header["Set-Cookie"]; !slices.Equal(got, tt.delivered) {
					t.Errorf("delivered %q, want %q", got, tt.delivered)
				}
				wantCookie(t, w.GetAs(t, via, world.User{Name: "viewer-worker-2", Password: "pa:ss"}, "/"), tt.sent)
			})
		})
	}
}

func TestCookieValuesAreInNoLog(t *testing.T) {
	t.Parallel()
	const marker = "Zm9yYmlkZGVu"
	w := world.New(t, world.Options{Handler: login, Config: clients, Listen: asking})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		w.GetAs(t, via, crawler, set("sid="+marker+"; Path=/", "bad="+marker+"; Domain=evil.test", marker, "x="+marker+"; Secure; Path=/"), "Cookie", "own="+marker)
		w.GetAs(t, via, crawler, "/?q="+marker, "Authorization", "Bearer "+marker)
		w.GetAs(t, via, crawler, "/logout?c=sid="+marker)
	})
	w.GetAs(t, world.Plain, world.User{Name: "crawler", Password: marker}, "/")
	w.Dial(t).Connect("shop.test:443", credentials("crawler", marker))
	for _, rec := range w.All() {
		if s := rec.String(); strings.Contains(s, marker) || strings.Contains(s, crawler.Password) {
			t.Errorf("logged: %s", s)
		}
	}
}

// A response with more lines than a site may have cookies is looked at no
// further: each line costs, and all wait for the store.
func TestOneResponseSetsNoMoreThanASiteMayHave(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, _ *http.Request) {
		for i := range 5000 {
			w.Header().Add("Set-Cookie", fmt.Sprintf("c%d=1", i))
		}
	})})
	a := w.Get(t, world.TunnelH1, "/")
	if n := len(a.Header["Set-Cookie"]); n != 5000 {
		t.Errorf("the client was given %d lines, want all", n)
	}
	jar, err := w.Store().Load(t.Context(), session.Key{Site: world.Host, ID: session.DefaultID})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(jar.Cookies()); n != 180 {
		t.Errorf("the session holds %d cookies, want 180", n)
	}
}
