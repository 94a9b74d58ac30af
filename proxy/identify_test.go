package proxy

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
)

// A password that others could read on its way opens nothing, right or wrong.
func TestPasswordsInClearAreRefused(t *testing.T) {
	t.Parallel()
	m := newMetrics(prometheus.NewRegistry())
	declared, err := compile(&config.Config{Clients: []config.Client{{Name: "crawler", Password: "s3cret"}}}, nil, m)
	if err != nil {
		t.Fatal(err)
	}
	anybody, err := compile(&config.Config{}, nil, m)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{passwords: password.NewVerifier(), browsers: newMemory(), metrics: m}
	for _, tt := range []struct {
		name    string
		rules   *rules
		listen  config.Listen
		local   string
		pass    string
		refused string
	}{
		{"on loopback", declared, config.Listen{}, "127.0.0.1", "s3cret", ""},
		{"on IPv6 loopback", declared, config.Listen{}, "::1", "s3cret", ""},
		{"off loopback", declared, config.Listen{}, "10.0.0.2", "s3cret", "password_in_clear"},
		{"off loopback, and wrong", declared, config.Listen{}, "10.0.0.2", "guess", "password_in_clear"},
		{"a token", declared, config.Listen{}, "10.0.0.2", "eyJh.e30.x", "password_in_clear"},
		{"no password", declared, config.Listen{}, "10.0.0.2", "", "credentials"},
		{"by TLS", declared, config.Listen{TLS: true}, "10.0.0.2", "s3cret", ""},
		{"on a private network", declared, config.Listen{PlainAuth: true}, "10.0.0.2", "s3cret", ""},
		{"a port that has a client, where passwords say nothing", declared, config.Listen{Client: "crawler"}, "10.0.0.2", "x", ""},
		{"a proxy without clients, the same", anybody, config.Listen{}, "10.0.0.2", "x", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodGet, "http://shop.test/", nil)
			r.SetBasicAuth("crawler", tt.pass)
			r.Header["Proxy-Authorization"] = r.Header["Authorization"]
			r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(tt.local), Port: 8080}))
			_, ref := p.identify(tt.rules, &tt.listen, r)
			code := ""
			if ref != nil {
				code = ref.code
			}
			if code != tt.refused {
				t.Errorf("refused with %q, want %q", code, tt.refused)
			}
		})
	}
}
