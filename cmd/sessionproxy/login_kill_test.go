package main

import (
	"context"
	"crypto/sha1" //nolint:gosec // by which Redis names scripts
	"encoding/hex"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

const (
	loginByClients = `{request: {path: /login}, ignore: [token], logged_out: {status: [401], redirect: "*/login*"}, logged_in: {redirect: "*/account"}}`
	loginByRecipe  = `
      request: {path: /login}
      ignore: [token]
      logged_out: {status: [401], redirect: "*/login*"}
      logged_in: {redirect: "*/account"}
      recipe:
        - {get: /login, take: {token: "input[name=token]"}}
        - {post: /login, form: {user: "{user}", password: "{password}", token: "{token}"}}
      accounts: [{user: alice, password: "${SHOP_PASSWORD}"}]`
)

// killing is a site's handler that ends the first proxy that comes to such a
// request: before the site has done anything, or before the proxy has the reply.
type killing struct {
	*loginsites.Site
	at    func(*http.Request) bool
	after bool // the site has done what the request asks for
	kill  func(proxy string)
	once  sync.Once
}

func (k *killing) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	mine := false
	if k.at != nil && k.at(r) {
		k.once.Do(func() { mine = true })
	}
	if !mine {
		k.Site.ServeHTTP(w, r)
		return
	}
	if k.after {
		k.Site.ServeHTTP(new(discarded), r)
	}
	k.kill(r.Header.Get("Via-Proxy"))
	panic(http.ErrAbortHandler)
}

// discarded is a reply that nobody reads.
type discarded struct{ header http.Header }

func (d *discarded) Header() http.Header {
	if d.header == nil {
		d.header = http.Header{}
	}
	return d.header
}
func (d *discarded) Write(b []byte) (int, error) { return len(b), nil }
func (d *discarded) WriteHeader(int)             {}

// by says whether a request is such a one of a recipe's, which names itself.
func byRecipe(method, path string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Method == method && r.URL.Path == path && r.UserAgent() == "sessionproxy"
	}
}

func byAnyone(method, path string) func(*http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && r.URL.Path == path }
}

func getAccount(ctx context.Context) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, http.MethodGet, "https://shop.test/account", nil)
}

// The proxy that logs in is killed at a step of it, and a hundred clients ask
// through the others. With a recipe nobody sees the login page.
func TestTheProxyThatLogsInIsKilled(t *testing.T) {
	t.Parallel()
	const clients = 100
	endScript, err := os.ReadFile("../../proxy/login/redislock/end.lua")
	if err != nil {
		t.Fatal(err)
	}
	sum := sha1.Sum(endScript) //nolint:gosec // see above
	for _, tt := range []struct {
		name   string
		at     func(*http.Request) bool
		after  bool
		end    bool // where it would give the turn back
		logins int  // at most; at least one
	}{
		{name: "before it sends the login", at: byRecipe("GET", "/login"), logins: 1},
		{name: "when it has sent it", at: byRecipe("POST", "/login"), after: true, logins: 2},
		{name: "before it has kept the cookies", at: byRecipe("GET", "/account"), logins: 2},
		{name: "before it has given the turn back", end: true, logins: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			site := loginsites.New(loginsites.Options{})
			k := &killing{Site: site, at: tt.at, after: tt.after}
			world := newProcesses(t, k)
			killed := make(chan string, 1)
			k.kill = func(name string) {
				for _, q := range world.proxies {
					if q.name == name {
						q.kill()
						killed <- name
					}
				}
			}
			redis := redistest.Single(t)
			var all []*http.Client
			for range 3 {
				store := redis.Addr
				if tt.end {
					n := len(world.proxies)
					store = seeing(t, redis.Addr, hex.EncodeToString(sum[:]), func() {
						k.once.Do(func() { k.kill(world.proxies[n].name) })
					})
				}
				all = append(all, world.client(world.add("redis://"+store, loginByRecipe)))
			}
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					a, err := world.ask(all, i, getAccount)
					if err != nil || a.status != http.StatusOK || !strings.Contains(a.body, "Hello alice") {
						t.Errorf("client %d: %d to %q %q, %v; want a logged-in page", i, a.status, a.location, a.body, err)
					}
				})
			}
			wg.Wait()
			select {
			case name := <-killed:
				t.Logf("%s was killed; %d logins of %d tries", name, site.Logins(), site.Attempts())
			default:
				t.Error("nobody was killed")
			}
			if site.Attempts() != tt.logins {
				t.Errorf("%d logins reached the site, want %d", site.Attempts(), tt.logins)
			}
		})
	}
}

var formField = regexp.MustCompile(`name="token" value="([^"]*)"`)

// Without a recipe the clients log in, all at once. The one whose proxy is killed
// tries another, as all do.
func TestTheProxyOfAClientThatLogsInIsKilled(t *testing.T) {
	t.Parallel()
	const clients = 100
	for _, after := range []bool{false, true} {
		t.Run(map[bool]string{false: "when the login is sent", true: "when the site has taken it"}[after], func(t *testing.T) {
			t.Parallel()
			site := loginsites.New(loginsites.Options{})
			k := &killing{Site: site, at: byAnyone("POST", "/login"), after: after}
			world := newProcesses(t, k)
			k.kill = func(name string) {
				for _, q := range world.proxies {
					if q.name == name {
						q.kill()
					}
				}
			}
			redis := redistest.Single(t)
			var all []*http.Client
			for range 3 {
				all = append(all, world.client(world.add(redis.URL(), loginByClients)))
			}
			token := func(i int) string {
				form, err := world.ask(all, i, func(ctx context.Context) (*http.Request, error) {
					return http.NewRequestWithContext(ctx, http.MethodGet, "https://shop.test/login", nil)
				})
				if m := formField.FindStringSubmatch(form.body); err == nil && m != nil {
					return m[1]
				}
				t.Errorf("client %d gets no form: %d, %v", i, form.status, err)
				return ""
			}
			submit := func(token string) func(ctx context.Context) (*http.Request, error) {
				fields := url.Values{"user": {loginsites.User}, "password": {loginsites.Password}, "token": {token}}.Encode()
				return func(ctx context.Context) (*http.Request, error) {
					r, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://shop.test/login", strings.NewReader(fields))
					if err == nil {
						r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					}
					return r, err
				}
			}
			first := token(0)
			var wg sync.WaitGroup
			for i := range clients {
				wg.Go(func() {
					a, err := world.ask(all, i, submit(first))
					if after && err == nil && a.status == http.StatusForbidden {
						// The lost login has ended the form's session: a fresh form, then.
						a, err = world.ask(all, i, submit(token(i)))
					}
					if err != nil || a.status != http.StatusSeeOther || a.location != "/account" {
						t.Errorf("client %d: %d to %q, %v; want to be logged in", i, a.status, a.location, err)
						return
					}
					if a, err := world.ask(all, i, getAccount); err != nil || !strings.Contains(a.body, "Hello alice") {
						t.Errorf("client %d: %d to %q, %v; want a logged-in page", i, a.status, a.location, err)
					}
				})
			}
			wg.Wait()
			most := 1
			if after {
				most = 2
			}
			if site.Logins() != most {
				t.Errorf("%d logins reached the site, want %d", site.Logins(), most)
			}
		})
	}
}

// The proxy of one machine is killed at a step of its login, and started again.
func TestTheOnlyProxyIsKilledAsItLogsIn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		at     func(*http.Request) bool
		after  bool
		logins int
	}{
		{"before it sends the login", byRecipe("GET", "/login"), false, 1},
		{"when it has sent it", byRecipe("POST", "/login"), true, 2},
		{"before it has kept the cookies", byRecipe("GET", "/account"), false, 2},
		{"when it has kept them", func(r *http.Request) bool {
			return r.URL.Path == "/account" && r.UserAgent() != "sessionproxy" && strings.Contains(r.Header.Get("Cookie"), "sid=")
		}, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			site := loginsites.New(loginsites.Options{})
			k := &killing{Site: site, at: tt.at, after: tt.after}
			world := newProcesses(t, k)
			again := make(chan *process, 1)
			k.kill = func(string) {
				world.proxies[0].kill()
				again <- world.proxies[0]
			}
			all := []*http.Client{world.client(world.add("embedded", loginByRecipe))}
			var wg sync.WaitGroup
			wg.Go(func() { world.start(<-again) })
			for i := range 30 {
				wg.Go(func() {
					if a, err := world.ask(all, i, getAccount); err != nil || !strings.Contains(a.body, "Hello alice") {
						t.Errorf("client %d: %d to %q, %v; want a logged-in page", i, a.status, a.location, err)
					}
				})
			}
			wg.Wait()
			if site.Attempts() != tt.logins {
				t.Errorf("%d logins reached the site, want %d", site.Attempts(), tt.logins)
			}
		})
	}
}
