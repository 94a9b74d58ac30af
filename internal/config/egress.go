package config

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// Destination is one entry of egress.allow or egress.deny: a network, or hosts.
type Destination struct {
	Net  netip.Prefix // not valid: hosts
	Host string       // a glob over canonical hosts, see [session.Glob]; "" a network
}

func (j *judge) egress() {
	e := &j.c.Egress
	e.Allowed = j.destinations("egress.allow", e.Allow)
	e.Denied = j.destinations("egress.deny", e.Deny)
}

func (j *judge) destinations(at string, entries []string) []Destination {
	var all []Destination
	for i, entry := range entries {
		d, message, remedy := parseDestination(entry)
		if message != "" {
			j.at(fmt.Sprintf("%s[%d]", at, i), message, remedy)
			continue
		}
		all = append(all, d)
	}
	return all
}

// ParseDestination reads 10.0.0.0/8, 10.0.0.5, intranet or *.corp.example.com.
func ParseDestination(s string) (Destination, error) {
	d, message, remedy := parseDestination(s)
	if message != "" {
		return d, fmt.Errorf("destination %q: %s: %s", s, message, remedy)
	}
	return d, nil
}

func parseDestination(s string) (d Destination, message, remedy string) {
	if a, err := netip.ParseAddr(strings.Trim(s, "[]")); err == nil && a.Zone() == "" {
		a = a.Unmap()
		return Destination{Net: netip.PrefixFrom(a, a.BitLen())}, "", ""
	}
	if strings.Contains(s, "://") {
		return d, "a destination is no URL", "write " + hostIn(s)
	}
	if strings.Contains(s, "/") {
		p, message, remedy := parseNetwork(s)
		return Destination{Net: p}, message, remedy
	}
	host := strings.TrimSuffix(s, ".")
	switch {
	case strings.Trim(host, "*.") == "":
		return d, "this is every host", "write mode: open to lift the rules, or undeclared: refuse to serve declared sites only"
	case strings.Trim(host, "0123456789.*") == "":
		return d, "a star stands in names, not in addresses", "write networks like 10.0.0.0/8"
	case strings.Contains(host, ":"):
		return d, "a destination has no port", "write the host alone"
	}
	// A star may stand for anything, so one letter shows what the rest is.
	if _, ok := session.CanonicalHost(strings.ReplaceAll(host, "*", "x")); !ok {
		return d, "this is neither a network nor a host", "write one like 10.0.0.0/8, intranet or \"*.corp.example.com\""
	}
	if !strings.Contains(host, "*") {
		host, _ = session.CanonicalHost(host)
	}
	return Destination{Host: strings.ToLower(host)}, "", ""
}

// parseNetwork reads a CIDR prefix.
func parseNetwork(s string) (p netip.Prefix, message, remedy string) {
	p, err := netip.ParsePrefix(s)
	addr, addrErr := netip.ParseAddr(s)
	switch {
	case addrErr == nil:
		return p, "this is an address, not a network", fmt.Sprintf("write %s/%d for it alone", addr, addr.BitLen())
	case err != nil || p.Addr().Is4In6():
		return p, "this is no network", "write them like 10.0.0.0/8 or fd00::/8"
	case p != p.Masked():
		return p, "this network's address has bits beyond its length", "write " + p.Masked().String()
	}
	return p, "", ""
}
