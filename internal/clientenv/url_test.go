package clientenv

import (
	"net/url"
	"strings"
	"testing"
)

func TestProxyURL(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		p    proxyURL
		want string
	}{
		{"nobody", proxyURL{addr: "127.0.0.1:8080"}, "http://127.0.0.1:8080"},
		{"an HTTPS proxy", proxyURL{addr: "proxy.example.com:8443", tls: true}, "https://proxy.example.com:8443"},
		{"an IPv6 address", proxyURL{addr: "[::1]:8080", user: "a", password: "b"}, "http://a:b@[::1]:8080"},
		{"a user without a password", proxyURL{addr: "h:1", user: "run-session-qa1"}, "http://run-session-qa1:x@h:1"},
		{"a password with all that means something", proxyURL{addr: "h:1", user: "a~b.c", password: "p@:/?#%+& é$"}, "http://a~b.c:p%40%3A%2F%3F%23%25%2B%26%20%C3%A9%24@h:1"},
	} {
		got := tt.p.String()
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		u, err := url.Parse(got)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if password, _ := u.User.Password(); tt.p.password != "" && password != tt.p.password {
			t.Errorf("%s: reads back as the password %q", tt.name, password)
		}
	}
}

func TestParseProxy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ in, want string }{
		{"127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
		{"https://proxy.example.com:8443", "https://proxy.example.com:8443"},
		{":8080", "http://127.0.0.1:8080"},
		{"0.0.0.0:8080", "http://127.0.0.1:8080"},
		{"[::]:8080", "http://[::1]:8080"},
		{"[fe80::1]:8080", "http://[fe80::1]:8080"},
		{"127.0.0.1", `"127.0.0.1" is no address: write HOST:PORT`},
		{"", `"" is no address: write HOST:PORT`},
		{"::1", `"::1" is no address: write HOST:PORT`},
		{"user:secret@h:1", `no address: write HOST:PORT`},
		{"socks5://h:1", `no address: write HOST:PORT`},
		{"h:http", `"h:http" has no port of 1 to 65535`},
		{"h:0", `"h:0" has no port of 1 to 65535`},
		{"h:65536", `"h:65536" has no port of 1 to 65535`},
	} {
		p, err := parseProxy(tt.in)
		got := p.String()
		if err != nil {
			got = err.Error()
		}
		if got != tt.want && (err == nil || !strings.HasSuffix(got, tt.want)) {
			t.Errorf("%q: %s, want %s", tt.in, got, tt.want)
		}
	}
}

func TestUserName(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ client, worker, session, want string }{
		{"", "", "", ""},
		{"crawler", "", "", "crawler"},
		{"", "w1", "", "run-worker-w1"},
		{"", "", "qa1", "run-session-qa1"},
		{"crawler", "w1", "qa1", "crawler-worker-w1-session-qa1"},
	} {
		if got := userName(tt.client, tt.worker, tt.session); got != tt.want {
			t.Errorf("client %q, worker %q, session %q: %q, want %q", tt.client, tt.worker, tt.session, got, tt.want)
		}
	}
}

func TestIDs(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{
		"a":                     "",
		"A-Z.a_z~0":             "",
		"worker-1":              "",
		"sessions":              "",
		strings.Repeat("a", 64): "",
		strings.Repeat("a", 65): "64 of the characters",
		"":                      "64 of the characters",
		"a b":                   "64 of the characters",
		"a:b":                   "64 of the characters",
		"a\n":                   "64 of the characters",
		"é":                     "64 of the characters",
		"a-session-b":           "-session- parts a user name",
		"a-worker-b":            "-worker- parts a user name",
		"a-session":             "-session- parts a user name",
		"a-worker":              "-worker- parts a user name",
	} {
		err := checkID("--client", id)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "--client ")) {
			t.Errorf("%q: %v, want %q", id, err, want)
		}
	}
}
