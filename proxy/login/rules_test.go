package login

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// all looks at everything.
var all = New(&config.Login{LoggedOut: config.Signs{Cookie: "sid"}}, "shop.test")

// reply is a response to a GET of https://shop.test/page.
func reply(status int, contentType, page string, fields ...string) Reply {
	u := &url.URL{Scheme: "https", Host: "shop.test", Path: "/page"}
	resp := &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {contentType}}}
	for i := 0; i < len(fields); i += 2 {
		resp.Header.Add(fields[i], fields[i+1])
	}
	r := all.Read(resp, u, session.Setting{Host: "shop.test", Path: "/page", Secure: true}, time.Now())
	if page != "" {
		r.Page = []byte(page)
	}
	return r
}

const htmlType = "text/html; charset=utf-8"

func TestVerdicts(t *testing.T) {
	t.Parallel()
	out := config.Signs{Status: []int{401, 419}, Redirect: "*/login*", Cookie: "sid", Body: "Please sign in"}
	head := config.Signs{Status: []int{401}, Redirect: "*/login*"}
	in := config.Signs{Redirect: "*/account*", Cookie: "sid"}
	for _, tt := range []struct {
		name    string
		out, in config.Signs
		login   bool // the reply to a login request
		reply   Reply
		verdict Verdict
		rule    string
		open    bool
	}{
		{"a status", out, in, false, reply(419, "", ""), Out, "logged_out.status", false},
		{"a redirect, relative", out, in, false, reply(302, "", "", "Location", "login?next=/page"), Out, "logged_out.redirect", false},
		{"a redirect to another host of the site", out, in, false, reply(302, "", "", "Location", "https://auth.shop.test/login"), Out, "logged_out.redirect", false},
		{"a Location that does not redirect", out, in, false, reply(201, "", "", "Location", "/login"), Unknown, "", false},
		{"a cookie that is deleted", out, in, false, reply(200, "", "", "Set-Cookie", "sid=; Max-Age=0"), Out, "logged_out.cookie", false},
		{"one that is deleted and set anew", out, in, false, reply(200, "", "", "Set-Cookie", "sid=; Max-Age=0", "Set-Cookie", "sid=1"), Unknown, "", false},
		{"a page that is not known yet", out, in, false, reply(200, htmlType, ""), Unknown, "", true},
		{"a page with the text", out, in, false, reply(200, htmlType, "<h1>Please sign in</h1>"), Out, "logged_out.body", false},
		{"a page without it", out, in, false, reply(200, htmlType, "<h1>Hello</h1>"), Unknown, "", false},
		{"the text in what is no page", out, in, false, reply(200, "application/json", "Please sign in"), Unknown, "", false},
		{"all signs of a login", out, in, false, reply(302, "", "", "Location", "/account", "Set-Cookie", "sid=1"), In, "logged_in", false},
		{"one of them", out, in, false, reply(302, "", "", "Location", "/account"), Unknown, "", false},
		{"both, and out speaks first", out, in, false, reply(302, "", "", "Location", "/login?next=/account", "Set-Cookie", "sid=1"), Out, "logged_out.redirect", false},

		{"a login: all signs", out, in, true, reply(302, "", "", "Location", "/account", "Set-Cookie", "sid=1"), In, "logged_in", false},
		{"a login without the cookie", out, in, true, reply(302, "", "", "Location", "/account"), Out, "logged_in.cookie", false},
		{"a login that is sent back", out, in, true, reply(302, "", "", "Location", "/login?error"), Out, "logged_out.redirect", false},
		{"a login that is too much", out, in, true, reply(429, htmlType, "x"), Unknown, "", false},
		{"a login that breaks", out, in, true, reply(502, htmlType, "x"), Unknown, "", false},
		{"a login by the form of others", head, config.Signs{}, true, reply(302, "", "", "Location", "/"), In, "not logged_out", false},
		{"one that is refused", head, config.Signs{}, true, reply(401, "", ""), Out, "logged_out.status", false},
		{"one without its token", head, config.Signs{}, true, reply(403, htmlType, "x"), Unknown, "", false},
		{"one whose page is not known yet", out, config.Signs{}, true, reply(200, htmlType, ""), Unknown, "", true},
		{"one that shows the form again", out, config.Signs{}, true, reply(200, htmlType, "Please sign in"), Out, "logged_out.body", false},
		{"one that shows a page", out, config.Signs{}, true, reply(200, htmlType, "Hello"), In, "not logged_out", false},
		{"a script's", out, config.Signs{Status: []int{204}}, true, reply(204, "", ""), In, "logged_in", false},
		{"a script's that is refused", out, config.Signs{Status: []int{204}}, true, reply(200, "application/json", "{}"), Out, "logged_in.status", false},
		{"a page that greets", out, config.Signs{Body: "Sign out"}, true, reply(200, htmlType, "Sign out"), In, "logged_in", false},
		{"one that does not", out, config.Signs{Body: "Sign out"}, true, reply(200, htmlType, "?"), Out, "logged_in.body", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := New(&config.Login{LoggedOut: tt.out, LoggedIn: tt.in}, "shop.test")
			judge := r.Judge
			if tt.login {
				judge = r.JudgeLogin
			}
			if j, known := judge(tt.reply); j.Verdict != tt.verdict || j.Rule != tt.rule || known == tt.open {
				t.Errorf("%s by %q, known %t; want %s by %q, known %t", j.Verdict, j.Rule, known, tt.verdict, tt.rule, !tt.open)
			}
		})
	}
}

func TestLoginRequestsAndPages(t *testing.T) {
	t.Parallel()
	r := New(&config.Login{
		Request:   config.LoginRequest{Method: "POST", Host: "auth.shop.test", Path: "/realms/*/authenticate"},
		LoggedOut: config.Signs{Redirect: "*/signin*"},
	}, "shop.test")
	for _, tt := range []struct {
		method, url string
		login, page bool
	}{
		{"POST", "https://auth.shop.test/realms/x/authenticate?code=1", true, true},
		{"POST", "https://auth.shop.test./realms/x/authenticate", true, true},
		{"GET", "https://auth.shop.test/realms/x/authenticate", false, true},
		{"POST", "https://shop.test/realms/x/authenticate", false, false},
		{"GET", "https://shop.test/signin?next=/", false, true},
		{"GET", "https://shop.test/cart", false, false},
	} {
		u, err := url.Parse(tt.url)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Matches(tt.method, u.Hostname(), u.EscapedPath()); got != tt.login {
			t.Errorf("%s %s is a login: %t", tt.method, tt.url, got)
		}
		if got := r.Page(u); got != tt.page {
			t.Errorf("%s is a page to log in at: %t", tt.url, got)
		}
	}
}
