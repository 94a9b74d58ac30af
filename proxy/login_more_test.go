package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/world"
	logins "github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// A page to log in at clears what it takes for the rest of an older login.
// While somebody is logged in, the session keeps it.
func TestALoginPageDeletesNoLogin(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, loginRules(), func(o *world.Options) {
		o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Get("reauth") != "" {
				http.SetCookie(rw, &http.Cookie{Name: "sid", MaxAge: -1, Path: "/"})
				fmt.Fprint(rw, "Please sign in")
				return
			}
			site.ServeHTTP(rw, r)
		})
	})
	submit(t, w.Proxy, via, loginsites.Password)
	if a := w.Get(t, via, "/login?reauth=1"); !strings.HasPrefix(a.Header.Get("Set-Cookie"), "sid=;") {
		t.Errorf("the client is told %q, want the site's own line", a.Header.Get("Set-Cookie"))
	}
	wantHello(t, w.Get(t, via, "/account"))
	site.Expire()
	w.Get(t, via, "/account") // seen to be logged out
	w.Get(t, via, "/login?reauth=1")
	jar, err := w.Store().Load(t.Context(), shopKey)
	if err != nil || jar.Login() != 0 {
		t.Errorf("login %d, %v; want it gone", jar.Login(), err)
	}
}

// A reply that shows a logged-out session, for once or for good, does not take
// the session away.
func TestALoggedOutReplyTakesNoLogin(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, loginRules(), func(o *world.Options) {
		o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
			switch r.URL.Path {
			case "/page/head", "/page/body":
				http.SetCookie(rw, &http.Cookie{Name: "sid", Value: "anonymous", Path: "/"})
				http.SetCookie(rw, &http.Cookie{Name: "state", Value: r.URL.Path[6:], Path: "/"})
				if r.URL.Path == "/page/head" {
					http.Redirect(rw, r, "/login", http.StatusFound)
				} else {
					rw.Header().Set("Content-Type", "text/html")
					fmt.Fprint(rw, "Please sign in")
				}
			default:
				site.ServeHTTP(rw, r)
			}
		})
	})
	submit(t, w.Proxy, world.TunnelH1, loginsites.Password)
	for _, sign := range []string{"head", "body"} {
		w.Get(t, world.TunnelH1, "/page/"+sign)
		wantHello(t, w.Get(t, world.TunnelH1, "/account"))
		jar, err := w.Store().Load(t.Context(), shopKey)
		if err != nil {
			t.Fatal(err)
		}
		state := ""
		for _, c := range jar.Cookies() {
			if c.Name == "state" {
				state = c.Value
			}
		}
		if state != sign {
			t.Errorf("state is %q: what is no login's is not kept", state)
		}
	}
}

// The one that was overtaken answers before the one that overtook it. The
// session is the later one's, which is alive.
func TestAnOvertakenLoginSetsNothing(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	first, second := make(chan struct{}), make(chan struct{})
	site := loginsites.New(loginsites.Options{Single: true, OnLogin: func(n int) {
		if n == 1 {
			<-first
		} else {
			<-second
		}
	}})
	rules := loginRules()
	rules.Wait = 200 * time.Millisecond
	w := loginWorld(t, site, rules)
	token := formToken(t, w.Proxy, via)
	old, later := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(old)
		post(t, w.Proxy, via, loginsites.Password, token)
	}()
	world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
	go func() {
		defer close(later)
		post(t, w.Proxy, via, loginsites.Password, token)
	}()
	world.Eventually(t, "it is overtaken", func() bool { return site.Logins() == 2 })
	close(first)
	<-old
	close(second)
	<-later
	wantHello(t, w.Get(t, via, "/account"))
}

// Bodies that decide pass byte for byte, however they are packed.
func TestPackedPagesAreLookedAt(t *testing.T) {
	t.Parallel()
	page := "<h1>Please sign in</h1>" + strings.Repeat("<p>filler</p>", 5000)
	packed := map[string][]byte{"": []byte(page)}
	var g, b, z bytes.Buffer
	gw, bw := gzip.NewWriter(&g), brotli.NewWriter(&b)
	zw, err := zstd.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(gw, page)
	fmt.Fprint(bw, page)
	fmt.Fprint(zw, page)
	gw.Close()
	bw.Close()
	zw.Close()
	packed["gzip"], packed["br"], packed["zstd"] = g.Bytes(), b.Bytes(), z.Bytes()
	for encoding, body := range packed {
		for _, recipe := range []bool{false, true} {
			t.Run(fmt.Sprintf("%q %t", encoding, recipe), func(t *testing.T) {
				t.Parallel()
				rules := loginRules()
				if recipe { // its pages are held, the others' are not
					rules = withRecipe(rules)
					rules.Recipe[0].Get = "/nothing"
				}
				w := world.New(t, world.Options{
					Handler: handler(func(rw http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/nothing" {
							http.NotFound(rw, r)
							return
						}
						rw.Header().Set("Content-Type", "text/html")
						if encoding != "" {
							rw.Header().Set("Content-Encoding", encoding)
						}
						rw.Write(body)
					}),
					Config: func(c *config.Config) { c.Sites[0].Login = rules },
				})
				for _, via := range tlsWays {
					if a := w.Get(t, via, "/page"); a.Text != string(body) || a.Header.Get("Content-Encoding") != encoding {
						t.Errorf("%s: %d bytes, packed by %q; want %d as they were", via.Name, len(a.Text), a.Header.Get("Content-Encoding"), len(body))
					}
				}
				world.Eventually(t, "the session is seen to be logged out", func() bool {
					s := w.LoginStatus(t.Context(), shopKey)
					return s.Verdict == logins.Out && s.Rule == "logged_out.body"
				})
			})
		}
	}
}

// A page that is written as it comes to be does not wait for its end.
func TestAPageInPiecesIsNotHeldForEver(t *testing.T) {
	t.Parallel()
	end := make(chan struct{})
	defer close(end)
	w := world.New(t, world.Options{
		Handler: handler(func(rw http.ResponseWriter, r *http.Request) {
			rw.Header().Set("Content-Type", "text/html")
			fmt.Fprint(rw, "first")
			rw.(http.Flusher).Flush()
			select {
			case <-end:
			case <-r.Context().Done():
			}
		}),
		Config: func(c *config.Config) { c.Sites[0].Login = withRecipe(loginRules()) },
	})
	r := world.Request(t, http.MethodGet, world.TunnelH1.URL("/page"), nil)
	resp, err := w.Client(world.TunnelH1).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b := make([]byte, 5)
	if n, err := resp.Body.Read(b); string(b[:n]) != "first" {
		t.Errorf("read %q, %v", b[:n], err)
	}
}

// A client that leaves while it waits for another's login.
func TestAWaitingClientMayLeave(t *testing.T) {
	t.Parallel()
	via := world.TunnelH2
	hold := make(chan struct{})
	site := loginsites.New(loginsites.Options{OnLogin: func(int) { <-hold }})
	w := loginWorld(t, site, loginRules())
	token := formToken(t, w.Proxy, via)
	done := make(chan struct{})
	go func() {
		defer close(done)
		post(t, w.Proxy, via, loginsites.Password, token)
	}()
	world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
	c := w.Raw(t, world.TunnelH1)
	form := url.Values{"user": {loginsites.User}, "password": {loginsites.Password}, "token": {token}}.Encode()
	c.Send(world.Head(http.MethodPost, world.TunnelH1, "/login", "Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d", len(form))) + form)
	time.Sleep(20 * time.Millisecond)
	c.Close()
	w.WantRecord(t, "exchange", "method", "POST", "outcome", "client_gone")
	close(hold)
	<-done
}

func TestExplainALogin(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, loginRules())
	say := func(path string) string {
		u, err := url.Parse(world.TunnelH1.URL(path))
		if err != nil {
			t.Fatal(err)
		}
		return w.ExplainLogin(t.Context(), u, session.DefaultID)
	}
	for _, tt := range []struct{ path, want string }{
		{"/login", "A POST there is the site's login: one goes out at a time. Whether the session is logged in has not been seen since its last login."},
		{"/login2", "This is a page to log in at: what it shows tells nothing of the session. Whether"},
		{"/account", "Whether the session"},
	} {
		if got := say(tt.path); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.path, got, tt.want)
		}
	}
	w.Get(t, world.TunnelH1, "/api/me")
	if got := say("/account"); !strings.HasPrefix(got, "The session was last seen logged out, 0s ago, as logged_out.status showed.") {
		t.Errorf("afterwards: %q", got)
	}
}

// Whatever is declared as a login, a body of any size reaches the site whole.
func TestALargeLoginPasses(t *testing.T) {
	t.Parallel()
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		w := world.New(t, world.Options{
			Handler: handler(func(rw http.ResponseWriter, r *http.Request) {
				var b bytes.Buffer
				n, err := b.ReadFrom(r.Body)
				fmt.Fprint(rw, n, err, strings.Trim(b.String(), "x"))
			}),
			Config: func(c *config.Config) { c.Sites[0].Login = loginRules() },
		})
		for _, size := range []int{0, 1, logins.MaxBody, logins.MaxBody + 1, 1 << 20} {
			for _, chunked := range []bool{false, true} {
				r := world.Request(t, http.MethodPost, via.URL("/login"), strings.NewReader(strings.Repeat("x", size)))
				if chunked {
					r.ContentLength = -1
				}
				if a := world.Do(t, w.Client(via), r); a.Text != fmt.Sprint(size, nil, "") {
					t.Errorf("%d bytes, chunked %t: the site read %s", size, chunked, a.Text)
				}
			}
		}
	})
}

// Another user's login is another login, also while one is under way and after
// it: it goes to the site, and comes back with the site's own answer.
func TestAnotherUsersLoginIsNotSwallowed(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	hold := make(chan struct{})
	site := loginsites.New(loginsites.Options{OnLogin: func(int) { <-hold }})
	w := loginWorld(t, site, loginRules())
	token := formToken(t, w.Proxy, via)
	bob := func() {
		form := url.Values{"user": {"bob"}, "password": {loginsites.Password}, "token": {formToken(t, w.Proxy, via)}}.Encode()
		a := world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL("/login"), strings.NewReader(form), "Content-Type", "application/x-www-form-urlencoded"))
		if a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Please sign in") {
			t.Errorf("bob is answered %d to %q, want the site's own form", a.StatusCode, a.Header.Get("Location"))
		}
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		post(t, w.Proxy, via, loginsites.Password, token)
	}()
	world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
	bob()
	close(hold)
	<-done
	bob()
	if site.Attempts() != 3 {
		t.Errorf("%d logins reached the site, want all three", site.Attempts())
	}
	wantHello(t, w.Get(t, via, "/account"))
}
