package login

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// RFC 6238, appendix B, its last six digits.
func TestTOTP(t *testing.T) {
	t.Parallel()
	for at, want := range map[int64]string{59: "287082", 1111111109: "081804", 1111111111: "050471", 1234567890: "005924", 2000000000: "279037", 20000000000: "353130"} {
		if got := totp([]byte("12345678901234567890"), time.Unix(at, 0)); got != want {
			t.Errorf("at %d: %s, want %s", at, got, want)
		}
	}
	secret, err := config.DecodeTOTP("gezd gnbv-GY3TQOJQgezdgnbvgy3tqojq====")
	if err != nil || string(secret) != "12345678901234567890" {
		t.Errorf("secret %q, %v", secret, err)
	}
}

func TestTakes(t *testing.T) {
	t.Parallel()
	const page = `<meta name="csrf" content="m1"><form id="f" action="do?x=1&amp;y=2"><input name="a" value="v1"><input name="b"></form><a class="next" href="../b">On</a><p id="p"> some <b>text</b> </p>`
	const document = `{"data":{"token":"t1","n":12,"ok":true,"list":[{"id":"i0"}]}}`
	u, _ := url.Parse("https://shop.test/a/login")
	for _, tt := range []struct{ from, body, want, fault string }{
		{"input[name=a]", page, "v1", ""},
		{"meta[name=csrf]", page, "m1", ""},
		{"#f", page, "https://shop.test/a/do?x=1&y=2", ""},
		{"a.next", page, "https://shop.test/b", ""},
		{"p", page, "some text", ""},
		{"input[name=c]", page, "", "no element"},
		{"header:X-Token", "", "h1", ""},
		{"header:X-Other", "", "", "no field X-Other"},
		{"cookie:XSRF-TOKEN", "", "a=b", ""},
		{"cookie:other", "", "", "no cookie other"},
		{"json:data.token", document, "t1", ""},
		{"json:data.n", document, "12", ""},
		{"json:data.ok", document, "true", ""},
		{"json:data.list.0.id", document, "i0", ""},
		{"json:data.list.1.id", document, "", "no text"},
		{"json:data", document, "", "no text"},
		{"json:data.token", "<html>", "", "no JSON"},
	} {
		resp := &http.Response{Header: http.Header{"X-Token": {"h1"}}, Request: &http.Request{URL: u}}
		got, err := newTake("it", tt.from).of(resp, []byte(tt.body), func(name string) (string, bool) { return "a%3Db", name == "XSRF-TOKEN" })
		if got != tt.want || (err == nil) != (tt.fault == "") || err != nil && !strings.Contains(err.Error(), tt.fault) {
			t.Errorf("%s: %q, %v; want %q, %q", tt.from, got, err, tt.want, tt.fault)
		}
	}
}

// follow runs a recipe against a handler, whatever its hosts are called.
func follow(t *testing.T, h http.HandlerFunc, l *config.Login, jar *session.Jar) (*session.Jar, []Step, bool, error) {
	t.Helper()
	l.Request = config.LoginRequest{Method: "POST", Path: "/login"}
	if l.LoggedOut.Empty() {
		l.LoggedOut = config.Signs{Status: []int{401}, Redirect: "*/login*"}
	}
	l.Accounts = []config.Account{{ID: "default", User: "alice", Password: "pass&word", TOTP: "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"}}
	var steps []Step
	end, tried, err := New(l, "shop.test").Run(t.Context(), "default", jar, Way{
		Now:    time.Now,
		Header: http.Header{"User-Agent": {"mine"}},
		Report: func(s Step) { steps = append(steps, s) },
		Declared: func(u *url.URL) bool {
			return u.Hostname() == "shop.test" || strings.HasSuffix(u.Hostname(), ".shop.test")
		},
		Send: func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			h(w, r)
			resp := w.Result()
			resp.Request = r
			return resp, r.Context().Err()
		},
	})
	return end, steps, tried, err
}

func TestARecipeIsASmallBrowser(t *testing.T) {
	t.Parallel()
	var seen []string
	site := func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		seen = append(seen, fmt.Sprintf("%s %s %s|%s|%s|%s|%s", r.Method, r.URL, r.Header.Get("Cookie"), r.Header.Get("Referer"), r.Header.Get("Origin"), r.Header.Get("X-T"), body))
		switch r.URL.Host + r.URL.Path {
		case "shop.test/start":
			http.SetCookie(w, &http.Cookie{Name: "anon", Value: "1", Path: "/"})
			http.Redirect(w, r, "https://sso.shop.test/form?s=1", http.StatusFound)
		case "sso.shop.test/form":
			fmt.Fprint(w, `<input name="csrf" value="c&1">`)
		case "shop.test/login":
			http.SetCookie(w, &http.Cookie{Name: "anon", MaxAge: -1, Path: "/"})
			http.SetCookie(w, &http.Cookie{Name: "sid", Value: "s1", Path: "/"})
			http.Redirect(w, r, "/again", http.StatusTemporaryRedirect)
		case "shop.test/again":
			fmt.Fprint(w, `{"t":"t1"}`)
		}
	}
	jar, steps, tried, err := follow(t, site, &config.Login{Recipe: []config.LoginStep{
		{Get: "/start", Take: map[string]string{"csrf": "input[name=csrf]"}},
		{Post: "/login?u={user}", JSON: config.JSON{Value: map[string]any{"pw": "{password}", "c": []any{"{csrf}", "{totp}"}, "n": true}}, Take: map[string]string{"t": "json:t"}},
		{Get: "/last/{t}", Headers: map[string]string{"X-T": "{t}"}},
	}}, new(session.Jar))
	if err != nil || !tried {
		t.Fatalf("tried %t: %v", tried, err)
	}
	code := totp([]byte("12345678901234567890"), time.Now())
	want := []string{
		"GET https://shop.test/start ||||",
		"GET https://sso.shop.test/form?s=1 ||||",
		`POST https://shop.test/login?u=alice anon=1|https://sso.shop.test/|https://sso.shop.test||{"c":["c\u00261","` + code + `"],"n":true,"pw":"pass\u0026word"}`,
		`POST https://shop.test/again sid=s1|https://sso.shop.test/|https://sso.shop.test||{"c":["c\u00261","` + code + `"],"n":true,"pw":"pass\u0026word"}`,
		"GET https://shop.test/last/t1 sid=s1|https://shop.test/again||t1|",
	}
	for i := range max(len(seen), len(want)) {
		if i >= len(seen) || i >= len(want) || seen[i] != want[i] {
			t.Errorf("requests\n%s\nwant\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
			break
		}
	}
	if got := jar.Cookies(); len(got) != 1 || got[0].Name != "sid" {
		t.Errorf("cookies %v", got)
	}
	for _, s := range steps {
		if strings.Contains(s.URL+s.Redirect, "?") || strings.Contains(fmt.Sprint(s), "c&1") {
			t.Errorf("step %+v shows a value", s)
		}
	}
}

func TestRecipesThatFail(t *testing.T) {
	t.Parallel()
	post := config.LoginStep{Post: "/login", Form: map[string]string{"u": "{user}", "p": "{password}"}}
	form := config.LoginStep{Get: "/form", Take: map[string]string{"csrf": "input"}}
	for _, tt := range []struct {
		name  string
		steps []config.LoginStep
		site  http.HandlerFunc
		tried bool
		want  string
	}{
		{"the form is not there", []config.LoginStep{form, post}, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "x") }, false,
			"step 1: GET https://shop.test/form: take csrf: no element of the page matches input"},
		{"its page breaks", []config.LoginStep{form, post}, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, false,
			"step 1: GET https://shop.test/form: the site answered 503 Service Unavailable"},
		{"it leads elsewhere", []config.LoginStep{form, post}, func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "https://evil.test/?a=b", http.StatusFound)
		}, false,
			"step 1: GET https://shop.test/form: it redirects: evil.test is no host of the site"},
		{"it leads round and round", []config.LoginStep{form, post}, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/form", http.StatusFound) }, false,
			"step 1: more than 10 redirects in a row"},
		{"the password is wrong", []config.LoginStep{post}, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/login?failed", http.StatusFound) }, true,
			"step 1: POST https://shop.test/login: the site did not take the login, as logged_out.redirect shows (302)"},
		{"there are too many", []config.LoginStep{post}, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(429) }, true,
			"step 1: POST https://shop.test/login: the site answered the login with 429 Too Many Requests"},
		{"it is out again behind it", []config.LoginStep{post}, func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				http.Redirect(w, r, "/home", http.StatusFound)
			} else {
				w.WriteHeader(401)
			}
		}, true, "step 1: GET https://shop.test/home: after the login the session is logged out, as logged_out.status shows"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, _, tried, err := follow(t, tt.site, &config.Login{Recipe: tt.steps}, new(session.Jar))
			if err == nil || err.Error() != tt.want || tried != tt.tried {
				t.Errorf("tried %t: %v\nwant %t: %s", tried, err, tt.tried, tt.want)
			}
		})
	}
}

// A site that takes the session's cookies for logged in shows no form.
func TestASessionThatIsInAfterAll(t *testing.T) {
	t.Parallel()
	jar, _, tried, err := follow(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/form" {
			http.SetCookie(w, &http.Cookie{Name: "app", Value: "1", Path: "/"})
			http.Redirect(w, r, "/account", http.StatusFound)
		}
	}, &config.Login{
		LoggedIn: config.Signs{Redirect: "*/account"},
		Recipe:   []config.LoginStep{{Get: "/form", Take: map[string]string{"csrf": "input"}}, {Post: "/login"}},
	}, new(session.Jar))
	if err != nil || tried || len(jar.Cookies()) != 1 {
		t.Errorf("tried %t, %v", tried, err)
	}
}

// The site's own words about a request that failed may hold its URL.
func TestErrorsHoldNoQuery(t *testing.T) {
	t.Parallel()
	err := plainError(&url.Error{Op: "Get", URL: "https://shop.test/?code=secret", Err: context.DeadlineExceeded})
	if !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
}

// A reply that never ends, in drops or in a flood, ends with the run's time or
// with the size that is looked at, and is no refusal.
func TestARecipesReplyThatNeverEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		pace time.Duration // between bytes
		size int
		want Cause
		took time.Duration
	}{
		{"in drops", time.Second, 1, Hindered, runLimit},
		{"in a flood", 0, 32 << 10, Refused, 0}, // whose beginning has no form
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := &config.Login{
					Request:   config.LoginRequest{Method: "POST", Path: "/login"},
					LoggedOut: config.Signs{Status: []int{401}},
					Recipe:    []config.LoginStep{{Get: "/form", Take: map[string]string{"csrf": "input"}}, {Post: "/login", Form: map[string]string{"u": "{user}"}}},
					Accounts:  []config.Account{{ID: "default"}},
				}
				begin := time.Now()
				_, _, err := New(l, "shop.test").Run(t.Context(), "default", new(session.Jar), Way{
					Report:   func(Step) {},
					Declared: func(*url.URL) bool { return true },
					Now:      time.Now,
					Send: func(r *http.Request) (*http.Response, error) {
						return &http.Response{StatusCode: 200, Header: http.Header{}, Request: r, Body: io.NopCloser(&endless{r.Context(), tt.pace, tt.size})}, nil
					},
				})
				cause, _ := CauseOf(err)
				if err == nil || cause != tt.want || time.Since(begin) != tt.took {
					t.Errorf("after %v: cause %d, %v; want %d after %v", time.Since(begin), cause, err, tt.want, tt.took)
				}
			})
		})
	}
}

// endless is a body without an end.
type endless struct {
	ctx  context.Context
	pace time.Duration
	size int
}

func (e *endless) Read(p []byte) (int, error) {
	select {
	case <-time.After(e.pace):
		return min(e.size, len(p)), nil
	case <-e.ctx.Done():
		return 0, e.ctx.Err()
	}
}
