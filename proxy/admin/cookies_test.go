package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

// set is the body that sets a cookie.
func set(t *testing.T, line, from string) func(*http.Request) {
	t.Helper()
	b, err := json.Marshal(SetCookie{line, from})
	if err != nil {
		t.Fatal(err)
	}
	return body(string(b))
}

func TestSetCookie(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, line, from string
		want             string // what the session holds then
	}{
		{"the site's first host sets it", "sid=" + value, "", "sid=THEVALUE@shop.test/; old=1@shop.test/"},
		{"it replaces one of equal identity", "old=" + value, "", "old=THEVALUE@shop.test/"},
		{"another host of the site", "sid=" + value, "https://www.shop.test/app/page", "sid=THEVALUE@www.shop.test/app; old=1@shop.test/"},
		{"for a domain", "sid=" + value + "; Domain=shop.test", "https://www.shop.test/", "sid=THEVALUE@shop.test/; old=1@shop.test/"},
		{"without a name", value, "", "=THEVALUE@shop.test/; old=1@shop.test/"},
		{"with an equals sign in it", "sid=" + value + "==", "", "sid=THEVALUE==@shop.test/; old=1@shop.test/"},
		{"over plain http", "sid=" + value, "http://shop.test/", "sid=THEVALUE@shop.test/; old=1@shop.test/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t)
			r.put(t, "shop.test/qa1", "shop.test", "old=1")
			w := ask(r, "PUT", "/api/v1/sessions/shop/qa1/cookies", set(t, tt.line, tt.from))
			got := decode[CookieSet](t, w)
			if got.Site != "shop" || got.Session != "qa1" || got.Cookie.Writer != "operator" || got.Cookie.ValueBytes < len(value) {
				t.Errorf("set %+v", got)
			}
			held := strings.Split(r.held(t, "shop.test/qa1"), "; ")
			for _, want := range strings.Split(tt.want, "; ") {
				if !strings.Contains(strings.Join(held, "; "), want) {
					t.Errorf("the session holds %q, want %s in it", held, want)
				}
			}
			if len(held) != strings.Count(tt.want, "; ")+1 {
				t.Errorf("the session holds %q, want %s", held, tt.want)
			}
			if want := fmt.Sprintf(`msg="cookie set" by=token site=shop session=qa1 cookie=%s`, got.Cookie.Name); !strings.Contains(r.log.String(), want) {
				t.Errorf("the log lacks %s:\n%s", want, r.log.String())
			}
			r.clean(t, w)
		})
	}
}

// A cookie that an operator sets lives as its site says.
func TestSetCookieMakesASession(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	decode[CookieSet](t, ask(r, "PUT", "/api/v1/sessions/shop/new/cookies", set(t, "sid="+value, "")))
	got := decode[SessionDetail](t, ask(r, "GET", "/api/v1/sessions/shop/new"))
	if life := got.Expires.Sub(got.Used); len(got.Cookies) != 1 || life.Minutes() != 60 {
		t.Errorf("%d cookies, a life of %s; want one, and the site's hour", len(got.Cookies), life)
	}
}

func TestSetCookieRefuses(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for _, tt := range []struct{ name, site, line, from, code, says string }{
		{"a host of another site", "shop", "sid=" + value, "https://bank.shop.test/", "foreign_host", `bank.shop.test is no host of the site "shop".`},
		{"a host of no site", "shop", "sid=" + value, "https://evil.test/", "foreign_host", "evil.test is no host"},
		{"a URL of another scheme", "shop", "sid=" + value, "ftp://shop.test/", "url", "speaks http and https"},
		{"a URL without a host", "shop", "sid=" + value, "shop.test", "url", "such as https://"},
		{"a URL that is none", "shop", "sid=" + value, "https://a b/", "url", "such as https://"},
		{"a built-in private name", "shop", "csrftoken=" + value, "", "private_name", `"csrftoken" belongs to one worker`},
		{"the site's own private name", "shop", "mine=" + value, "", "private_name", `"mine" belongs to one worker`},
		{"a name that the site does not share", "the/bank", "lang=" + value, "", "not_shared", `cookies.share leaves out the name "lang"`},
		{"one whose life is over", "shop", "sid=" + value + "; Max-Age=0", "", "expired", "Remove it by its name"},
		{"nothing", "shop", "", "", "cookie_empty", "neither name nor value"},
		{"a control character", "shop", "sid=" + value + "\x01", "", "cookie_control", "control character"},
		{"too long a value", "shop", "sid=" + strings.Repeat(value, 1000), "", "cookie_size", "4096"},
		{"a value that reads as another cookie", "shop", "=a=" + value, "", "cookie_ambiguous", "reads as another cookie"},
		{"a foreign Domain", "shop", "sid=" + value + "; Domain=evil.test", "", "cookie_domain", "Domain"},
		{"Secure over plain http", "shop", "sid=" + value + "; Secure", "http://shop.test/", "cookie_secure", "plain http"},
		{"a prefix that is not kept", "shop", "__Host-sid=" + value + "; Secure", "", "cookie_prefix", "Path=/"},
		{"SameSite=None without Secure", "shop", "sid=" + value + "; SameSite=None", "", "cookie_samesite", "Secure"},
		{"Partitioned without Secure", "shop", "sid=" + value + "; Partitioned", "", "cookie_partitioned", "Secure"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(r, "PUT", Path("sessions", tt.site, "qa1", "cookies"), set(t, tt.line, tt.from))
			wantProblem(t, w, 422, tt.code)
			var p Problem
			if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || !strings.Contains(p.Detail, tt.says) {
				t.Errorf("detail %q, %v; want %q in it", p.Detail, err, tt.says)
			}
			r.clean(t, w)
		})
	}
	if infos, err := r.store.List(t.Context(), ""); err != nil || len(infos) > 0 {
		t.Errorf("sessions %v, %v; want none", infos, err)
	}
}

func TestSetCookieIntoAFullSession(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	var lines []string
	for i := range 180 {
		lines = append(lines, fmt.Sprintf("c%d=1; Secure", i))
	}
	r.put(t, "shop.test/qa1", "shop.test", lines...)
	wantProblem(t, ask(r, "PUT", "/api/v1/sessions/shop/qa1/cookies", set(t, "sid="+value, "http://shop.test/")), 409, "session_full")
}

func TestBodyIsReadStrictly(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	const good = `{"set_cookie": "sid=1"}`
	for _, tt := range []struct {
		name   string
		change []func(*http.Request)
		status int
		code   string
	}{
		{"JSON with a parameter", []func(*http.Request){body(good), with("Content-Type", "application/json; charset=utf-8")}, 200, ""},
		{"spaces around it", []func(*http.Request){body("\n " + good + " \n")}, 200, ""},
		{"no type", []func(*http.Request){body(good), with("Content-Type")}, 415, "content_type"},
		{"a text", []func(*http.Request){body(good), with("Content-Type", "text/plain")}, 415, "content_type"},
		{"a form", []func(*http.Request){body("set_cookie=sid%3D1"), with("Content-Type", "application/x-www-form-urlencoded")}, 415, "content_type"},
		{"nothing", []func(*http.Request){body("")}, 400, "body"},
		{"no JSON", []func(*http.Request){body("sid=" + value)}, 400, "body"},
		{"another type", []func(*http.Request){body(`["` + value + `"]`)}, 400, "body"},
		{"an unknown field", []func(*http.Request){body(`{"set_cookie": "sid=1", "` + value + `": 1}`)}, 400, "body"},
		{"something behind it", []func(*http.Request){body(good + "}")}, 400, "body"},
		{"another value behind it", []func(*http.Request){body(good + good)}, 400, "body"},
		{"bytes that are no UTF-8", []func(*http.Request){body(`{"set_cookie": "sid=` + "\xff" + `"}`)}, 400, "body"},
		{"more than 64 KiB", []func(*http.Request){body(`{"set_cookie": "` + strings.Repeat("a", 64<<10) + `"}`)}, 413, "body_size"},
		{"64 KiB of spaces behind it", []func(*http.Request){body(good + strings.Repeat(" ", 64<<10))}, 413, "body_size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(r, "PUT", "/api/v1/sessions/shop/qa1/cookies", tt.change...)
			if tt.status == 200 {
				decode[CookieSet](t, w)
			} else {
				wantProblem(t, w, tt.status, tt.code)
			}
			r.clean(t, w)
		})
	}
}

func TestRemoveCookies(t *testing.T) {
	t.Parallel()
	const all = "k=THEVALUE@www.shop.test/app; k=THEVALUE@www.shop.test/; k=THEVALUE@shop.test/; K=THEVALUE@www.shop.test/; =THEVALUE@www.shop.test/"
	for _, tt := range []struct {
		name, query string
		removed     int
		left        string
	}{
		{"all of a name", "name=k", 3, "K=THEVALUE@www.shop.test/; =THEVALUE@www.shop.test/"},
		{"those of a domain", "name=k&domain=SHOP.test", 1, "k=THEVALUE@www.shop.test/app; k=THEVALUE@www.shop.test/; K=THEVALUE@www.shop.test/; =THEVALUE@www.shop.test/"},
		{"those of a path", "name=k&path=/app", 1, "k=THEVALUE@www.shop.test/; k=THEVALUE@shop.test/; K=THEVALUE@www.shop.test/; =THEVALUE@www.shop.test/"},
		{"the one of both", "name=k&domain=www.shop.test&path=/", 1, "k=THEVALUE@www.shop.test/app; k=THEVALUE@shop.test/; K=THEVALUE@www.shop.test/; =THEVALUE@www.shop.test/"},
		{"the nameless one", "name=", 1, "k=THEVALUE@www.shop.test/app; k=THEVALUE@www.shop.test/; k=THEVALUE@shop.test/; K=THEVALUE@www.shop.test/"},
		{"none of that name", "name=x", 0, all},
		{"none of that path", "name=k&path=/ap", 0, all},
		{"none of no domain", "name=k&domain=", 0, all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t)
			r.put(t, "shop.test/qa1", "www.shop.test", "k="+value+"; Path=/app", "k="+value, "k="+value+"; Domain=shop.test", "K="+value, value)
			w := ask(r, "DELETE", "/api/v1/sessions/shop/qa1/cookies?"+tt.query)
			if tt.removed == 0 {
				wantProblem(t, w, 404, "unknown_cookie")
			} else if got := decode[CookiesRemoved](t, w); len(got.Cookies) != tt.removed {
				t.Errorf("removed %+v, want %d", got.Cookies, tt.removed)
			}
			if got := r.held(t, "shop.test/qa1"); got != tt.left {
				t.Errorf("left %s, want %s", got, tt.left)
			}
			r.clean(t, w)
		})
	}
	t.Run("a name is needed", func(t *testing.T) {
		t.Parallel()
		wantProblem(t, ask(newRoad(t), "DELETE", "/api/v1/sessions/shop/qa1/cookies"), 400, "name")
	})
	t.Run("an operator's deletion stands against a late reply", func(t *testing.T) {
		t.Parallel()
		r := newRoad(t)
		r.put(t, "shop.test/qa1", "shop.test", "sid=1")
		before, err := r.store.Load(t.Context(), key("shop.test/qa1"))
		if err != nil {
			t.Fatal(err)
		}
		decode[CookiesRemoved](t, ask(r, "DELETE", "/api/v1/sessions/shop/qa1/cookies?name=sid"))
		late := before.Cookies()[0]
		late.Value = "2"
		_, outcomes, err := r.store.Apply(t.Context(), key("shop.test/qa1"), session.Update{Base: before.Version(), Cookies: []session.Cookie{late}}, session.Life{})
		if err != nil || outcomes[0] != session.Late {
			t.Errorf("outcomes %v, %v; want late", outcomes, err)
		}
	})
}
