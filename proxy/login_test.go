package proxy_test

import (
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/world"
	logins "github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

var shopKey = session.Key{Site: world.Host, ID: session.DefaultID}

// loginRules are those of a loginsites.Site.
func loginRules() *config.Login {
	return &config.Login{
		Request:   config.LoginRequest{Method: http.MethodPost, Path: "/login"},
		Ignore:    []string{"token"},
		LoggedOut: config.Signs{Status: []int{401}, Redirect: "*/login*", Body: "Please sign in"},
		LoggedIn:  config.Signs{Redirect: "*/account"},
		Wait:      time.Minute, OnTimeout: config.Proceed,
	}
}

func withRecipe(l *config.Login) *config.Login {
	l.Recipe = []config.LoginStep{
		{Get: "/login", Take: map[string]string{"token": "input[name=token]"}},
		{Post: "/login", Form: map[string]string{"user": "{user}", "password": "{password}", "token": "{token}"}},
	}
	l.Accounts = []config.Account{{ID: session.DefaultID, User: loginsites.User, Password: loginsites.Password}}
	return l
}

// loginWorld is a world around a loginsites.Site.
func loginWorld(t *testing.T, site *loginsites.Site, l *config.Login, changes ...func(*world.Options)) *world.World {
	t.Helper()
	o := world.Options{Handler: site, Config: func(c *config.Config) { c.Sites[0].Login = l }}
	for _, change := range changes {
		change(&o)
	}
	return world.New(t, o)
}

var tokenField = regexp.MustCompile(`name="token" value="([^"]*)"`)

// submit fetches the form and sends it, as a worker that keeps no cookies.
func submit(t *testing.T, p *world.Proxy, via world.Way, password string, fields ...string) *world.Answer {
	t.Helper()
	return post(t, p, via, password, formToken(t, p, via), fields...)
}

func formToken(t *testing.T, p *world.Proxy, via world.Way) string {
	t.Helper()
	page := p.Get(t, via, "/login")
	m := tokenField.FindStringSubmatch(page.Text)
	if m == nil {
		t.Fatalf("GET /login: %d %s", page.StatusCode, page.Text)
	}
	return m[1]
}

func post(t *testing.T, p *world.Proxy, via world.Way, password, token string, fields ...string) *world.Answer {
	t.Helper()
	return world.Do(t, p.Client(via), loginForm(t, via, password, token, fields...))
}

func loginForm(t *testing.T, via world.Way, password, token string, fields ...string) *http.Request {
	t.Helper()
	form := url.Values{"user": {loginsites.User}, "password": {password}, "token": {token}}
	fields = append(fields, "Content-Type", "application/x-www-form-urlencoded")
	return world.Request(t, http.MethodPost, via.URL("/login"), strings.NewReader(form.Encode()), fields...)
}

func wantHello(t *testing.T, a *world.Answer) {
	t.Helper()
	if a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Hello alice") {
		t.Errorf("answered %d %q, want the page of a logged-in client", a.StatusCode, a.Text)
	}
}

// each runs f so often at once, and waits.
func each(n int, f func(i int)) {
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { f(i) })
	}
	wg.Wait()
}

var tlsWays = []world.Way{world.TunnelH1, world.TunnelH2, world.TunnelH2H1}

// All submit the form at once. One login reaches the site, and all get its
// redirect and nobody's cookie.
func TestOneLogsInForAll(t *testing.T) {
	t.Parallel()
	onEach(t, tlsWays, func(t *testing.T, via world.Way) {
		t.Parallel()
		var begun sync.WaitGroup
		begun.Add(1)
		site := loginsites.New(loginsites.Options{OnLogin: func(int) { begun.Wait() }})
		w := loginWorld(t, site, loginRules())
		token := formToken(t, w.Proxy, via)
		const clients = 20
		answers := make([]*world.Answer, clients)
		go func() {
			time.Sleep(100 * time.Millisecond) // so that most come while it is under way; it holds without
			begun.Done()
		}()
		each(clients, func(i int) { answers[i] = post(t, w.Proxy, via, loginsites.Password, token) })
		cookies := 0
		for _, a := range answers {
			if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/account" {
				t.Errorf("answered %d to %q", a.StatusCode, a.Header.Get("Location"))
			}
			if len(a.Header["Set-Cookie"]) > 0 {
				cookies++
			}
		}
		if site.Logins() != 1 || site.Attempts() != 1 {
			t.Errorf("%d logins of %d tries reached the site, want one", site.Logins(), site.Attempts())
		}
		if cookies != 1 {
			t.Errorf("%d answers have cookies, want that of who logged in", cookies)
		}
		wantHello(t, w.Get(t, via, "/account"))
		// A minute's grace for those who come after.
		if a := post(t, w.Proxy, via, loginsites.Password, "another"); a.StatusCode != http.StatusSeeOther || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("after the login: answered %d %v", a.StatusCode, a.Header)
		}
		if site.Attempts() != 1 {
			t.Errorf("%d tries reached the site, want one", site.Attempts())
		}
	})
}

// Who has another password is another matter: the site's own refusal comes to
// that client alone, and the session stays as it is.
func TestAWrongPasswordHarmsNobody(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, loginRules())
	for range 3 {
		if a := submit(t, w.Proxy, via, "wrong"); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Please sign in") {
			t.Errorf("answered %d %q, want the site's own form", a.StatusCode, a.Text)
		}
	}
	if a := submit(t, w.Proxy, via, loginsites.Password); a.StatusCode != http.StatusSeeOther {
		t.Errorf("the right one: answered %d", a.StatusCode)
	}
	wantHello(t, w.Get(t, via, "/account"))
	token := formToken(t, w.Proxy, via)
	each(5, func(int) {
		if a := post(t, w.Proxy, via, "wrong", token); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Please sign in") {
			t.Errorf("while logged in: answered %d %q, want the site's own form", a.StatusCode, a.Text)
		}
	})
	if site.Attempts() != 9 || site.Logins() != 1 {
		t.Errorf("%d tries and %d logins reached the site, want 9 and 1", site.Attempts(), site.Logins())
	}
	wantHello(t, w.Get(t, via, "/account"))
}

// A site that knows a visitor by the same cookie before and after.
func TestALoginThatSetsNoCookie(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	w := loginWorld(t, loginsites.New(loginsites.Options{SameID: true}), loginRules())
	submit(t, w.Proxy, via, loginsites.Password)
	jar, err := w.Store().Load(t.Context(), shopKey)
	if err != nil || jar.Login() == 0 {
		t.Errorf("login %d, %v; want the session's cookie to be a login's", jar.Login(), err)
	}
	wantHello(t, w.Get(t, via, "/account"))
}

// A client that reads only takes no turn and logs nobody in.
func TestAReaderDoesNotLogIn(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, loginRules(), func(o *world.Options) {
		declare := o.Config
		o.Config = func(c *config.Config) {
			declare(c)
			c.Clients = []config.Client{{Name: "reader", Password: "r", Access: config.Read, Deliver: true}}
		}
	})
	reader := world.User{Name: "reader", Password: "r"}
	page := w.GetAs(t, via, reader, "/login")
	cookie, _, _ := strings.Cut(page.Header.Get("Set-Cookie"), ";")
	form := url.Values{"user": {loginsites.User}, "password": {loginsites.Password}, "token": {tokenField.FindStringSubmatch(page.Text)[1]}}
	for range 2 {
		a := world.Do(t, w.ClientAs(via, reader), world.Request(t, http.MethodPost, via.URL("/login"), strings.NewReader(form.Encode()),
			"Content-Type", "application/x-www-form-urlencoded", "Cookie", cookie))
		if a.StatusCode == http.StatusServiceUnavailable {
			t.Errorf("answered %d %s", a.StatusCode, a.Text)
		}
	}
	if site.Attempts() != 2 {
		t.Errorf("%d tries reached the site, want both", site.Attempts())
	}
	if a := w.Get(t, via, "/account"); a.StatusCode != http.StatusFound {
		t.Errorf("others are answered %d, want logged out", a.StatusCode)
	}
}

// A foreign page can make a browser send the form. It gets no turn.
func TestAForeignPageTakesNoTurn(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	hold := make(chan struct{})
	site := loginsites.New(loginsites.Options{OnLogin: func(int) { <-hold }})
	w := loginWorld(t, site, loginRules())
	token := formToken(t, w.Proxy, via)
	var wg sync.WaitGroup
	wg.Go(func() { post(t, w.Proxy, via, loginsites.Password, token) })
	world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
	a := post(t, w.Proxy, via, loginsites.Password, token, "Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "empty")
	if a.StatusCode != http.StatusForbidden {
		t.Errorf("answered %d, want the site's refusal of a form without its cookie, at once", a.StatusCode)
	}
	close(hold)
	wg.Wait()
}

// The first one is killed, or fails: the next one has its turn.
func TestALoginThatFailsLetsTheNextTry(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	var mu sync.Mutex
	tries := 0
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, loginRules(), func(o *world.Options) {
		o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				mu.Lock()
				tries++
				n := tries
				mu.Unlock()
				if n <= 2 {
					time.Sleep(20 * time.Millisecond)
					panic(http.ErrAbortHandler)
				}
			}
			site.ServeHTTP(rw, r)
		})
	})
	token := formToken(t, w.Proxy, via)
	var mine sync.Mutex
	got := map[int]int{}
	each(6, func(int) {
		a := post(t, w.Proxy, via, loginsites.Password, token)
		mine.Lock()
		defer mine.Unlock()
		got[a.StatusCode]++
	})
	if got[http.StatusBadGateway] != 2 || got[http.StatusSeeOther] != 4 || site.Attempts() != 1 {
		t.Errorf("answers %v, %d tries at the site; want two that failed, then one for all", got, site.Attempts())
	}
}

func TestWhoWaitsTooLong(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	for _, tt := range []struct {
		name string
		then config.OnTimeout
	}{{"is told so", config.Fail}, {"logs in, and the old login sets nothing", config.Proceed}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			hold := make(chan struct{})
			site := loginsites.New(loginsites.Options{Single: true, OnLogin: func(n int) {
				if n == 1 {
					<-hold
				}
			}})
			rules := loginRules()
			rules.Wait, rules.OnTimeout = 200*time.Millisecond, tt.then
			w := loginWorld(t, site, rules)
			token := formToken(t, w.Proxy, via)
			var wg sync.WaitGroup
			wg.Go(func() { post(t, w.Proxy, via, loginsites.Password, token) })
			world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
			a := post(t, w.Proxy, via, loginsites.Password, token)
			if tt.then == config.Fail {
				if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.Header.Get("Proxy-Status"), "login_wait") {
					t.Errorf("answered %d %v", a.StatusCode, a.Header)
				}
				close(hold)
				wg.Wait()
				return
			}
			if a.StatusCode != http.StatusSeeOther {
				t.Errorf("answered %d", a.StatusCode)
			}
			jar, _ := w.Store().Load(t.Context(), shopKey)
			close(hold)
			wg.Wait()
			if now, _ := w.Store().Load(t.Context(), shopKey); now.Version() != jar.Version() {
				t.Errorf("the old login changed the session")
			}
			if w.Count("login", "overtaken", true) != 1 {
				t.Errorf("no record of a login that was overtaken")
			}
		})
	}
}

// The kept answer is for a session that still has the login.
func TestAnAnswerEndsWithItsSession(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	for _, tt := range []struct {
		name string
		end  func(*testing.T, *world.World, *loginsites.Site)
	}{
		{"revoked", func(t *testing.T, w *world.World, _ *loginsites.Site) {
			if err := w.Revoke(t.Context(), shopKey); err != nil {
				t.Fatal(err)
			}
		}},
		{"cleared", func(t *testing.T, w *world.World, _ *loginsites.Site) {
			if err := w.Store().Clear(t.Context(), shopKey); err != nil {
				t.Fatal(err)
			}
		}},
		{"seen to be logged out", func(t *testing.T, w *world.World, site *loginsites.Site) {
			site.Expire()
			if a := w.Get(t, via, "/account"); a.StatusCode != http.StatusFound {
				t.Errorf("answered %d", a.StatusCode)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			site := loginsites.New(loginsites.Options{})
			w := loginWorld(t, site, loginRules())
			submit(t, w.Proxy, via, loginsites.Password)
			tt.end(t, w, site)
			submit(t, w.Proxy, via, loginsites.Password)
			if site.Logins() != 2 {
				t.Errorf("%d logins reached the site, want another", site.Logins())
			}
			wantHello(t, w.Get(t, via, "/account"))
		})
	}
}

// A GET that left before somebody logged in is sent again: its client never
// sees the old answer. A POST is not.
func TestARequestFromBeforeTheLoginIsSentAgain(t *testing.T) {
	t.Parallel()
	for _, form := range []bool{false, true} {
		for _, via := range tlsWays {
			t.Run(via.Name, func(t *testing.T) {
				t.Parallel()
				site := loginsites.New(loginsites.Options{Form: form})
				var slow atomic.Int32
				arrived, hold := make(chan struct{}, 2), make(chan struct{})
				w := loginWorld(t, site, loginRules(), func(o *world.Options) {
					o.Handler = handler(func(rw http.ResponseWriter, r *http.Request) {
						if r.URL.Path == "/page/slow" && slow.Add(1) <= 2 {
							delayed(site, arrived, hold, rw, r)
							return
						}
						site.ServeHTTP(rw, r)
					})
				})
				var wg sync.WaitGroup
				var get, posted *world.Answer
				wg.Go(func() { get = w.Get(t, via, "/page/slow") })
				wg.Go(func() {
					posted = world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL("/page/slow"), strings.NewReader("x")))
				})
				<-arrived
				<-arrived
				submit(t, w.Proxy, via, loginsites.Password)
				close(hold)
				wg.Wait()
				wantHello(t, get)
				if strings.Contains(posted.Text, "Hello") {
					t.Errorf("the POST was sent again: %d %q", posted.StatusCode, posted.Text)
				}
				wantHello(t, w.Get(t, via, "/account"))
			})
		}
	}
}

// delayed answers as h does, but not before hold is closed.
func delayed(h http.Handler, arrived chan<- struct{}, hold <-chan struct{}, rw http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	h.ServeHTTP(answer, r)
	arrived <- struct{}{}
	<-hold
	maps.Copy(rw.Header(), answer.Header())
	rw.WriteHeader(answer.Code)
	answer.Body.WriteTo(rw)
}

// While a login is under way, what would go out logged out waits for it. The
// login's own pages, and what is not logged out, pass.
func TestRequestsWaitForALoginUnderWay(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	hold := make(chan struct{})
	site := loginsites.New(loginsites.Options{OnLogin: func(int) { <-hold }})
	w := loginWorld(t, site, loginRules())
	if a := w.Get(t, via, "/account"); a.StatusCode != http.StatusFound {
		t.Fatalf("answered %d", a.StatusCode)
	}
	token := formToken(t, w.Proxy, via)
	var wg sync.WaitGroup
	wg.Go(func() { post(t, w.Proxy, via, loginsites.Password, token) })
	world.Eventually(t, "a login is under way", func() bool { return site.Logins() == 1 })
	formToken(t, w.Proxy, via)
	forms := site.Forms()
	each(10, func(i int) {
		if i == 9 {
			time.Sleep(50 * time.Millisecond)
			close(hold)
			return
		}
		if i%2 == 0 {
			wantHello(t, w.Get(t, via, "/page/1"))
			return
		}
		wantHello(t, world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL("/page/1"), strings.NewReader("x"))))
	})
	wg.Wait()
	if site.Forms() != forms {
		t.Errorf("%d requests went out logged out", site.Forms()-forms)
	}
}

// With a recipe the proxy logs in by itself, once, and nobody sees the form.
func TestTheProxyLogsIn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		o    loginsites.Options
	}{
		{"where logged-out clients are sent to the form", loginsites.Options{}},
		{"where they get it with 200", loginsites.Options{Form: true}},
		{"where the login keeps the session's name", loginsites.Options{SameID: true}},
		{"where there is one session at a time", loginsites.Options{Single: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			site := loginsites.New(tt.o)
			w := loginWorld(t, site, withRecipe(loginRules()))
			for round := 1; round <= 2; round++ {
				each(20, func(i int) {
					via := tlsWays[i%len(tlsWays)]
					wantHello(t, w.Get(t, via, "/account"))
				})
				if site.Logins() != round {
					t.Errorf("round %d: %d logins reached the site", round, site.Logins())
				}
				site.Expire()
			}
		})
	}
}

// A recipe that fails is left alone for a time, with the reason at hand.
func TestARecipeThatFailsRests(t *testing.T) {
	t.Parallel()
	via := world.TunnelH1
	site := loginsites.New(loginsites.Options{})
	rules := withRecipe(loginRules())
	rules.Accounts[0].Password = "wrong-hunter2"
	w := loginWorld(t, site, rules)
	for range 10 {
		if a := w.Get(t, via, "/account"); a.StatusCode != http.StatusFound {
			t.Errorf("answered %d, want the site's own answer", a.StatusCode)
		}
	}
	if site.Attempts() != 1 {
		t.Errorf("%d tries, want one", site.Attempts())
	}
	steps, err := w.LogIn(t.Context(), shopKey)
	if err == nil || !strings.Contains(err.Error(), "step 2: POST https://shop.test/login: ") || len(steps) != 2 {
		t.Errorf("by hand: %v, %v", steps, err)
	}
	if site.Attempts() != 2 {
		t.Errorf("%d tries after one by hand, want two", site.Attempts())
	}
	if failed := w.LoginStatus(t.Context(), shopKey).Failed; failed == nil || failed.Failures != 2 || !strings.Contains(failed.Why, "logged_out.body") {
		t.Errorf("status %+v, want two failures and why", failed)
	}
	for _, r := range w.All() {
		if strings.Contains(r.String(), "hunter2") {
			t.Errorf("the password is in the log: %s", r)
		}
	}
}

// Where all upstreams are leased the recipe can't begin. That is no failure of
// the login, however often it is so.
func TestARecipeWithoutALeaseDoesNotFail(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	one, two := world.NewUpstream(t, world.UpstreamOptions{}), world.NewUpstream(t, world.UpstreamOptions{})
	rules := withRecipe(loginRules())
	rules.Wait = 100 * time.Millisecond
	lease := leaving(func(p *config.Pool) { p.Wait = 300 * time.Millisecond }, one)
	w := loginWorld(t, site, rules, func(o *world.Options) {
		login := o.Config
		o.Config = func(c *config.Config) { login(c); lease(c) }
	})
	wantRests(t, w.Get(t, world.TunnelH1, "/account")) // its worker has the one lease
	for range 6 {
		if steps, err := w.LogIn(t.Context(), shopKey); err == nil || !strings.Contains(err.Error(), "are leased") || len(steps) != 0 {
			t.Fatalf("by hand: %v, %v", steps, err)
		}
	}
	if failed := w.LoginStatus(t.Context(), shopKey).Failed; failed == nil || failed.Failures != 0 || time.Until(failed.Until) > time.Minute {
		t.Errorf("status %+v, want no failure, and a short rest", failed)
	}
	u, err := upstream.Parse(two.URL)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Upstreams().Pool("eu").Add(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, "the recipe logs in", func() bool {
		_, err := w.LogIn(t.Context(), shopKey)
		return err == nil
	})
	if site.Attempts() != 1 {
		t.Errorf("%d tries, want one", site.Attempts())
	}
	wantHello(t, w.Get(t, world.TunnelH1, "/account"))
}

func TestLogInByHand(t *testing.T) {
	t.Parallel()
	site := loginsites.New(loginsites.Options{})
	w := loginWorld(t, site, withRecipe(loginRules()))
	steps, err := w.LogIn(t.Context(), shopKey)
	if err != nil {
		t.Fatal(err)
	}
	want := []logins.Step{
		{Method: "GET", URL: "https://shop.test/login", Status: 200, Took: []string{"token"}},
		{Method: "POST", URL: "https://shop.test/login", Status: 303, Redirect: "https://shop.test/account"},
		{Method: "GET", URL: "https://shop.test/account", Status: 200},
	}
	for i := range steps {
		steps[i].Time = 0
	}
	if !equalSteps(steps, want) {
		t.Errorf("steps %+v, want %+v", steps, want)
	}
	wantHello(t, w.Get(t, world.TunnelH1, "/account"))
	if got := w.LoginStatus(t.Context(), shopKey); got.Verdict != logins.In {
		t.Errorf("verdict %v", got)
	}
	if _, err := w.LogIn(t.Context(), session.Key{Site: world.Host, ID: "qa"}); !errors.Is(err, logins.ErrNoRecipe) {
		t.Errorf("a session without an account: %v", err)
	}
}

// wantRests wants an answer in the place of a login page, which says when to try
// again.
func wantRests(t *testing.T, a *world.Answer) {
	t.Helper()
	if a.StatusCode != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "" || !strings.Contains(a.Header.Get("Proxy-Status"), "login_rests") {
		t.Errorf("answered %d %q, want 503 login_rests, and when to try again", a.StatusCode, a.Text)
	}
}

func equalSteps(a, b []logins.Step) bool {
	return slices.EqualFunc(a, b, func(a, b logins.Step) bool {
		return a.Method == b.Method && a.URL == b.URL && a.Status == b.Status && a.Redirect == b.Redirect && slices.Equal(a.Took, b.Took)
	})
}
