package config

import "testing"

func TestReceives(t *testing.T) {
	site := func(name string, hosts ...string) Site {
		s := Site{Name: name, Hosts: hosts}
		for _, h := range hosts {
			p, err := ParsePattern(h)
			if err != nil {
				t.Fatal(err)
			}
			s.Patterns = append(s.Patterns, p)
		}
		return s
	}
	sites := []Site{
		site("shop", "shop.test", "*.shop.test", "192.0.2.1", "intranet:8443"),
		site("bank", "bank.shop.test", "*.pay.shop.test"),
		site("www", "www.blog.test"),
	}
	for _, tt := range []struct {
		name, site, domain string
		hostOnly, want     bool
	}{
		{"a declared host", "shop", "shop.test", true, true},
		{"its domain", "shop", "shop.test", false, true},
		{"a host below a wildcard", "shop", "a.b.shop.test", true, true},
		{"a domain below a wildcard", "shop", "a.shop.test", false, true},
		{"an address", "shop", "192.0.2.1", true, true},
		{"a host of one port", "shop", "intranet", true, true},
		{"a host with its final dot", "shop", "www.shop.test.", true, true},
		{"a domain above a declared host", "www", "blog.test", false, true},
		{"a host above a declared host", "www", "blog.test", true, false},
		{"a sibling of a declared host", "www", "api.blog.test", false, false},
		{"a host that another site declares", "shop", "bank.shop.test", true, false},
		{"by a longer wildcard", "shop", "a.pay.shop.test", true, false},
		{"that site itself", "bank", "a.pay.shop.test", true, true},
		{"the host that a wildcard is below", "bank", "pay.shop.test", true, false},
		{"its domain, which reaches those below", "bank", "pay.shop.test", false, true},
		{"a domain above it, too", "bank", "shop.test", false, true},
		{"a foreign host", "shop", "evil.test", true, false},
		{"one that ends alike", "shop", "evilshop.test", true, false},
		{"a public suffix", "shop", "test", false, true}, // a jar takes no such cookie
		{"an unknown site", "other", "shop.test", true, false},
	} {
		if got := Receives(sites, tt.site, tt.domain, tt.hostOnly); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
}
