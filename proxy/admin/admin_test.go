package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/group"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

const testToken = "s3cretTokenOfFortyThreeCharactersInBase64url"

// listing is a store that can only list.
type listing struct {
	session.Store
	infos []session.Info
	err   error
}

func (l listing) List(context.Context, string) ([]session.Info, error) { return l.infos, l.err }

func testOptions(t *testing.T) Options {
	authority := newAuthority(t)
	return Options{
		Token:   testToken,
		Addr:    "127.0.0.5:8081",
		Hosts:   func() []string { return []string{"Proxy.example.com"} },
		Store:   listing{},
		Sites:   func() []config.Site { return []config.Site{site(t, "shop", "shop.test", "shop.test", "*.shop.test")} },
		Clients: func() []config.Client { return nil },
		Access:  authority,
		Events:  events(t, authority),
		Metrics: prometheus.NewRegistry(),
		Trace:   trace.New(listing{}),
		Workers: func() []Worker { return nil },
		Group:   alone(t),
		Reload:  func(context.Context) {},
		Config:  func() Config { return Config{Loaded: time.Now()} },
		EachUse: func(func(session.Key, time.Time, string, string)) {},
		CA:      []byte("-----BEGIN CERTIFICATE-----\n"),
		Proxy:   func() Listener { return Listener{Addr: "127.0.0.1:8080"} },
		Version: "v1.2.3",
		Log:     slog.New(slog.DiscardHandler),

		LoginStatus: func(context.Context, session.Key) login.Status { return login.Status{} },
		Upstreams:   upstream.NewPools(upstream.Options{}), // of no configuration
	}
}

// alone is the group of one proxy.
func alone(t *testing.T) *group.Group {
	g := group.Join(group.Options{Host: "here", Admin: "127.0.0.5:8081", Version: "v1.2.3", Log: slog.New(slog.DiscardHandler),
		Count: func() group.Counts { return group.Counts{} }})
	t.Cleanup(g.Leave)
	return g
}

func site(t *testing.T, name, key string, hosts ...string) config.Site {
	t.Helper()
	s := config.Site{Name: name, Key: key, Hosts: hosts}
	for _, h := range hosts {
		p, err := config.ParsePattern(h)
		if err != nil {
			t.Fatal(err)
		}
		s.Patterns = append(s.Patterns, p)
	}
	return s
}

// ask is a request with the token that passes every check; change spoils it.
func ask(h http.Handler, method, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "localhost:8081"
	r.Header.Set("Authorization", "Bearer "+testToken)
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func with(name string, values ...string) func(*http.Request) {
	return func(r *http.Request) { r.Header[name] = values }
}

func host(h string) func(*http.Request) { return func(r *http.Request) { r.Host = h } }

var noToken = with("Authorization")

// wantProblem checks the form of an error, and its code.
func wantProblem(t *testing.T, w *httptest.ResponseRecorder, status int, code string) {
	t.Helper()
	if w.Code != status {
		t.Errorf("status %d, want %d", w.Code, status)
	}
	if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	var p struct {
		Title, Detail, Code string
		Status              int
	}
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		t.Fatalf("body %q: %v", w.Body, err)
	}
	if p.Status != status || p.Code != code || p.Title != http.StatusText(status) || !strings.HasSuffix(p.Detail, ".") {
		t.Errorf("problem %+v, want status %d, code %q, the status phrase and a sentence", p, status, code)
	}
}

// Whatever is wrong with a request, the answer is to its first fault.
func TestFirstFaultDecides(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t))
	faults := []struct {
		name   string
		status int
		code   string
		change func(*http.Request)
	}{
		{"host", 421, "unknown_host", host("evil.test:8081")},
		{"origin", 403, "foreign_origin", with("Origin", "http://evil.test")},
		{"token", 401, "token", noToken},
		{"path", 404, "not_found", func(r *http.Request) { r.URL.Path = "/api/v1/nothing" }},
		{"method", 405, "method_not_allowed", func(r *http.Request) { r.Method = "DELETE" }},
	}
	for set := 1; set < 1<<len(faults); set++ {
		var changes []func(*http.Request)
		var name string
		first := -1
		for i, f := range faults {
			if set>>i&1 == 1 {
				changes, name = append(changes, f.change), name+" "+f.name
				if first < 0 {
					first = i
				}
			}
		}
		t.Run("wrong"+name, func(t *testing.T) {
			t.Parallel()
			w := ask(api, "GET", "/api/v1/version", changes...)
			wantProblem(t, w, faults[first].status, faults[first].code)
			if got, want := w.Header().Get("WWW-Authenticate"), map[bool]string{true: "Bearer"}[w.Code == 401]; got != want {
				t.Errorf("WWW-Authenticate %q, want %q", got, want)
			}
			if got, want := w.Header().Get("Allow"), map[bool]string{true: "GET, HEAD"}[w.Code == 405]; got != want {
				t.Errorf("Allow %q, want %q", got, want)
			}
		})
	}
}

func TestRoutes(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t))
	for _, tt := range []struct {
		name, method, path string
		change             func(*http.Request)
		want               int
	}{
		{"the token opens the API", "GET", "/api/v1/version", nil, 200},
		{"HEAD is as good as GET", "HEAD", "/api/v1/version", nil, 200},
		{"the API is closed without it", "GET", "/api/v1/version", noToken, 401},
		{"the CA is open", "GET", "/ca.pem", noToken, 200},
		{"the PAC file is open", "GET", "/proxy.pac", noToken, 200},
		{"HEAD of an open file too", "HEAD", "/proxy.pac", noToken, 200},
		{"an open file with a wrong token", "GET", "/ca.pem", with("Authorization", "Bearer x"), 200},
		{"an open file under another name of ours", "GET", "/ca.pem", host("evil.test:8081"), 421},
		{"an open file as a script in a foreign page", "GET", "/proxy.pac", with("Sec-Fetch-Site", "cross-site"), 403},
		{"an open file is only read", "POST", "/ca.pem", noToken, 405},
		{"an open file's other spelling", "GET", "/ca%2epem", noToken, 200},
		{"a path like an open file's", "GET", "/ca.pem/", noToken, 401},
		{"a path that cleans to an open file's", "GET", "/x/../ca.pem", noToken, 401},
		{"a path of two slashes", "GET", "//ca.pem", noToken, 401},
		{"the dashboard takes no other method", "POST", "/", noToken, 405},
		{"the dashboard has no other files", "GET", "/dashboard/none.js", noToken, 404},
		{"nor any above its own", "GET", "/dashboard/%2e%2e/dashboard.go", noToken, 404},
		{"the API's root", "GET", "/api/v1/", nil, 404},
		{"a path of the ops port", "GET", "/metrics", nil, 404},
		{"a path in other case", "GET", "/API/v1/version", nil, 404},
		{"a session is ended with the token only", "POST", "/api/v1/sessions/shop/default/revoke", noToken, 401},
		{"and by no foreign page", "POST", "/api/v1/sessions/shop/default/revoke", with("Origin", "https://evil.test"), 403},
		{"nor by reading", "GET", "/api/v1/sessions/shop/default/revoke", nil, 405},
		{"a cookie is set by PUT", "POST", "/api/v1/sessions/shop/default/cookies", nil, 405},
		{"a preflight from our own page", "OPTIONS", "/api/v1/sessions", nil, 405},
		{"TRACE", "TRACE", "/api/v1/version", nil, 405},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			change := tt.change
			if change == nil {
				change = func(*http.Request) {}
			}
			w := ask(api, tt.method, tt.path, change)
			if w.Code != tt.want {
				t.Errorf("%s %s: %d %s, want %d", tt.method, tt.path, w.Code, w.Body, tt.want)
			}
			wantHardened(t, w.Header())
		})
	}
}

func wantHardened(t *testing.T, h http.Header) {
	t.Helper()
	for name, want := range map[string]string{
		"Cache-Control":                "no-store",
		"Content-Security-Policy":      "default-src 'none'; frame-ancestors 'none'",
		"Cross-Origin-Resource-Policy": "same-origin",
		"X-Content-Type-Options":       "nosniff",
		"X-Frame-Options":              "DENY",
	} {
		if got := h.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for name := range h {
		if strings.HasPrefix(name, "Access-Control-") {
			t.Errorf("the answer has %s", name)
		}
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	w := ask(New(testOptions(t)), "GET", "/api/v1/version")
	if got, want := w.Body.String(), `{"version":"v1.2.3"}`+"\n"; got != want {
		t.Errorf("body %q, want %q", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}

// A table's later routes share a path, and find the parts of it.
func TestMuxOfManyMethods(t *testing.T) {
	t.Parallel()
	say := func(word string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, word, " ", r.PathValue("id")) }
	}
	mux := newMux([]route{
		{"GET", "/sessions/{id}", say("show")},
		{"DELETE", "/sessions/{id}", say("clear")},
		{"POST", "/login", say("login")},
	})
	for _, tt := range []struct{ method, path, want, allow string }{
		{"GET", "/sessions/a", "show a", ""},
		{"DELETE", "/sessions/a", "clear a", ""},
		{"PUT", "/sessions/a", "", "DELETE, GET, HEAD"},
		{"HEAD", "/login", "", "POST"},
	} {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil))
		if tt.allow != "" {
			wantProblem(t, w, 405, "method_not_allowed")
		} else if got := w.Body.String(); got != tt.want {
			t.Errorf("%s %s: %q, want %q", tt.method, tt.path, got, tt.want)
		}
		if got := w.Header().Get("Allow"); got != tt.allow {
			t.Errorf("%s %s: Allow %q, want %q", tt.method, tt.path, got, tt.allow)
		}
	}
}
