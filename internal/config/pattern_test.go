package config

import "testing"

func TestParsePattern(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		want       Pattern
	}{
		{"a name", "shop.example.com", Pattern{Host: "shop.example.com"}},
		{"a name has no case", "SHOP.Example.com", Pattern{Host: "shop.example.com"}},
		{"a name in its own script", "müller.example", Pattern{Host: "xn--mller-kva.example"}},
		{"a single label", "intranet", Pattern{Host: "intranet"}},
		{"a label with an underscore", "my_shop.test", Pattern{Host: "my_shop.test"}},
		{"all below a name", "*.shop.example.com", Pattern{Host: "shop.example.com", Wildcard: true}},
		{"all below a single label", "*.test", Pattern{Host: "test", Wildcard: true}},
		{"a name at a port", "shop.test:8443", Pattern{Host: "shop.test", Port: "8443"}},
		{"a port has one spelling", "shop.test:0443", Pattern{Host: "shop.test", Port: "443"}},
		{"all below a name at a port", "*.shop.test:8443", Pattern{Host: "shop.test", Wildcard: true, Port: "8443"}},
		{"an IPv4 address", "192.0.2.1", Pattern{Host: "192.0.2.1"}},
		{"an IPv4 address at a port", "192.0.2.1:80", Pattern{Host: "192.0.2.1", Port: "80"}},
		{"a bare IPv6 address", "2001:DB8:0::1", Pattern{Host: "2001:db8::1"}},
		{"an IPv6 address in brackets", "[::1]", Pattern{Host: "::1"}},
		{"an IPv6 address at a port", "[::1]:443", Pattern{Host: "::1", Port: "443"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParsePattern(tt.text)
			if err != nil || got != tt.want {
				t.Errorf("%q: %+v, %v, want %+v", tt.text, got, err, tt.want)
			}
			if again, err := ParsePattern(got.String()); err != nil || again != got {
				t.Errorf("its spelling %q: %+v, %v", got.String(), again, err)
			}
		})
	}
}

func TestParsePatternRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"", ".", "*", "*:443", "**.shop.test", "*.*.test", "shop.*", "sh*p.test", "*shop.test", "*.", "*.:443",
		"https://shop.test", "shop.test/", "//shop.test", "shop.test:", "shop.test:0", "shop.test:65536", "shop.test:-1", "shop.test:https",
		"[::1", "::1]", "[::1]:", "[shop.test", "fe80::1%eth0", "[fe80::1%25eth0]:443", "*.[::1]", "*.::1", "*.10.0.0.1",
		"shop.test.", "shop..test", "shop test", "user@shop.test", "shop.test?x", "1.2.3.256", "shop.test\n",
	} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q is %+v, want an error", text, p)
		}
	}
}

func TestPatternMatches(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, pattern, host, port string
		want                      bool
	}{
		{"a name matches itself at any port", "shop.test", "shop.test", "8443", true},
		{"a name has no subdomains", "shop.test", "www.shop.test", "443", false},
		{"a wildcard takes any depth", "*.shop.test", "a.b.shop.test", "443", true},
		{"a wildcard leaves the name itself", "*.shop.test", "shop.test", "443", false},
		{"a wildcard ends at a dot", "*.shop.test", "eshop.test", "443", false},
		{"a wildcard needs a label", "*.shop.test", ".shop.test", "443", false},
		{"a port binds", "shop.test:8443", "shop.test", "443", false},
		{"a port binds a wildcard", "*.shop.test:8443", "www.shop.test", "8443", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p, err := ParsePattern(tt.pattern)
			if err != nil {
				t.Fatal(err)
			}
			if got := p.Matches(tt.host, tt.port); got != tt.want {
				t.Errorf("%s at %s:%s is %t, want %t", tt.pattern, tt.host, tt.port, got, tt.want)
			}
		})
	}
}

func FuzzParsePattern(f *testing.F) {
	for _, text := range []string{"*.shop.test:8443", "[::1]:443", "müller.example", "2001:db8::1", "shop.test."} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, err := ParsePattern(text)
		if err != nil {
			return
		}
		if again, err := ParsePattern(p.String()); err != nil || again != p {
			t.Errorf("%q is %+v, spelt %q is %+v, %v", text, p, p.String(), again, err)
		}
	})
}
