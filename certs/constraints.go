package certs

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
)

// The subtrees that hold every name of their kind.
var (
	allIPv4 = netip.MustParsePrefix("0.0.0.0/0")
	allIPv6 = netip.MustParsePrefix("::/0")
)

// constrain limits the authority that c describes to the hosts of the patterns
// (RFC 5280 §4.2.1.10); nil sets no limit. A name constraint binds only names
// of its kind, so a kind without a permitted name is excluded as a whole, as
// the CA/Browser Forum has it for constrained authorities (Baseline
// Requirements §7.1.2.5.2).
func constrain(c *x509.Certificate, patterns []string) error {
	if patterns == nil {
		return nil
	}
	var ipv4, ipv6 bool
	for _, pattern := range patterns {
		host := pattern
		if h, _, err := net.SplitHostPort(pattern); err == nil {
			host = h
		}
		if ip, err := netip.ParseAddr(host); err == nil {
			ip = ip.Unmap().WithZone("") // as x509 writes it into a SAN
			ipv4, ipv6 = ipv4 || ip.Is4(), ipv6 || ip.Is6()
			c.PermittedIPRanges = append(c.PermittedIPRanges, ipNet(netip.PrefixFrom(ip, ip.BitLen())))
			continue
		}
		name := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(host, "*."), ".")) // a constraint covers what is below it
		if !isName(name) {
			return fmt.Errorf("constrain to %q: neither a host name nor an IP address", pattern)
		}
		c.PermittedDNSDomains = append(c.PermittedDNSDomains, name)
	}
	if len(c.PermittedDNSDomains) == 0 {
		c.ExcludedDNSDomains = []string{""} // any name ends in it
	}
	if !ipv4 {
		c.ExcludedIPRanges = append(c.ExcludedIPRanges, ipNet(allIPv4))
	}
	if !ipv6 {
		c.ExcludedIPRanges = append(c.ExcludedIPRanges, ipNet(allIPv6))
	}
	c.PermittedDNSDomainsCritical = true // marks the whole extension
	return nil
}

// constraints puts the limits of c into words: equal words, equal limits.
func constraints(c *x509.Certificate) string {
	permitted := subtrees(c.PermittedDNSDomains, c.PermittedIPRanges)
	excluded := subtrees(c.ExcludedDNSDomains, c.ExcludedIPRanges)
	switch {
	case permitted == "" && excluded == "":
		return "any host"
	case permitted == "":
		return "any host but " + excluded
	case excluded == "":
		return "only " + permitted
	}
	return "only " + permitted + " and never " + excluded
}

// subtrees lists names and addresses in order, each once.
func subtrees(names []string, ranges []*net.IPNet) string {
	var all []string
	for _, name := range names {
		if name == "" {
			name = "DNS names"
		}
		all = append(all, name)
	}
	for _, r := range ranges {
		all = append(all, r.String())
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
