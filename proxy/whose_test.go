package proxy_test

import (
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// A page that a proxied browser visits can read and ride nothing that it could
// not without the proxy.
func TestForeignPagesRideOnNothing(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, method string
		fields       []string
		sent         string // of "sid=shared" and "strict=shared"
		captures     bool
	}{
		{"a scraper", "GET", nil, "sid=shared; strict=shared", true},
		{"a scraper with a foreign Referer", "POST", []string{"Referer", "https://search.test/"}, "sid=shared; strict=shared", true},
		{"the site's own page", "POST", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://shop.test"}, "sid=shared; strict=shared", true},
		{"a subdomain's page", "POST", []string{"Sec-Fetch-Site", "same-site"}, "sid=shared; strict=shared", true},
		{"a bookmark", "GET", []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, "sid=shared; strict=shared", true},
		{"a link on a foreign page", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, "sid=shared", true},
		{"a form on a foreign page", "POST", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}, "", false},
		{"a frame in a foreign page", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}, "", false},
		{"the site's own frame in a foreign page", "POST", []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://shop.test", "Sec-Fetch-Storage-Access", "none"}, "", false},
		{"a subdomain's preflight", "OPTIONS", []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty", "Origin", "https://www.shop.test", "Access-Control-Request-Method", "PUT"}, "", false},
		{"a foreign page's fetch", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Sec-Fetch-Dest", "empty"}, "", false},
		{"a foreign page's fetch with its browser's cookie", "GET", []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Cookie", "sid=stale; own=1"}, "sid=shared; own=1", false},
		{"a foreign Origin alone", "POST", []string{"Origin", "https://evil.test"}, "", false},
		{"the Origin null", "POST", []string{"Origin", "null"}, "", false},
		{"its own Origin alone", "POST", []string{"Origin", "https://shop.test"}, "sid=shared; strict=shared", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login})
			ben := world.User{Name: "ben"} // a scraper, and known as one
			for _, via := range []world.Way{world.TunnelH1, world.TunnelH2, world.TunnelH2H1} {
				w.GetAs(t, via, ben, set("sid=shared; Path=/; SameSite=None; Secure", "strict=shared; Path=/; SameSite=Strict", "rode=; Max-Age=0; Path=/"))
				ask := func(path string) *world.Answer {
					return world.Do(t, w.Client(via), world.Request(t, tt.method, via.URL(path), nil, tt.fields...))
				}
				wantCookie(t, ask("/"), tt.sent)
				if a := ask(set("rode=1; Path=/")); a.Header.Get("Set-Cookie") != "rode=1; Path=/" {
					t.Errorf("%s: the page's own browser was given %q", via.Name, a.Header["Set-Cookie"])
				}
				want := "sid=shared; strict=shared"
				if tt.captures {
					want += "; rode=1"
				}
				wantCookie(t, w.GetAs(t, via, ben, "/"), want)
			}
		})
	}
}

// Browsers send no Fetch metadata to plain http sites, and must not be taken
// for scrapers there.
func TestABrowserIsKnownAgain(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	get := func(agent string, fields ...string) *world.Answer {
		return w.Get(t, world.Plain, "/", append(fields, "User-Agent", agent)...)
	}
	w.Get(t, world.Plain, set("sid=shared; Path=/"))
	wantCookie(t, get("Browser/1"), "sid=shared") // not known yet
	w.Get(t, world.TunnelH1, "/", "User-Agent", "Browser/1", "Sec-Fetch-Site", "none")
	wantCookie(t, get("Browser/1"), "")
	wantCookie(t, get("Browser/1", "Referer", "http://evil.test/"), "")
	wantCookie(t, get("Browser/1", "Referer", "http://shop.test/"), "sid=shared")
	wantCookie(t, get("Browser/1", "Upgrade-Insecure-Requests", "1"), "sid=shared")
	wantCookie(t, get("curl/8", "Referer", "http://evil.test/"), "sid=shared")

	// The first-run page's test of the CA tells as well.
	wantCookie(t, get("Browser/2", "Referer", "http://evil.test/"), "sid=shared")
	world.Do(t, w.Client(world.TunnelH1), world.Request(t, "GET", "https://sessionproxy.internal/trusted.svg", nil, "User-Agent", "Browser/2", "Sec-Fetch-Site", "same-origin"))
	wantCookie(t, get("Browser/2", "Referer", "http://evil.test/"), "")
}
