package session

import "testing"

// Rows say who asked and what was answered; want is whether the page behind the
// request may have the answer to an anonymous one only.
func TestOnlyAnonymously(t *testing.T) {
	t.Parallel()
	const shop, sister = "https://www.shop.test", "https://api.shop.test"
	script := func(e Evidence) Evidence {
		e.Browser, e.Method = true, "GET"
		return e
	}
	sisters := script(Evidence{FetchSite: "same-site", FetchMode: "cors", FetchDest: "empty", Origin: sister})
	with := func(e Evidence, change func(*Evidence)) Evidence {
		change(&e)
		return e
	}
	star := CORS{Status: 200, AllowOrigin: []string{"*"}}
	echo := CORS{Status: 200, AllowOrigin: []string{sister}}
	both := CORS{Status: 200, AllowOrigin: []string{sister}, AllowCredentials: []string{"true"}}
	for _, tt := range []struct {
		name string
		e    Evidence
		c    CORS
		want bool
	}{
		{"a sister host's script reads what everybody may", sisters, star, true},
		{"also an error", sisters, CORS{Status: 403, AllowOrigin: []string{"*"}}, true},
		{"also a redirect, which shows where it leads", sisters, CORS{Status: 302, AllowOrigin: []string{"*"}}, true},
		{"and what its origin may without credentials", sisters, echo, true},
		{"not what its origin may with them", sisters, both, false},
		{"not what nobody may", sisters, CORS{Status: 200}, false},
		{"not what another origin may", sisters, CORS{Status: 200, AllowOrigin: []string{shop}, AllowCredentials: []string{"true"}}, false},
		{"a star allows no credentials, whatever else is said", sisters, CORS{Status: 200, AllowOrigin: []string{"*"}, AllowCredentials: []string{"true"}}, true},
		{"true has one spelling", sisters, CORS{Status: 200, AllowOrigin: []string{sister}, AllowCredentials: []string{"True"}}, true},
		{"two origins in two lines allow no credentials", sisters, CORS{Status: 200, AllowOrigin: []string{sister, "*"}, AllowCredentials: []string{"true"}}, true},
		{"nor in one line", sisters, CORS{Status: 200, AllowOrigin: []string{sister + ", *"}, AllowCredentials: []string{"true"}}, true},
		{"nor does true, twice", sisters, CORS{Status: 200, AllowOrigin: []string{sister}, AllowCredentials: []string{"true", "true"}}, true},
		{"spaces around a value are none of it", sisters, CORS{Status: 200, AllowOrigin: []string{"\t" + sister + " "}, AllowCredentials: []string{" true "}}, false},
		{"an origin in other case is another", sisters, CORS{Status: 200, AllowOrigin: []string{"https://API.shop.test"}, AllowCredentials: []string{"true"}}, false},
		{"a 304 stands for what was opened before", sisters, CORS{Status: 304}, true},
		{"not where it says who may read it with credentials", sisters, CORS{Status: 304, AllowOrigin: []string{sister}, AllowCredentials: []string{"true"}}, false},

		{"a Cookie field shows credentials", with(sisters, func(e *Evidence) { e.Cookie = true }), star, false},
		{"a font, or a module, is read like a fetch", with(sisters, func(e *Evidence) { e.FetchDest = "font" }), star, true},
		{"a mode not known today is", with(sisters, func(e *Evidence) { e.FetchMode = "alien" }), star, true},
		{"no mode at all is", with(sisters, func(e *Evidence) { e.FetchMode = "" }), star, true},
		{"an image is read by nobody", with(sisters, func(e *Evidence) { e.FetchMode, e.FetchDest, e.Origin = "no-cors", "image", "" }), star, false},
		{"nor is a page", with(sisters, func(e *Evidence) { e.FetchMode, e.FetchDest, e.Origin = "navigate", "document", "" }), star, false},
		{"nor is what a form posts to", with(sisters, func(e *Evidence) { e.Method, e.FetchMode, e.FetchDest = "POST", "navigate", "document" }), star, false},
		{"a script that was led through a sister host has no origin left", with(sisters, func(e *Evidence) { e.Origin = "null" }), star, true},
		{"and may be named so", with(sisters, func(e *Evidence) { e.Origin = "null" }), CORS{Status: 200, AllowOrigin: []string{"null"}, AllowCredentials: []string{"true"}}, false},
		{"the site's own script reads all", script(Evidence{FetchSite: "same-origin", FetchMode: "cors", Origin: shop, SameOrigin: true}), star, false},
		{"an address that was typed is read by nobody", script(Evidence{FetchSite: "none", FetchMode: "navigate"}), star, false},
		{"a foreign page's script is cross in any case", script(Evidence{FetchSite: "cross-site", FetchMode: "cors", Origin: "https://evil.test"}), star, false},
		{"a WebSocket is no answer", with(sisters, func(e *Evidence) { e.WebSocket = true }), star, false},

		{"on plain http a sister's Origin tells", script(Evidence{Origin: sister}), star, true},
		{"the page's own does", script(Evidence{Origin: shop, SameOrigin: true}), star, false},
		{"and none is no script", script(Evidence{}), star, false},
		{"a scraper has no pages", Evidence{Method: "GET", Origin: sister}, star, false},
	} {
		if got := OnlyAnonymously(tt.e, tt.c); got != tt.want {
			t.Errorf("%s: OnlyAnonymously(%+v, %+v) = %t, want %t", tt.name, tt.e, tt.c, got, tt.want)
		}
	}
}

func TestAfterPreflight(t *testing.T) {
	t.Parallel()
	const sister = "https://api.shop.test"
	for _, tt := range []struct {
		name          string
		c             CORS
		with, without bool
	}{
		{"a star lets what has no credentials follow", CORS{Status: 204, AllowOrigin: []string{"*"}, AllowCredentials: []string{"true"}}, false, true},
		{"the origin alone, too", CORS{Status: 200, AllowOrigin: []string{sister}}, false, true},
		{"with credentials, both", CORS{Status: 204, AllowOrigin: []string{sister}, AllowCredentials: []string{"true"}}, true, true},
		{"another origin, nothing", CORS{Status: 204, AllowOrigin: []string{"https://www.shop.test"}}, false, false},
		{"an error, nothing", CORS{Status: 404, AllowOrigin: []string{"*"}}, false, false},
		{"a redirect, nothing", CORS{Status: 302, AllowOrigin: []string{"*"}}, false, false},
	} {
		if with, without := AfterPreflight(Evidence{Origin: sister}, tt.c); with != tt.with || without != tt.without {
			t.Errorf("%s: %t, %t", tt.name, with, without)
		}
	}
}
