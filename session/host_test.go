package session

import (
	"strings"
	"testing"
)

func TestCanonicalHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, host, want string }{
		{"a plain name stays", "shop.example.com", "shop.example.com"},
		{"case is folded", "Shop.EXAMPLE.com", "shop.example.com"},
		{"a final dot counts", "shop.example.com.", "shop.example.com."},
		{"a single label is a host", "localhost", "localhost"},
		{"underscores exist", "my_shop.example.com", "my_shop.example.com"},
		{"hyphens may stand anywhere", "-a--b-.example.com", "-a--b-.example.com"},
		{"an international name becomes its A-label", "Bücher.example", "xn--bcher-kva.example"},
		{"sharp s is not ss", "straße.de", "xn--strae-oqa.de"},
		{"an A-label is checked and kept", "XN--bcher-kva.example", "xn--bcher-kva.example"},
		{"full-width letters and dots are mapped", "ｓｈｏｐ。example", "shop.example"},
		{"what is no UTF-8 is no host", "\x80", ""},
		{"IPv4 stays", "127.0.0.1", "127.0.0.1"},
		{"IPv6 loses its brackets", "[::1]", "::1"},
		{"IPv6 without brackets", "2001:DB8:0::1", "2001:db8::1"},
		{"a name may begin with a number", "1.example", "1.example"},
		{"a name may end in letters and digits", "host1", "host1"},

		{"nothing is no host", "", ""},
		{"a dot is no host", ".", ""},
		{"no leading dot", ".example.com", ""},
		{"no empty label", "a..example.com", ""},
		{"no two final dots", "example.com..", ""},
		{"no port", "example.com:443", ""},
		{"no port behind IPv6", "[::1]:443", ""},
		{"no zone", "fe80::1%eth0", ""},
		{"no half a bracket", "[::1", ""},
		{"no spaces", "exam ple.com", ""},
		{"no escapes", "ex%61mple.com", ""},
		{"no user", "a@example.com", ""},
		{"no path", "example.com/x", ""},
		{"no control characters", "example.com\r\n", ""},
		{"no broken A-label", "xn--a.example", ""},
		{"no short IPv4", "127.1", ""},
		{"no IPv4 as one number", "2130706433", ""},
		{"no hexadecimal IPv4", "0x7f.0.0.1", ""},
		{"no name that ends in a number", "example.1", ""},
		{"no label over 63 bytes", strings.Repeat("a", 64) + ".example", ""},
		{"no name over 253 bytes", strings.Repeat("a.", 127) + "example", ""},
	} {
		got, ok := CanonicalHost(tt.host)
		if !ok {
			got = ""
		}
		if got != tt.want {
			t.Errorf("%s: CanonicalHost(%q) = %q, %t; want %q", tt.name, tt.host, got, ok, tt.want)
		}
	}
}

func TestCanonicalHostAllocatesNothingForCanonicalHosts(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { CanonicalHost("www.shop.example.com") }); n != 0 {
		t.Errorf("%g allocations, want 0", n)
	}
}

func TestSameSiteHosts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, a, b string
		want       bool
	}{
		{"a host is its own site", "a.shop.test", "a.shop.test", true},
		{"siblings are", "a.shop.test", "b.c.shop.test", true},
		{"parent and child are", "shop.test", "a.shop.test", true},
		{"registrable domains differ", "shop.test", "shop.example", false},
		{"a public suffix joins nobody", "a.co.uk", "b.co.uk", false},
		{"nor does a private suffix", "alice.github.io", "bob.github.io", false},
		{"a suffix and a name under it are two", "github.io", "alice.github.io", false},
		{"single labels are alone", "localhost", "a.localhost", false},
		{"addresses are alone", "10.0.0.1", "20.0.0.1", false},
		{"an address is itself", "::1", "::1", true},
		{"the final dot counts", "shop.test", "shop.test.", false},
		{"and holds among those that have it", "a.shop.test.", "b.shop.test.", true},
		{"endings are no domains", "evilshop.test", "shop.test", false},
	} {
		if got := SameSiteHosts(tt.a, tt.b); got != tt.want {
			t.Errorf("%s: SameSiteHosts(%q, %q) = %t", tt.name, tt.a, tt.b, got)
		}
		if got := SameSiteHosts(tt.b, tt.a); got != tt.want {
			t.Errorf("%s: SameSiteHosts(%q, %q) = %t", tt.name, tt.b, tt.a, got)
		}
	}
}
