package shop

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var options = Options{
	Host: "shop.test", User: "alice", Password: "wonder land",
	Captcha: &Captcha{SiteKey: "6Lshop", Solved: func(token string) bool { return token == "human" }},
}

func start(t *testing.T) *Server {
	t.Helper()
	s, err := Start(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// visitor is a browser without scripts: it keeps cookies and shows redirects.
type visitor struct {
	t *testing.T
	c http.Client
}

func newVisitor(t *testing.T, s *Server) *visitor {
	t.Helper()
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(s.CAPEM()) {
		t.Fatal("CAPEM holds no certificate")
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	tr := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Addr())
		},
		TLSClientConfig:   &tls.Config{RootCAs: roots},
		ForceAttemptHTTP2: true,
	}
	t.Cleanup(tr.CloseIdleConnections)
	return &visitor{t: t, c: http.Client{
		Transport:     tr,
		Jar:           jar,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// reply is a response and its whole body.
type reply struct {
	*http.Response
	body string
}

func (v *visitor) do(req *http.Request) reply {
	v.t.Helper()
	resp, err := v.c.Do(req)
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Fatal(err)
	}
	return reply{resp, string(body)}
}

func (v *visitor) request(method, path, body string) *http.Request {
	v.t.Helper()
	req, err := http.NewRequestWithContext(v.t.Context(), method, "https://shop.test"+path, strings.NewReader(body))
	if err != nil {
		v.t.Fatal(err)
	}
	return req
}

func (v *visitor) get(path string) reply {
	v.t.Helper()
	return v.do(v.request(http.MethodGet, path, ""))
}

func (v *visitor) post(path string, form url.Values) reply {
	v.t.Helper()
	req := v.request(http.MethodPost, path, form.Encode())
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return v.do(req)
}

var tokenField = regexp.MustCompile(`name="csrf_token" value="([^"]+)"`)

// token reads the CSRF token from the sign-in form.
func (v *visitor) token() string {
	v.t.Helper()
	found := tokenField.FindStringSubmatch(v.get("/login").body)
	if found == nil {
		v.t.Fatal("the sign-in form holds no csrf_token")
	}
	return found[1]
}

// login signs in by the form, with the right token.
func (v *visitor) login(user, password, next string) reply {
	v.t.Helper()
	return v.post("/login", url.Values{"user": {user}, "password": {password}, "csrf_token": {v.token()}, "next": {next}})
}

// wantSignedIn checks by the API who the visitor is; "" is nobody.
func (v *visitor) wantSignedIn(user string) {
	v.t.Helper()
	status, body := http.StatusOK, `{"user":"`+user+`"}`
	if user == "" {
		status, body = http.StatusUnauthorized, `{"error":"not signed in"}`
	}
	got := v.get("/api/me")
	if got.StatusCode != status || strings.TrimSpace(got.body) != body {
		v.t.Errorf("/api/me: %d %s, want %d %s", got.StatusCode, got.body, status, body)
	}
}

func wantRedirect(t *testing.T, got reply, to string) {
	t.Helper()
	if got.StatusCode != http.StatusSeeOther || got.Header.Get("Location") != to {
		t.Errorf("%s %s: %d to %q, want 303 to %q", got.Request.Method, got.Request.URL.Path, got.StatusCode, got.Header.Get("Location"), to)
	}
}

func TestPages(t *testing.T) {
	t.Parallel()
	s := start(t)
	stranger, alice := newVisitor(t, s), newVisitor(t, s)
	alice.login("alice", "wonder land", "")
	for _, tt := range []struct {
		name   string
		as     *visitor
		path   string
		status int
		says   string
	}{
		{"anybody sees the shop window", stranger, "/", 200, "Sourdough"},
		{"anybody sees the sign-in form", stranger, "/login", 200, "Please sign in"},
		{"a customer sees the sign-in form too", alice, "/login", 200, "Please sign in"},
		{"a customer is greeted", alice, "/account", 200, "Hello alice"},
		{"a customer can sign out", alice, "/account", 200, "Sign out alice"},
		{"the order page asks by script, whoever comes", stranger, "/orders", 200, `src="/static/orders.js"`},
		{"the script is there", stranger, "/static/orders.js", 200, "/api/me"},
		{"anybody sees the contact form", stranger, "/contact", 200, "Write to us"},
		{"its widget says whose it is", stranger, "/contact", 200, `<div class="g-recaptcha" data-sitekey="6Lshop">`},
		{"and has the field that its script would make", stranger, "/contact", 200, `<textarea name="g-recaptcha-response" hidden></textarea>`},
		{"anybody is thanked", stranger, "/thanks", 200, "Your message was accepted"},
		{"files are not listed", stranger, "/static/", 404, ""},
		{"an unknown page is not found", stranger, "/nothing", 404, ""},
		{"signing out takes a form", alice, "/logout", 405, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := tt.as.get(tt.path)
			if got.StatusCode != tt.status || !strings.Contains(got.body, tt.says) {
				t.Errorf("GET %s: %d without %q, want %d with it:\n%s", tt.path, got.StatusCode, tt.says, tt.status, got.body)
			}
			for name, want := range map[string]string{
				"Content-Security-Policy": policy,
				"X-Content-Type-Options":  "nosniff",
				"Referrer-Policy":         "same-origin",
				"Cache-Control":           "no-store",
			} {
				if v := got.Header.Get(name); v != want && tt.status == http.StatusOK {
					t.Errorf("GET %s: %s %q, want %q", tt.path, name, v, want)
				}
			}
		})
	}
	wantRedirect(t, stranger.get("/account"), "/login?next=/account")
}

var (
	link   = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	inline = regexp.MustCompile(`<style|\sstyle=|\son[a-z]+=|<script>|https?://`)
)

// TestPagesKeepTheirPolicy: a browser would block what the policy forbids, and
// no other test would notice.
func TestPagesKeepTheirPolicy(t *testing.T) {
	t.Parallel()
	s := start(t)
	alice := newVisitor(t, s)
	alice.login("alice", "wonder land", "")
	for _, path := range []string{"/", "/login", "/account", "/orders", "/contact", "/thanks"} {
		body := alice.get(path).body
		if found := inline.FindString(body); found != "" {
			t.Errorf("%s has %q, which its Content-Security-Policy forbids", path, found)
		}
		for _, found := range link.FindAllStringSubmatch(body, -1) {
			if got := alice.get(found[1]); got.StatusCode != http.StatusOK {
				t.Errorf("%s links %s: %s", path, found[1], got.Status)
			}
		}
	}
}

// setCookies returns what r sets, with values made by chance replaced by "…".
func setCookies(r reply) []string {
	var lines []string
	for _, line := range r.Header.Values("Set-Cookie") {
		lines = append(lines, regexp.MustCompile(`=[A-Z2-7]{26};`).ReplaceAllString(line, "=…;"))
	}
	return lines
}

func TestCookiesAreAsDocumented(t *testing.T) {
	t.Parallel()
	v := newVisitor(t, start(t))
	want := func(got reply, lines ...string) {
		t.Helper()
		if set := setCookies(got); !slices.Equal(set, lines) {
			t.Errorf("%s %s sets %q, want %q", got.Request.Method, got.Request.URL.Path, set, lines)
		}
	}
	want(v.get("/login"), "csrftoken=…; Path=/; HttpOnly; Secure; SameSite=Lax")
	want(v.get("/login")) // the client has it
	want(v.login("alice", "wrong", ""))
	want(v.login("alice", "wonder land", ""), "sid=…; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax")
	want(v.get("/account"))
	want(v.post("/logout", url.Values{"csrf_token": {v.token()}}), "sid=; Path=/; Max-Age=0; HttpOnly; Secure; SameSite=Lax")
}
