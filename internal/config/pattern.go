package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"

	"github.com/sessionproxy/sessionproxy/session"
)

// Pattern is one entry of a site's hosts. Equal patterns are equal values.
type Pattern struct {
	Host     string // canonical, see [session.CanonicalHost]; without "*."
	Wildcard bool   // hosts at any depth below Host, not Host itself
	Port     string // decimal; "" every port
}

// ParsePattern reads a host pattern: shop.test, *.shop.test, intranet,
// 192.0.2.1, [2001:db8::1], each with a port where it binds to one.
func ParsePattern(s string) (Pattern, error) {
	p, message, remedy := parsePattern(s)
	if message != "" {
		return Pattern{}, fmt.Errorf("host pattern %q: %s: %s", s, message, remedy)
	}
	return p, nil
}

func parsePattern(s string) (p Pattern, message, remedy string) {
	switch {
	case s == "*", strings.HasPrefix(s, "*:"):
		return p, "this is every host", "name the hosts that are shared: nothing else is intercepted"
	case strings.Contains(s, "/"):
		return p, "a host is no URL", "write " + hostIn(s)
	}
	host, port, message, remedy := splitPort(s)
	if message != "" {
		return p, message, remedy
	}
	p.Port = port
	host, p.Wildcard = strings.CutPrefix(host, "*.")
	if strings.Contains(host, "*") {
		return p, "a star stands for whole labels at the beginning", `write "*.shop.example.com" for all hosts below it, or name the hosts`
	}
	if undotted, dotted := strings.CutSuffix(host, "."); dotted {
		return p, "a host is declared without its final dot", "write " + undotted
	}
	canonical, ok := session.CanonicalHost(host)
	if !ok || !utf8.ValidString(host) {
		return p, "this is no host", `write a name, an IP address, or "*.name"`
	}
	p.Host = canonical
	if p.Wildcard && p.IsIP() {
		return p, "an IP address has no subdomains", "write " + p.Host
	}
	if p.Wildcard && isRegistry(p.Host) {
		return p, "everybody's hosts are below " + p.Host, "name a domain that is yours, such as shop." + p.Host
	}
	return p, "", ""
}

// splitPort parts host and port. IPv6 addresses stand in brackets, or bare
// where there is no port.
func splitPort(s string) (host, port, message, remedy string) {
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" {
		return s, "", "", ""
	}
	if inner, ok := strings.CutPrefix(s, "["); ok && strings.HasSuffix(inner, "]") {
		return strings.TrimSuffix(inner, "]"), "", "", ""
	}
	if !strings.Contains(s, ":") {
		return s, "", "", ""
	}
	host, port, err := net.SplitHostPort(s)
	if err != nil {
		return "", "", "this is no host", "write HOST or HOST:PORT, an IPv6 address with a port in brackets"
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return "", "", "this is no port", "a port is 1 to 65535; without one every port counts"
	}
	return host, strconv.FormatUint(n, 10), "", ""
}

// hostIn is the host of a URL, for a remedy.
func hostIn(s string) string {
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	if u, err := url.Parse(s); err == nil && u.Host != "" {
		return u.Host
	}
	return "its host alone"
}

// IsIP says whether the host is an IP address.
func (p Pattern) IsIP() bool {
	_, err := netip.ParseAddr(p.Host)
	return err == nil
}

// isRegistry says whether a registry gives out the names below host: com, co.uk.
// Names that are in no public use, such as test, and those of a home network
// (RFC 8375) are whose network it is.
func isRegistry(host string) bool {
	suffix, icann := publicsuffix.PublicSuffix(host)
	return icann && suffix == host && host != "home.arpa"
}

// Matches says whether the pattern covers a canonical host at a port.
func (p Pattern) Matches(host, port string) bool {
	if p.Port != "" && p.Port != port {
		return false
	}
	if !p.Wildcard {
		return host == p.Host
	}
	below, ok := strings.CutSuffix(host, p.Host)
	return ok && len(below) > 1 && strings.HasSuffix(below, ".")
}

// String is the pattern in its canonical spelling.
func (p Pattern) String() string {
	s := p.Host
	if p.Port != "" {
		s = net.JoinHostPort(s, p.Port)
	}
	if p.Wildcard {
		s = "*." + s
	}
	return s
}
