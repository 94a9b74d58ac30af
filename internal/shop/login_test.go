package shop

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, next, leadsTo string }{
		{"login leads to the account", "", "/account"},
		{"login leads to the page that asked for it", "/orders", "/orders"},
		{"login leads to no other site", "https://evil.test/orders", "/account"},
		{"login leads to no other site by a bare authority", "//evil.test/orders", "/account"},
		{"login leads to no other site by a backslash", `/\evil.test/orders`, "/account"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			v := newVisitor(t, s)
			v.wantSignedIn("")
			wantRedirect(t, v.login("alice", "wonder land", tt.next), tt.leadsTo)
			v.wantSignedIn("alice")
			newVisitor(t, s).wantSignedIn("")
			if n := s.Logins(); n != 1 {
				t.Errorf("Logins() = %d, want 1", n)
			}
		})
	}
}

func TestWrongCredentials(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct{ name, user, password string }{
		{"wrong password", "alice", "wonder"},
		{"wrong user", "bob", "wonder land"},
		{"password and user exchanged", "wonder land", "alice"},
		{"nothing typed", "", ""},
		{"user name in other letters", "Alice", "wonder land"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			v := newVisitor(t, s)
			got := v.login(tt.user, tt.password, "/orders")
			if got.StatusCode != http.StatusOK || !strings.Contains(got.body, "Wrong user name or password.") {
				t.Errorf("%d, want 200 and the reason:\n%s", got.StatusCode, got.body)
			}
			if !strings.Contains(got.body, `name="next" value="/orders"`) {
				t.Errorf("the form forgot where to go on:\n%s", got.body)
			}
			if tt.password != "" && strings.Contains(got.body, `value="`+tt.password+`"`) {
				t.Errorf("the page repeats the password:\n%s", got.body)
			}
			v.wantSignedIn("")
		})
	}
	if n := s.Logins(); n != 0 {
		t.Errorf("Logins() = %d, want 0", n)
	}
}

func TestTypedTextIsEscaped(t *testing.T) {
	t.Parallel()
	const script = `"><script>alert(1)</script>`
	got := newVisitor(t, start(t)).login(script, "x", script)
	if strings.Contains(got.body, "<script>") || !strings.Contains(got.body, "&lt;script&gt;") {
		t.Errorf("the form repeats a script:\n%s", got.body)
	}
}

func TestForms(t *testing.T) {
	t.Parallel()
	const good = "user=alice&password=wonder+land"
	for _, tt := range []struct {
		name, cookie, query, form string
		status                    int
	}{
		{"token equals cookie", "csrftoken=T", "", good + "&csrf_token=T", 303},
		{"token is missing", "csrftoken=T", "", good, 403},
		{"token is another's", "csrftoken=T", "", good + "&csrf_token=U", 403},
		{"token is a part of the cookie", "csrftoken=TT", "", good + "&csrf_token=T", 403},
		{"cookie is missing", "", "", good + "&csrf_token=T", 403},
		{"cookie and token are missing", "", "", good, 403},
		{"cookie and token are empty", "csrftoken=", "", good + "&csrf_token=", 403},
		{"token is in the query only", "csrftoken=T", "?csrf_token=T", good, 403},
		{"form is malformed", "csrftoken=T", "", good + "&csrf_token=T&%zz", 400},
		{"form is huge", "csrftoken=T", "", good + "&csrf_token=T&x=" + strings.Repeat("x", maxForm), 413},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/login", "/logout"} {
				s := New(options)
				id := s.sessions.start("alice")
				r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path+tt.query, strings.NewReader(tt.form))
				r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
				r.Header.Set("Cookie", "sid="+id+"; "+tt.cookie)
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				if w.Code != tt.status {
					t.Errorf("POST %s: %d, want %d", path, w.Code, tt.status)
				}
				accepted := tt.status == http.StatusSeeOther
				if got, want := s.Logins() == 1, accepted && path == "/login"; got != want {
					t.Errorf("POST %s logged in: %t, want %t", path, got, want)
				}
				if got, want := s.sessions.user(id) == "", accepted && path == "/logout"; got != want {
					t.Errorf("POST %s ended the session: %t, want %t", path, got, want)
				}
			}
		})
	}
}

// TestLogout: who kept the cookie's value is signed out too.
func TestLogout(t *testing.T) {
	t.Parallel()
	s := start(t)
	here, elsewhere := newVisitor(t, s), newVisitor(t, s)
	here.login("alice", "wonder land", "")
	elsewhere.login("alice", "wonder land", "")
	var sid string
	for _, c := range here.c.Jar.Cookies(here.request("GET", "/", "").URL) {
		if c.Name == "sid" {
			sid = c.Value
		}
	}

	wantRedirect(t, here.post("/logout", url.Values{"csrf_token": {here.token()}}), "/")
	here.wantSignedIn("")
	elsewhere.wantSignedIn("alice")

	thief := newVisitor(t, s)
	req := thief.request(http.MethodGet, "/account", "")
	req.AddCookie(&http.Cookie{Name: "sid", Value: sid})
	wantRedirect(t, thief.do(req), "/login?next=/account")
}

func TestLoginsExpire(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := New(options)
		id := s.sessions.start("alice")
		time.Sleep(sessionLife - time.Nanosecond)
		if got := s.sessions.user(id); got != "alice" {
			t.Errorf("just before its end the session is of %q, want alice", got)
		}
		time.Sleep(time.Nanosecond)
		if got := s.sessions.user(id); got != "" {
			t.Errorf("at its end the session is of %q, want nobody", got)
		}
		s.sessions.start("alice")
		if n := len(s.sessions.live); n != 1 {
			t.Errorf("%d sessions are kept, want 1: the old one is over", n)
		}
	})
}

func TestManyCustomersAtOnce(t *testing.T) {
	t.Parallel()
	const visitors, rounds = 8, 5
	s := start(t)
	var wg sync.WaitGroup
	for range visitors {
		v := newVisitor(t, s)
		wg.Go(func() {
			for range rounds {
				token := v.token()
				form := url.Values{"user": {"alice"}, "password": {"wonder land"}, "csrf_token": {token}}
				for _, step := range []struct {
					path, want string
				}{{"/login", "/account"}, {"/logout", "/"}} {
					req := v.request(http.MethodPost, step.path, form.Encode())
					req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
					resp, err := v.c.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					resp.Body.Close()
					if got := resp.Header.Get("Location"); got != step.want {
						t.Errorf("POST %s: %s to %q, want %q", step.path, resp.Status, got, step.want)
					}
				}
			}
		})
	}
	wg.Wait()
	if n := s.Logins(); n != visitors*rounds {
		t.Errorf("Logins() = %d, want %d", n, visitors*rounds)
	}
}
