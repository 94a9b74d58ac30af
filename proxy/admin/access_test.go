package admin

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/filestore"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

var callFrom = netip.MustParseAddr("192.0.2.1")

const anaPassword = "s3cretOfAna"

// newAuthority knows ana, an operator, and vic, a viewer.
func newAuthority(t *testing.T, log ...*audit.Log) *access.Authority {
	t.Helper()
	store, err := filestore.Open(filepath.Join(t.TempDir(), "access.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	o := access.Options{
		Store: store, Seal: bytes.Repeat([]byte{7}, 32), Passwords: password.NewVerifier(), Log: slog.New(slog.DiscardHandler),
		Operators: []config.Operator{
			{Name: "ana", Password: anaPassword, Role: config.RoleOperator},
			{Name: "vic", Password: "s3cretOfVic", Role: config.RoleViewer},
		},
	}
	o.Token = testToken
	if len(log) > 0 {
		o.Audit = log[0]
	}
	a, err := access.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func events(t *testing.T, a *access.Authority) *Events {
	e := NewEvents(a)
	t.Cleanup(e.Close)
	return e
}

// guarded is an API with an audit log.
type guarded struct {
	*road
	access  *access.Authority
	lines   *syncBuffer
	metrics *prometheus.Registry
	audit   *audit.Log
}

// syncBuffer is a buffer that two goroutines may use.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func newGuarded(t *testing.T) *guarded {
	t.Helper()
	g := &guarded{lines: new(syncBuffer), metrics: prometheus.NewRegistry()}
	var err error
	g.audit, err = audit.Open(audit.Options{To: audit.Stdout, Stdout: g.lines, Log: slog.New(slog.DiscardHandler), Metrics: g.metrics})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = g.audit.Close() })
	g.road = newRoad(t, func(o *Options) {
		g.access = newAuthority(t, g.audit)
		o.Access, o.Audit, o.Events, o.Metrics = g.access, g.audit, events(t, g.access), g.metrics
		g.audit.Tee(o.Events.Tell)
		o.LogIn = func(context.Context, session.Key) ([]login.Step, error) {
			return []login.Step{{Method: "GET", URL: "https://shop.test/login", Status: 200, Took: []string{"csrf"}, Time: time.Second}}, nil
		}
		o.Clients = func() []config.Client {
			return []config.Client{{Name: "crawler", Password: "s3cretOfCrawler", Sites: []string{"shop"}, Access: config.Write}}
		}
	})
	return g
}

// wantLine waits for a line of the audit log that holds each of the parts.
func (g *guarded) wantLine(t *testing.T, parts ...string) string {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
	lines:
		for line := range strings.Lines(g.lines.String()) {
			for _, p := range parts {
				if !strings.Contains(line, p) {
					continue lines
				}
			}
			return line
		}
		if time.Now().After(end) {
			t.Fatalf("no line with %q in the audit log:\n%s", parts, g.lines)
		}
	}
}

func (g *guarded) login(t *testing.T, name, pass string) LoggedIn {
	t.Helper()
	return decode[LoggedIn](t, ask(g, "POST", "/api/v1/login", noToken, body(fmt.Sprintf(`{"name": %q, "password": %q, "device": "test"}`, name, pass))))
}

func bearerOf(token string) func(*http.Request) { return with("Authorization", "Bearer "+token) }

func TestAnOperatorLogsIn(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	in := g.login(t, "ana", anaPassword)
	if in.TokenType != "Bearer" || in.ExpiresIn != 900 || in.Name != "ana" || in.Role != config.RoleOperator || in.Device == "" {
		t.Errorf("%+v", in)
	}
	g.wantLine(t, `"action":"operator_login","outcome":"done"`, `"by":"ana"`, `"target":"ana"`)
	me := decode[Me](t, ask(g, "GET", "/api/v1/me", bearerOf(in.AccessToken)))
	if me != in.Me {
		t.Errorf("%+v, want %+v", me, in.Me)
	}
	ended := ask(g, "POST", "/api/v1/sessions/shop/qa1/revoke", bearerOf(in.AccessToken))
	if ended.Code != 200 {
		t.Fatalf("%d %s", ended.Code, ended.Body)
	}
	g.wantLine(t, `"call":"POST /api/v1/sessions/{site}/{session}/revoke"`, `"by":"ana"`, `"site":"shop","session":"qa1"`, `"outcome":"done"`,
		`"exchange":"`+ended.Header().Get("X-Exchange-Id")+`"`)
	again := decode[LoggedIn](t, ask(g, "POST", "/api/v1/refresh", noToken, body(`{"refresh_token": "`+in.RefreshToken+`"}`)))
	if again.RefreshToken == in.RefreshToken || again.AccessToken == in.AccessToken {
		t.Error("refreshing changes nothing")
	}
	if w := ask(g, "POST", "/api/v1/logout", bearerOf(again.AccessToken)); w.Code != 204 {
		t.Errorf("log out: %d %s", w.Code, w.Body)
	}
	for _, token := range []string{in.AccessToken, again.AccessToken} {
		wantProblem(t, ask(g, "GET", "/api/v1/me", bearerOf(token)), 401, "token")
	}
	wantProblem(t, ask(g, "POST", "/api/v1/refresh", noToken, body(`{"refresh_token": "`+again.RefreshToken+`"}`)), 401, "refresh_token")
	for _, secret := range []string{anaPassword, in.AccessToken, in.RefreshToken, testToken} {
		if strings.Contains(g.lines.String(), secret) || strings.Contains(g.log.String(), secret) {
			t.Error("a secret is in a log")
		}
	}
}

func TestAViewerMayLookOnly(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	vic := bearerOf(g.login(t, "vic", "s3cretOfVic").AccessToken)
	ana := g.login(t, "ana", anaPassword)
	for _, path := range []string{"sessions", "sites", "clients", "workers", "config", "devices", "access", "me", "proxy", "version", "openapi.json"} {
		if w := ask(g, "GET", "/api/v1/"+path, vic); w.Code != 200 {
			t.Errorf("GET %s: %d %s", path, w.Code, w.Body)
		}
	}
	for _, rt := range g.routes {
		if rt.method == "GET" || isOpen(rt.pattern) || strings.HasSuffix(rt.pattern, "/logout") {
			continue
		}
		path := strings.NewReplacer("{site}", "shop", "{session}", "default", "{id}", ana.Device, "{name}", "ana").Replace(rt.pattern)
		wantProblem(t, ask(g, rt.method, path, vic, body(`{}`)), 403, "role")
	}
	g.wantLine(t, `"outcome":"refused","reason":"role"`, `"by":"vic"`)
	if d := decode[Devices](t, ask(g, "GET", "/api/v1/devices", vic)); len(d.Devices) != 1 || d.Devices[0].Operator != "vic" {
		t.Errorf("a viewer sees the devices %+v", d)
	}
	if d := decode[Devices](t, ask(g, "GET", "/api/v1/devices", bearerOf(ana.AccessToken))); len(d.Devices) != 2 {
		t.Errorf("an operator sees the devices %+v", d)
	}
	if w := ask(g, "POST", "/api/v1/logout", vic); w.Code != 204 {
		t.Errorf("a viewer can't log out: %d %s", w.Code, w.Body)
	}
}

// Each attack ends in its refusal, a line of the audit log and a counter.
func TestAttacksOnTheAPI(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	ana := g.login(t, "ana", anaPassword)
	revoked := g.login(t, "ana", anaPassword)
	if w := ask(g, "DELETE", "/api/v1/devices/"+revoked.Device); w.Code != 204 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	issued := ask(g, "POST", "/api/v1/access", body(`{"client": "crawler"}`))
	var grant IssuedGrant
	if err := json.Unmarshal(issued.Body.Bytes(), &grant); err != nil || issued.Code != 201 {
		t.Fatalf("%d %s", issued.Code, issued.Body)
	}
	none := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{"sub": "ana", "aud": "sessionproxy:admin", "jti": "x", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()})
	unsigned, err := none.SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	foreign, err := newAuthority(t).Login(t.Context(), "ana", anaPassword, "", callFrom)
	if err != nil {
		t.Fatal(err)
	}
	const revoke = "/api/v1/sessions/shop/default/revoke"
	browser := ask(g, "POST", "/api/v1/login", noToken, body(`{"name": "ana", "password": "`+anaPassword+`", "browser": true}`)).Result().Cookies()[0]
	cookie := func(r *http.Request) { noToken(r); r.AddCookie(browser) }
	for _, tt := range []struct {
		name         string
		method, path string
		change       []func(*http.Request)
		status       int
		code         string
	}{
		{"a wrong admin token", "GET", "/api/v1/sessions", []func(*http.Request){bearerOf("guess")}, 401, "token"},
		{"alg none", "GET", "/api/v1/sessions", []func(*http.Request){bearerOf(unsigned)}, 401, "token"},
		{"a foreign key", "GET", "/api/v1/sessions", []func(*http.Request){bearerOf(foreign.Access)}, 401, "token"},
		{"a proxy's token", "GET", "/api/v1/sessions", []func(*http.Request){bearerOf(grant.Token)}, 401, "token"},
		{"a revoked token", "GET", "/api/v1/sessions", []func(*http.Request){bearerOf(revoked.AccessToken)}, 401, "token"},
		{"a refresh token as an access token", "GET", "/api/v1/sessions", []func(*http.Request){bearerOf(ana.RefreshToken)}, 401, "token"},
		{"a POST from a page in the proxied browser", "POST", revoke, []func(*http.Request){cookie, with("Origin", "https://shop.test"), with("Sec-Fetch-Site", "cross-site")}, 403, "foreign_origin"},
		{"a POST from a page whose browser tells nothing", "POST", revoke, []func(*http.Request){cookie}, 403, "foreign_origin"},
		{"a GET of a page that rebound its name", "GET", "/api/v1/sessions", []func(*http.Request){cookie, host("evil.test:8081")}, 421, "unknown_host"},
		{"a cookie that nobody gave", "GET", "/api/v1/sessions", []func(*http.Request){noToken, with("Cookie", cookieName+"="+strings.Repeat("A", 43))}, 401, "token"},
		{"two cookies", "GET", "/api/v1/sessions", []func(*http.Request){noToken, with("Cookie", cookieName+"="+browser.Value+"; "+cookieName+"=x")}, 401, "token"},
		{"a wrong password", "POST", "/api/v1/login", []func(*http.Request){noToken, body(`{"name": "ana", "password": "guess"}`)}, 401, "login"},
		{"a name that nobody has", "POST", "/api/v1/login", []func(*http.Request){noToken, body(`{"name": "s3cret", "password": "guess"}`)}, 401, "login"},
		{"a login by a foreign page", "POST", "/api/v1/login", []func(*http.Request){noToken, with("Origin", "https://evil.test"), body(`{}`)}, 403, "foreign_origin"},
		{"a refresh token that nobody gave", "POST", "/api/v1/refresh", []func(*http.Request){noToken, body(`{"refresh_token": "a.1.b"}`)}, 401, "refresh_token"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before, calls := g.refusals(t, tt.code), g.calls(t, tt.code)
			w := ask(g, tt.method, tt.path, tt.change...)
			wantProblem(t, w, tt.status, tt.code)
			line := g.wantLine(t, `"outcome":"refused","reason":"`+tt.code+`"`, `"exchange":"`+w.Header().Get("X-Exchange-Id")+`"`)
			if strings.Contains(line, "guess") || strings.Contains(line, "s3cret") {
				t.Errorf("what was tried is in the line: %s", line)
			}
			if got := g.refusals(t, tt.code); got != before+1 {
				t.Errorf("%v lines are counted, want %v", got, before+1)
			}
			if got := g.calls(t, tt.code); got != calls+1 {
				t.Errorf("%v calls are counted, want %v", got, calls+1)
			}
		})
	}
	if w := ask(g, "POST", revoke, cookie, with("Origin", "http://localhost:8081"), with("Sec-Fetch-Site", "same-origin")); w.Code != 200 {
		t.Errorf("our own page can do nothing: %d %s", w.Code, w.Body)
	}
	if w := ask(g, "GET", "/api/v1/sessions", noToken); w.Code != 401 || strings.Contains(g.lines.String(), w.Header().Get("X-Exchange-Id")) {
		t.Errorf("who has no proof at all is worth a line: %d", w.Code)
	}
}

// refusals counts the lines of the audit log, and calls the calls, that have
// the code.
func (g *guarded) refusals(t *testing.T, code string) float64 {
	return g.count(t, "sessionproxy_audit_events_total", "reason", code)
}

func (g *guarded) calls(t *testing.T, code string) float64 {
	return g.count(t, "sessionproxy_admin_refusals_total", "code", code)
}

func (g *guarded) count(t *testing.T, name, label, value string) (sum float64) {
	t.Helper()
	families, err := g.metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if f.GetName() == name && l.GetName() == label && l.GetValue() == value {
					sum += m.GetCounter().GetValue()
				}
			}
		}
	}
	return sum
}

func TestABrowserLogsIn(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	w := ask(g, "POST", "/api/v1/login", noToken, body(`{"name": "vic", "password": "s3cretOfVic", "browser": true}`), with("User-Agent", "Firefox\x1b[31m"))
	in := decode[LoggedIn](t, w)
	if in.AccessToken != "" || in.RefreshToken != "" || in.Name != "vic" {
		t.Errorf("a browser is given tokens: %s", w.Body)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/" || c.Domain != "" || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("%s", w.Header().Get("Set-Cookie"))
	}
	cookie := func(r *http.Request) { noToken(r); r.AddCookie(c) }
	if d := decode[Devices](t, ask(g, "GET", "/api/v1/devices", cookie)); len(d.Devices) != 1 || !d.Devices[0].Browser || d.Devices[0].Name != "Firefox[31m" {
		t.Errorf("%+v", d)
	}
	out := ask(g, "POST", "/api/v1/logout", cookie, with("Origin", "http://localhost:8081"))
	if gone := out.Result().Cookies(); out.Code != 204 || len(gone) != 1 || gone[0].MaxAge >= 0 {
		t.Errorf("log out: %d %v", out.Code, gone)
	}
	wantProblem(t, ask(g, "GET", "/api/v1/me", cookie), 401, "token")
}

// Whoever has the admin token is an operator in a browser, too, until the
// cookie ends; programs need no login for it.
func TestABrowserLogsInWithTheAdminToken(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	wantProblem(t, ask(g, "POST", "/api/v1/login", noToken, body(`{"name": "token", "password": "guess", "browser": true}`)), 401, "login")
	wantProblem(t, ask(g, "POST", "/api/v1/login", noToken, body(`{"name": "token", "password": "`+testToken+`"}`)), 409, "admin_token")
	w := ask(g, "POST", "/api/v1/login", noToken, body(`{"name": "token", "password": "`+testToken+`", "browser": true}`))
	if in := decode[LoggedIn](t, w); in.Name != "token" || in.Role != config.RoleOperator || in.Device == "" {
		t.Errorf("%s", w.Body)
	}
	cookie := func(r *http.Request) { noToken(r); r.AddCookie(w.Result().Cookies()[0]) }
	if err := g.access.SetOperators(nil); err != nil { // a reload
		t.Fatal(err)
	}
	if me := decode[Me](t, ask(g, "GET", "/api/v1/me", cookie)); me.Name != "token" {
		t.Errorf("%+v", me)
	}
	if out := ask(g, "POST", "/api/v1/logout", cookie, with("Origin", "http://localhost:8081")); out.Code != 204 {
		t.Errorf("log out: %d", out.Code)
	}
	wantProblem(t, ask(g, "GET", "/api/v1/me", cookie), 401, "token")
	g.clean(t, w)
}

func TestGuessingAnOperatorsPasswordIsSlow(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	codes := make(chan int)
	for i := range 60 {
		go func() {
			codes <- ask(g, "POST", "/api/v1/login", noToken, body(fmt.Sprintf(`{"name": "ana", "password": "guess%d"}`, i))).Code
		}()
	}
	seen := map[int]int{}
	for range 60 {
		seen[<-codes]++
	}
	if seen[429] < 20 || seen[401]+seen[429] != 60 {
		t.Errorf("60 guesses at once are answered %v", seen)
	}
	g.wantLine(t, `"action":"operator_login","outcome":"refused"`, `"from":"192.0.2.1"`, `"target":"ana"`)
	if got := g.calls(t, "login") + g.calls(t, "too_many_failures"); got != 60 {
		t.Errorf("%v guesses are counted, want 60", got)
	}
}

func TestGrantsOfTheAPI(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for _, tt := range []struct{ name, body, code string }{
		{"a client that is not", `{"client": "stranger"}`, "unknown_client"},
		{"a site that is not", `{"client": "crawler", "sites": ["nope"]}`, "unknown_site"},
		{"a site that the client may not use", `{"client": "crawler", "sites": ["the/bank"]}`, "site_not_allowed"},
		{"a life of nothing", `{"client": "crawler", "ttl": "0s"}`, "ttl"},
		{"a life without end", `{"client": "crawler", "ttl": "8760h"}`, "ttl"},
		{"a life that is none", `{"client": "crawler", "ttl": "soon"}`, "ttl"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantProblem(t, ask(g, "POST", "/api/v1/access", body(tt.body)), 422, tt.code)
		})
	}
	w := ask(g, "POST", "/api/v1/access", body(`{"client": "crawler", "sites": ["shop"], "ttl": "1h"}`))
	var grant IssuedGrant
	if err := json.Unmarshal(w.Body.Bytes(), &grant); err != nil || w.Code != 201 || grant.By != "token" {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	g.wantLine(t, `"call":"POST /api/v1/access"`, `"target":"crawler/`+grant.ID+`"`)
	list := ask(g, "GET", "/api/v1/access")
	if all := decode[Grants](t, list); len(all.Grants) != 1 || all.Grants[0].ID != grant.ID || strings.Contains(list.Body.String(), grant.Token) {
		t.Errorf("%s", list.Body)
	}
	if _, err := g.access.Client(t.Context(), grant.Token); err != nil {
		t.Error(err)
	}
	if w := ask(g, "DELETE", "/api/v1/access/"+grant.ID); w.Code != 204 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if _, err := g.access.Client(t.Context(), grant.Token); err == nil {
		t.Error("a revoked token is good")
	}
	wantProblem(t, ask(g, "DELETE", "/api/v1/access/"+grant.ID), 404, "unknown_token")
	if strings.Contains(g.lines.String(), grant.Token) {
		t.Error("the token is in the audit log")
	}
}

func TestAllOfAnOperatorsDevicesAreRevoked(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	one, two, vic := g.login(t, "ana", anaPassword), g.login(t, "ana", anaPassword), g.login(t, "vic", "s3cretOfVic")
	if got := decode[DevicesRevoked](t, ask(g, "DELETE", "/api/v1/operators/ana/devices")); got.Devices != 2 {
		t.Errorf("%+v", got)
	}
	for token, want := range map[string]int{one.AccessToken: 401, two.AccessToken: 401, vic.AccessToken: 200} {
		if w := ask(g, "GET", "/api/v1/me", bearerOf(token)); w.Code != want {
			t.Errorf("%d, want %d", w.Code, want)
		}
	}
	wantProblem(t, ask(g, "DELETE", "/api/v1/operators/eva/devices"), 404, "unknown_operator")
	wantProblem(t, ask(g, "DELETE", "/api/v1/devices/nonsense"), 404, "unknown_device")
	wantProblem(t, ask(g, "POST", "/api/v1/logout"), 409, "admin_token")
}

// Events are the audit lines of all proxies, as they come.
func TestEvents(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	lines := g.listen(t, testToken)
	ask(g, "POST", "/api/v1/sessions/shop/qa7/revoke")
	for lines.Scan() {
		if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			var e audit.Event
			if err := json.Unmarshal([]byte(data), &e); err != nil || e.Session != "qa7" || e.By != "token" {
				t.Errorf("%q, %v", data, err)
			}
			return
		}
	}
	t.Errorf("no event came: %v", lines.Err())
}

// listen begins to read the events.
func (g *guarded) listen(t *testing.T, token string) *bufio.Scanner {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Host = "localhost:8081"
		g.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/api/v1/events", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	resp, err := server.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	if got := resp.Header.Get("Content-Type"); got != "text/event-stream" || resp.StatusCode != 200 {
		t.Fatalf("%d %s", resp.StatusCode, got)
	}
	lines := bufio.NewScanner(resp.Body)
	lines.Scan() // it has begun
	return lines
}

// Who is logged out hears no more, long before the next beat.
func TestEventsEndWithTheirListenersLogin(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	vic := g.login(t, "vic", "s3cretOfVic")
	lines := g.listen(t, vic.AccessToken)
	if w := ask(g, "DELETE", "/api/v1/devices/"+vic.Device); w.Code != 204 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	over := make(chan struct{})
	var busy sync.WaitGroup
	busy.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(50 * time.Millisecond):
				ask(g, "POST", "/api/v1/sessions/shop/qa7/revoke")
			}
		}
	})
	for lines.Scan() {
	}
	close(over)
	busy.Wait()
	if err := lines.Err(); err != nil { // the test's own limit
		t.Errorf("the stream goes on: %v", err)
	}
}

func TestStrangersCannotFillTheAuditLog(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for range 500 {
		ask(g, "POST", "/api/v1/login", with("Origin", "https://evil.test"))
	}
	if err := g.audit.Close(); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(g.lines.String(), "\n"); n > 5*strangersPerSecond {
		t.Errorf("500 requests of a foreign page are %d lines", n)
	}
}
