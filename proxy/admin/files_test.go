package admin

import (
	"os"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func TestCA(t *testing.T) {
	t.Parallel()
	w := ask(New(testOptions(t)), "GET", "/ca.pem", noToken)
	if got, want := w.Body.String(), "-----BEGIN CERTIFICATE-----\n"; got != want {
		t.Errorf("body %q, want %q", got, want)
	}
	if got := w.Header().Get("Content-Type"); got != "application/x-pem-file" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestPAC(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Sites = func() []config.Site {
		return []config.Site{
			site(t, "shop", "shop.test", "shop.test", "*.shop.test", "bücher.test:8443"),
			site(t, "lab", "lab", "lab", "192.0.2.1", "[2001:db8::1]:8443"),
		}
	}
	w := ask(New(o), "GET", "/proxy.pac", noToken)
	want, err := os.ReadFile("testdata/proxy.pac")
	if err != nil {
		t.Fatal(err)
	}
	if got := w.Body.String(); got != string(want) {
		t.Errorf("testdata/proxy.pac differs from:\n%s", got)
	}
	if got := w.Header().Get("Content-Type"); got != "application/x-ns-proxy-autoconfig" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestPACNamesTheKindOfPort(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		port Listener
		want string
	}{
		{"a plain port", Listener{Addr: "127.0.0.1:8080"}, `var proxy = "PROXY 127.0.0.1:8080";`},
		{"an HTTPS port", Listener{Addr: "[::1]:8443", TLS: true}, `var proxy = "HTTPS [::1]:8443";`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := testOptions(t)
			o.Proxy = func() Listener { return tt.port }
			if got := ask(New(o), "GET", "/proxy.pac", noToken).Body.String(); !strings.Contains(got, tt.want) {
				t.Errorf("no %s in:\n%s", tt.want, got)
			}
		})
	}
}

func TestPACWithoutSites(t *testing.T) {
	t.Parallel()
	if got := string(pac(Listener{Addr: "127.0.0.1:8080"}, nil)); !strings.Contains(got, "var declared = [];") {
		t.Errorf("no sites are:\n%s", got)
	}
}

// Whatever a host or an address holds stays inside its string.
func TestPACEscapes(t *testing.T) {
	t.Parallel()
	const hostile = "a\"; alert(1); //\\\n\r\u2028\u2029</script>`${x}"
	const want = `a\"; alert(1); //\\\n\r\u2028\u2029\u003c/script\u003e` + "`${x}\""
	got := string(pac(Listener{Addr: hostile}, []config.Site{{Patterns: []config.Pattern{{Host: hostile, Port: hostile}}}}))
	if n := strings.Count(got, want); n != 3 {
		t.Errorf("%d strings escaped, want 3:\n%s", n, got)
	}
	if strings.Contains(got, "</script>") || strings.ContainsAny(got, "\r\u2028\u2029") {
		t.Errorf("not escaped:\n%s", got)
	}
}
