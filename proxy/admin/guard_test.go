package admin

import (
	"crypto/tls"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t)) // on 127.0.0.5:8081, also called Proxy.example.com
	for _, tt := range []struct {
		name, host string
		want       bool
	}{
		{"localhost", "localhost:8081", true},
		{"localhost without a port", "localhost", true},
		{"localhost in capitals", "LocalHost:8081", true},
		{"localhost with a final dot", "localhost.:8081", true},
		{"the IPv4 loopback address", "127.0.0.1:8081", true},
		{"the IPv4 loopback address with a final dot", "127.0.0.1.:8081", true},
		{"the IPv6 loopback address", "[::1]:8081", true},
		{"the IPv6 loopback address without a port", "[::1]", true},
		{"the address it listens on", "127.0.0.5:8081", true},
		{"a name of its own", "proxy.example.com:8081", true},
		{"a name of its own in capitals, with a dot", "PROXY.example.com.", true},

		{"no host, as in HTTP/1.0", "", false},
		{"a port alone", ":8081", false},
		{"a foreign name", "evil.test:8081", false},
		{"a foreign name without a port", "evil.test", false},
		{"a name that spells our address", "127.0.0.1.nip.io:8081", false},
		{"a name that begins as ours does", "localhost.evil.test:8081", false},
		{"a name that ends as ours does", "evil.proxy.example.com:8081", false},
		{"a name under localhost", "evil.localhost:8081", false},
		{"two final dots", "localhost..:8081", false},
		{"127.0.0.1 as one number", "2130706433:8081", false},
		{"127.0.0.1 in hexadecimal", "0x7f.0.0.1:8081", false},
		{"127.0.0.1 in octal", "0177.0.0.1:8081", false},
		{"127.0.0.1 in two parts", "127.1:8081", false},
		{"another loopback address", "127.0.0.2:8081", false},
		{"127.0.0.1 mapped to IPv6", "[::ffff:127.0.0.1]:8081", false},
		{"127.0.0.1 mapped to IPv6, in hexadecimal", "[::ffff:7f00:1]:8081", false},
		{"the IPv6 loopback address in full", "[0:0:0:0:0:0:0:1]:8081", false},
		{"the IPv6 loopback address with a zone", "[::1%lo]:8081", false},
		{"the IPv6 loopback address without brackets", "::1", false},
		{"the IPv6 loopback address without brackets, with the port", "::1:8081", false},
		{"a name in brackets", "[localhost]:8081", false},
		{"any address", "0.0.0.0:8081", false},
		{"another port", "localhost:8080", false},
		{"the port spelt otherwise", "localhost:08081", false},
		{"an empty port", "localhost:", false},
		{"two ports", "localhost:8081:8081", false},
		{"a user name", "localhost@evil.test:8081", false},
		{"a foreign user name", "evil.test@localhost:8081", false},
		{"two hosts", "localhost:8081, evil.test", false},
		{"a space", "localhost :8081", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(api, "GET", "/api/v1/version", host(tt.host))
			if tt.want && w.Code != 200 {
				t.Errorf("Host %q: %d %s, want 200", tt.host, w.Code, w.Body)
			}
			if !tt.want {
				wantProblem(t, w, 421, "unknown_host")
			}
		})
	}
}

func TestHostOfAnIPv6Listener(t *testing.T) {
	t.Parallel()
	n := newNames("[fd00::1]:8081", nil)
	for field, want := range map[string]bool{"[fd00::1]:8081": true, "[FD00::1]": true, "[::1]:8081": true, "fd00::1": false, "[fd00::2]:8081": false} {
		if got := n.include(field); got != want {
			t.Errorf("Host %q known: %t, want %t", field, got, want)
		}
	}
}

// An address without a host, or none at all, is no name for an empty field.
func TestHostOfNoAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{":8081", "", "8081"} {
		n := newNames(addr, nil)
		for _, field := range []string{"", ".", ":8081", "evil.test"} {
			if n.include(field) {
				t.Errorf("listening on %q, Host %q is known", addr, field)
			}
		}
	}
}

// No field passes that a URL parser takes for another host or port.
func FuzzHost(f *testing.F) {
	for _, s := range []string{"localhost:8081", "[::1]", "127.0.0.1.:8081", "a@localhost", "localhost:8081@evil.test", "[::1]:8081:1"} {
		f.Add(s)
	}
	n := newNames("127.0.0.5:8081", []string{"proxy.example.com"})
	known := []string{"localhost", "127.0.0.1", "::1", "127.0.0.5", "proxy.example.com"}
	f.Fuzz(func(t *testing.T, field string) {
		if !n.include(field) {
			return
		}
		u, err := url.Parse("http://" + field + "/")
		if err != nil {
			t.Fatalf("Host %q passes: %v", field, err)
		}
		name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
		if !slices.Contains(known, name) || u.Port() != "" && u.Port() != "8081" || u.User != nil {
			t.Errorf("Host %q passes as %q port %q", field, name, u.Port())
		}
	})
}

func TestOrigin(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t))
	overTLS := func(r *http.Request) { r.TLS = new(tls.ConnectionState) }
	for _, tt := range []struct {
		name   string
		change []func(*http.Request)
		want   bool
	}{
		{"a program sends none", nil, true},
		{"our own page", []func(*http.Request){with("Origin", "http://localhost:8081"), with("Sec-Fetch-Site", "same-origin")}, true},
		{"our own page, in a browser without Fetch metadata", []func(*http.Request){with("Origin", "http://localhost:8081")}, true},
		{"our own page on the default port", []func(*http.Request){host("localhost"), with("Origin", "http://localhost")}, true},
		{"our own page over TLS", []func(*http.Request){overTLS, with("Origin", "https://localhost:8081")}, true},
		{"an address that was typed", []func(*http.Request){with("Sec-Fetch-Site", "none")}, true},

		{"a foreign page", []func(*http.Request){with("Origin", "https://evil.test"), with("Sec-Fetch-Site", "cross-site")}, false},
		{"a foreign page, in a browser without Fetch metadata", []func(*http.Request){with("Origin", "https://evil.test")}, false},
		{"a foreign page that sends no Origin, such as by a link", []func(*http.Request){with("Sec-Fetch-Site", "cross-site")}, false},
		{"another port of localhost", []func(*http.Request){with("Origin", "http://localhost:3000"), with("Sec-Fetch-Site", "same-site")}, false},
		{"a link from another port of localhost", []func(*http.Request){with("Sec-Fetch-Site", "same-site")}, false},
		{"another name of ours", []func(*http.Request){with("Origin", "http://127.0.0.1:8081")}, false},
		{"a sandboxed frame or a file", []func(*http.Request){with("Origin", "null")}, false},
		{"an empty Origin", []func(*http.Request){with("Origin", "")}, false},
		{"our host without a scheme", []func(*http.Request){with("Origin", "localhost:8081")}, false},
		{"our host with a path", []func(*http.Request){with("Origin", "http://localhost:8081/")}, false},
		{"our host under https, where we speak http", []func(*http.Request){with("Origin", "https://localhost:8081")}, false},
		{"our host under http, where we speak https", []func(*http.Request){overTLS, with("Origin", "http://localhost:8081")}, false},
		{"an origin that begins as ours does", []func(*http.Request){with("Origin", "http://localhost:8081.evil.test")}, false},
		{"an extension", []func(*http.Request){with("Origin", "chrome-extension://abcdefgh")}, false},
		{"two Origins, one of them ours", []func(*http.Request){with("Origin", "http://localhost:8081", "https://evil.test")}, false},
		{"our Origin, yet cross-site", []func(*http.Request){with("Origin", "http://localhost:8081"), with("Sec-Fetch-Site", "cross-site")}, false},
		{"a word that Fetch metadata does not have", []func(*http.Request){with("Sec-Fetch-Site", "same-party")}, false},
		{"two words", []func(*http.Request){with("Sec-Fetch-Site", "none", "cross-site")}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, path := range []string{"/api/v1/version", "/ca.pem", "/proxy.pac"} {
				w := ask(api, "GET", path, tt.change...)
				if tt.want && w.Code != 200 {
					t.Errorf("%s: %d %s, want 200", path, w.Code, w.Body)
				}
				if !tt.want {
					wantProblem(t, w, 403, "foreign_origin")
				}
			}
		})
	}
}

func TestBearer(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t))
	for _, tt := range []struct {
		name   string
		fields []string
		want   bool
	}{
		{"the token", []string{"Bearer " + testToken}, true},
		{"the scheme in small letters", []string{"bearer " + testToken}, true},
		{"the scheme in capitals", []string{"BEARER " + testToken}, true},
		{"more spaces in between", []string{"Bearer   " + testToken}, true},

		{"no field", nil, false},
		{"an empty field", []string{""}, false},
		{"the scheme alone", []string{"Bearer"}, false},
		{"the scheme and a space", []string{"Bearer "}, false},
		{"the token alone", []string{testToken}, false},
		{"another scheme", []string{"Basic " + testToken}, false},
		{"no space in between", []string{"Bearer" + testToken}, false},
		{"a tab in between", []string{"Bearer\t" + testToken}, false},
		{"a space before", []string{" Bearer " + testToken}, false},
		{"a space after", []string{"Bearer " + testToken + " "}, false},
		{"a beginning of the token", []string{"Bearer " + testToken[:len(testToken)-1]}, false},
		{"the token and more", []string{"Bearer " + testToken + "A"}, false},
		{"the token in other case", []string{"Bearer " + strings.ToLower(testToken)}, false},
		{"the token in quotes", []string{`Bearer "` + testToken + `"`}, false},
		{"another token of the same length", []string{"Bearer " + strings.Repeat("A", len(testToken))}, false},
		{"two fields, the first right", []string{"Bearer " + testToken, "Bearer x"}, false},
		{"two fields, the second right", []string{"Bearer x", "Bearer " + testToken}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(api, "GET", "/api/v1/version", with("Authorization", tt.fields...))
			if tt.want && w.Code != 200 {
				t.Errorf("%q: %d %s, want 200", tt.fields, w.Code, w.Body)
			}
			if !tt.want {
				wantProblem(t, w, 401, "token")
			}
		})
	}

	t.Run("the token in the query", func(t *testing.T) {
		t.Parallel()
		wantProblem(t, ask(api, "GET", "/api/v1/version?access_token="+testToken, noToken), 401, "token")
	})
	t.Run("no token was made", func(t *testing.T) {
		t.Parallel()
		o := testOptions(t)
		o.Token = ""
		api := New(o)
		for _, field := range []string{"Bearer ", "Bearer", ""} {
			wantProblem(t, ask(api, "GET", "/api/v1/version", with("Authorization", field)), 401, "token")
		}
	})
}
