package proxy_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
)

func parseURL(t *testing.T, s string) *url.URL {
	t.Helper()
	u, err := url.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// put stores a cookie that https://shop.test/ sets.
func put(t *testing.T, w *world.World, id, line string) {
	t.Helper()
	c, err := session.ParseSetCookie(line, session.Setting{Host: world.Host, Path: "/", Secure: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	u := session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}
	if _, _, err := w.Store().Apply(t.Context(), session.Key{Site: world.Host, ID: id}, u, session.Life{}); err != nil {
		t.Fatal(err)
	}
}

func TestExplainAnswersForTheWholeRequest(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Config: func(c *config.Config) {
		clients(c)
		c.Sites = append(c.Sites, world.Site("strict", "strict.test"), world.Site("quiet", "quiet.test"))
		c.Sites[2].Origin.HTTPSOnly = true
		c.Sites[3].Cookies.Inject = false
	}})
	for _, tt := range []struct{ name, url, client, session, site, refused string }{
		{"a declared site", "https://shop.test/", "crawler", "default", "shop", ""},
		{"without a client there are no rules for one", "https://bank.test/", "", "default", "bank", ""},
		{"no site declares the host", "https://evil.test/", "crawler", "default", "", "No site declares evil.test: its requests pass as they are."},
		{"a scheme that the proxy does not speak", "ftp://shop.test/", "", "default", "", "This proxy speaks http and https, no other scheme."},
		{"no such client", "https://shop.test/", "crowler", "default", "shop", "The proxy has no client crowler: it would ask for other credentials."},
		{"not this client's site", "https://bank.test/", "crawler", "default", "bank", "The proxy client crawler may not use the site bank."},
		{"not this client's session", "https://shop.test/", "crawler", "prod", "shop", "The proxy client crawler may not use the session prod. Select one of default qa* with the proxy user name crawler-session-ID."},
		{"a session by a glob", "https://shop.test/", "crawler", "qa1", "shop", ""},
		{"no session", "https://shop.test/", "crawler", "none", "shop", "The session none stands for no session at all."},
		{"plain http where only https is served", "http://strict.test/", "", "default", "strict", "The site is served over https only: the client is sent there."},
		{"a site without injection", "https://quiet.test/", "", "default", "quiet", "The site's requests get no cookies of its sessions: cookies.inject is false."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			site, refused, verdicts, err := w.Explain(t.Context(), parseURL(t, tt.url), tt.client, tt.session)
			if err != nil || site != tt.site || refused != tt.refused || len(verdicts) > 0 {
				t.Errorf("site %q, %q, %v, %v; want site %q, %q", site, refused, verdicts, err, tt.site, tt.refused)
			}
		})
	}
	t.Run("hosts of no site are refused", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.Options{Config: func(c *config.Config) { c.Undeclared = config.Refuse }})
		site, refused, _, err := w.Explain(t.Context(), parseURL(t, "https://evil.test/"), "", "default")
		if want := "This proxy serves declared sites only, and evil.test is none."; err != nil || site != "" || refused != want {
			t.Errorf("site %q, %q, %v; want %q", site, refused, err, want)
		}
	})
}

// What is explained is what happens.
func TestExplainSaysWhatARequestCarries(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(r.Header.Get("Cookie")))
	})})
	put(t, w, "default", "sid=1; Secure")
	put(t, w, "default", "lang=en; Domain=shop.test")
	put(t, w, "default", "cart=2; Path=/cart")
	put(t, w, "qa1", "sid=9")
	for _, tt := range []struct {
		name, url, session string
		want               []string
	}{
		{"over TLS", "https://shop.test/", "default", []string{"sid", "lang"}},
		{"in the clear", "http://shop.test/", "default", []string{"lang"}},
		{"below a path", "https://shop.test/cart/1?x=1", "default", []string{"cart", "sid", "lang"}},
		{"to a subdomain", "https://www.shop.test/", "default", []string{"lang"}},
		{"a logout", "https://shop.test/Logout", "default", nil},
		{"a logout by its query", "https://shop.test/user?action=logout", "default", nil},
		{"of another session", "https://shop.test/", "qa1", []string{"sid"}},
		{"of a session that there is not", "https://shop.test/", "nobody", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			u := parseURL(t, tt.url)
			site, refused, verdicts, err := w.Explain(t.Context(), u, "", tt.session)
			if err != nil || site != "shop" || refused != "" {
				t.Fatalf("site %q, %q, %v", site, refused, err)
			}
			var names, pairs []string
			for _, v := range verdicts {
				if v.Sent {
					names, pairs = append(names, v.Cookie.Name), append(pairs, v.Cookie.Name+"="+v.Cookie.Value)
				}
			}
			if got, want := strings.Join(names, " "), strings.Join(tt.want, " "); got != want {
				t.Errorf("said to go: %s; want %s", got, want)
			}
			via := world.TunnelH1
			if u.Scheme == "http" {
				via = world.Plain
			}
			client := w.ClientAs(via, world.User{Name: "me-session-" + tt.session, Password: "x"})
			got := world.Do(t, client, world.Request(t, "GET", tt.url, nil)).Text
			if want := strings.Join(pairs, "; "); got != want {
				t.Errorf("the origin got %q, and %q was said to go", got, want)
			}
		})
	}
}

func TestLocate(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	for _, tt := range []struct {
		url, site string
		at        session.Setting
	}{
		{"https://SHOP.test", "shop", session.Setting{Host: "shop.test", Path: "/", Secure: true}},
		{"http://a.shop.test:8080/x%2Fy/z?q", "shop", session.Setting{Host: "a.shop.test", Path: "/x%2Fy/z"}},
		{"https://evil.test/", "", session.Setting{Host: "evil.test", Path: "/", Secure: true}},
	} {
		site, at, err := w.Locate(parseURL(t, tt.url))
		if err != nil || site != tt.site || at != tt.at {
			t.Errorf("%s: site %q, %+v, %v; want %q, %+v", tt.url, site, at, err, tt.site, tt.at)
		}
	}
	if _, _, err := w.Locate(parseURL(t, "https://user@shop.test/")); err == nil || err.Error() != "The URL must hold no user name." {
		t.Errorf("a URL with a user name: %v", err)
	}
}
