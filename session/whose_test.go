package session

import "testing"

func TestWhoseRequest(t *testing.T) {
	t.Parallel()
	const (
		shop  = "https://www.shop.test"
		evil  = "https://evil.test"
		plain = "http://www.shop.test"
	)
	for _, tt := range []struct {
		name string
		e    Evidence
		want Whose
	}{
		{"a scraper that says nothing is own", Evidence{Method: "POST"}, Own},
		{"a scraper with a foreign Referer is own", Evidence{Method: "POST", Referer: evil + "/"}, Own},
		{"a scraper that upgrades is own", Evidence{Method: "GET", UpgradeInsecureRequests: true}, Own},

		{"an address that was typed is own", Evidence{Method: "GET", FetchSite: "none", FetchMode: "navigate", FetchDest: "document"}, Own},
		{"the site's own script is own", Evidence{Method: "POST", FetchSite: "same-origin", FetchMode: "cors", FetchDest: "empty", Origin: shop}, Own},
		{"a sister host's script is own", Evidence{Method: "POST", FetchSite: "same-site", FetchMode: "cors", FetchDest: "empty", Origin: "https://api.shop.test"}, Own},
		{"a foreign link is a cross navigation", Evidence{Method: "GET", FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "document", Referer: evil + "/"}, CrossNavigation},
		{"so is one opened by HEAD", Evidence{Method: "HEAD", FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "document"}, CrossNavigation},
		{"a foreign form that posts is cross", Evidence{Method: "POST", FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "document", Origin: evil}, Cross},
		{"a foreign page's frame is cross", Evidence{Method: "GET", FetchSite: "cross-site", FetchMode: "navigate", FetchDest: "iframe"}, Cross},
		{"a foreign page's image is cross", Evidence{Method: "GET", FetchSite: "cross-site", FetchMode: "no-cors", FetchDest: "image"}, Cross},
		{"a foreign page's fetch is cross", Evidence{Method: "GET", FetchSite: "cross-site", FetchMode: "cors", FetchDest: "empty", Origin: evil}, Cross},
		{"Fetch metadata beats a kind Origin", Evidence{Method: "POST", FetchSite: "cross-site", FetchMode: "cors", Origin: shop}, Cross},
		{"Fetch metadata beats a foreign Origin", Evidence{Method: "POST", FetchSite: "same-origin", Origin: evil}, Own},
		{"the site's own frame in a foreign page is cross", Evidence{Method: "POST", FetchSite: "same-origin", FetchMode: "cors", FetchDest: "empty", Origin: shop, ThirdParty: true}, Cross},
		{"so is a frame in that frame", Evidence{Method: "GET", FetchSite: "same-origin", FetchMode: "navigate", FetchDest: "iframe", ThirdParty: true}, Cross},
		{"a sister host's preflight is cross", Evidence{Method: "OPTIONS", FetchSite: "same-site", FetchMode: "cors", FetchDest: "empty", Origin: "https://api.shop.test", Preflight: true}, Cross},
		{"what follows a preflight for requests without credentials is cross", Evidence{Method: "PUT", Browser: true, FetchSite: "same-site", FetchMode: "cors", Origin: "https://api.shop.test", Anonymous: true}, Cross},
		{"so it is on plain http", Evidence{Method: "PUT", Browser: true, Origin: "https://api.shop.test", Anonymous: true}, Cross},
		{"not where cookies came with it", Evidence{Method: "GET", Browser: true, FetchSite: "same-site", FetchMode: "cors", Origin: "https://api.shop.test", Anonymous: true, Cookie: true}, Own},
		{"nor from a page of the same origin", Evidence{Method: "PUT", Browser: true, FetchSite: "same-origin", FetchMode: "cors", Origin: shop, Anonymous: true}, Own},
		{"nor from a scraper", Evidence{Method: "PUT", Origin: "https://api.shop.test", Anonymous: true}, Own},
		{"an unknown Sec-Fetch-Site counts as cross-site", Evidence{Method: "GET", FetchSite: "alien", FetchMode: "cors"}, Cross},

		{"a same-origin Origin is own", Evidence{Method: "POST", Origin: shop}, Own},
		{"a port is no boundary of sites", Evidence{Method: "POST", Origin: shop + ":8443"}, Own},
		{"a sister host's Origin is own", Evidence{Method: "POST", Origin: "https://a.b.shop.test"}, Own},
		{"a foreign Origin is cross", Evidence{Method: "POST", Origin: evil}, Cross},
		{"a foreign Origin is cross for scrapers and for GET", Evidence{Method: "GET", Origin: evil, UpgradeInsecureRequests: true}, Cross},
		{"sites are schemeful: http is not https", Evidence{Method: "POST", Origin: plain}, Cross},
		{"Origin null is cross", Evidence{Method: "POST", Origin: "null"}, Cross},
		{"an Origin of another scheme is cross", Evidence{Method: "POST", Origin: "chrome-extension://www.shop.test"}, Cross},
		{"an Origin that is no URL is cross", Evidence{Method: "POST", Origin: "https://%"}, Cross},
		{"a suffix of the name is another site", Evidence{Method: "POST", Origin: "https://evilshop.test"}, Cross},

		{"a browser without metadata is judged by its Referer: own", Evidence{Method: "POST", Browser: true, Referer: "https://shop.test/cart"}, Own},
		{"and foreign", Evidence{Method: "GET", Browser: true, Referer: evil + "/", UpgradeInsecureRequests: true}, Cross},
		{"and of the other scheme", Evidence{Method: "GET", Browser: true, Referer: plain + "/"}, Cross},
		{"its Origin comes first", Evidence{Method: "POST", Browser: true, Origin: evil, Referer: shop}, Cross},
		{"without a Referer its GET that upgrades is a cross navigation", Evidence{Method: "GET", Browser: true, UpgradeInsecureRequests: true}, CrossNavigation},
		{"its POST that upgrades is cross", Evidence{Method: "POST", Browser: true, UpgradeInsecureRequests: true}, Cross},
		{"its GET that does not is cross", Evidence{Method: "GET", Browser: true}, Cross},

		{"a WebSocket of the site is own", Evidence{Method: "GET", WebSocket: true, Origin: shop}, Own},
		{"a WebSocket of a foreign page is cross", Evidence{Method: "GET", WebSocket: true, Origin: evil}, Cross},
		{"whatever its metadata says", Evidence{Method: "GET", WebSocket: true, Origin: evil, FetchSite: "same-origin"}, Cross},
		{"and in the other direction", Evidence{Method: "GET", WebSocket: true, Origin: shop, FetchSite: "cross-site", FetchMode: "websocket"}, Own},
		{"a WebSocket of a sandboxed frame is cross", Evidence{Method: "GET", WebSocket: true, Origin: "null"}, Cross},
		{"a WebSocket without an Origin is no browser's", Evidence{Method: "GET", WebSocket: true, Browser: true, Referer: evil}, Own},
	} {
		tt.e.Host, tt.e.Secure = "www.shop.test", true
		if got := WhoseRequest(tt.e); got != tt.want {
			t.Errorf("%s: WhoseRequest(%+v) = %d, want %d", tt.name, tt.e, got, tt.want)
		}
	}
}

func TestWhoseRequestOverPlainHTTP(t *testing.T) {
	t.Parallel()
	for origin, want := range map[string]Whose{
		"http://shop.test":         Own,
		"http://api.shop.test:81":  Own,
		"https://www.shop.test":    Cross,
		"http://127.0.0.1":         Cross,
		"http://www.shop.test.:80": Cross,
	} {
		e := Evidence{Method: "POST", Host: "www.shop.test", Origin: origin}
		if got := WhoseRequest(e); got != want {
			t.Errorf("Origin %s: %d, want %d", origin, got, want)
		}
	}
}
