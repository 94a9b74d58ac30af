package session

import (
	"net/netip"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/idna"
	"golang.org/x/net/publicsuffix"
)

// lookup maps a host as the URL standard does ("domain to ASCII", beStrict
// false), so that hosts with underscores or odd hyphens, which exist, work.
var lookup = idna.New(
	idna.MapForLookup(),
	idna.BidiRule(),
	idna.CheckHyphens(false),
	idna.StrictDomainName(false),
	idna.Transitional(false),
)

// CanonicalHost returns host in the form in which hosts are compared: the
// A-label in lower case, IPv6 without brackets, a final dot kept. It reports
// false where host is no host, which includes names whose last label is a
// number without being an IPv4 address: what they mean differs between
// clients. The host carries no port.
func CanonicalHost(host string) (string, bool) {
	if strings.IndexByte(host, ':') >= 0 {
		return canonicalIPv6(host)
	}
	ascii, lower, puny := scanHost(host)
	if !ascii && !utf8.ValidString(host) {
		return "", false // idna takes such bytes for a character
	}
	if !ascii || puny {
		var err error
		if host, err = lookup.ToASCII(host); err != nil {
			return "", false
		}
	} else if !lower {
		host = strings.ToLower(host)
	}
	return host, validHost(host)
}

func canonicalIPv6(host string) (string, bool) {
	if rest, ok := strings.CutPrefix(host, "["); ok {
		if host, ok = strings.CutSuffix(rest, "]"); !ok {
			return "", false
		}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil || addr.Zone() != "" {
		return "", false
	}
	return addr.String(), true
}

// scanHost tells whether host may stay as it is: ASCII, lower case, and no
// label that claims to be an A-label and would have to be checked.
func scanHost(host string) (ascii, lower, puny bool) {
	ascii, lower = true, true
	for i := range len(host) {
		switch c := host[i]; {
		case c >= 0x80:
			ascii = false
		case 'A' <= c && c <= 'Z':
			lower = false
		case c == '-':
			puny = puny || i >= 3 && host[i-1] == '-' && asciiEqualFold(host[i-3:i-1], "xn")
		}
	}
	return ascii, lower, puny
}

// validHost checks a name of ASCII labels: no empty label but the one after a
// final dot, and none of the URL standard's forbidden domain code points.
func validHost(host string) bool {
	name := strings.TrimSuffix(host, ".")
	if name == "" || len(name) > 253 {
		return false
	}
	start := 0
	for i := range len(name) + 1 {
		if i < len(name) && name[i] != '.' {
			if forbidden(name[i]) {
				return false
			}
			continue
		}
		if i == start || i-start > 63 {
			return false
		}
		start = i + 1
	}
	if last := name[strings.LastIndexByte(name, '.')+1:]; '0' <= last[0] && last[0] <= '9' && isNumber(last) {
		addr, err := netip.ParseAddr(host)
		return err == nil && addr.Is4()
	}
	return true
}

// forbidden: RFC 3986 and the URL standard's forbidden domain code points.
func forbidden(c byte) bool {
	return c <= ' ' || c == 0x7f || strings.IndexByte("\"#%/:<>?@[\\]^`{|}", c) >= 0
}

// isNumber is the URL standard's test for a label that would be read as a part
// of an IPv4 address: digits, or 0x and hexadecimal digits.
func isNumber(label string) bool {
	digits := "0123456789"
	if len(label) >= 2 && label[0] == '0' && label[1]|0x20 == 'x' {
		label, digits = label[2:], "0123456789abcdef"
	}
	return strings.Trim(label, digits) == ""
}

// isIP says whether a canonical host is an IP address. No name ends in a digit
// label, see validHost.
func isIP(host string) bool {
	if strings.IndexByte(host, ':') >= 0 {
		return true
	}
	last := host[strings.LastIndexByte(host, '.')+1:]
	return last != "" && '0' <= last[0] && last[0] <= '9' && isNumber(last)
}

// SameSiteHosts says whether two canonical hosts are one site: equal, or equal
// registrable domains ("site" in the HTML standard, without the scheme).
func SameSiteHosts(a, b string) bool {
	if a == b {
		return true
	}
	ra := registrable(a)
	return ra != "" && ra == registrable(b)
}

// registrable is the registrable domain of a canonical host, with its final
// dot: "" for IP addresses, single labels and public suffixes.
func registrable(host string) string {
	if isIP(host) {
		return ""
	}
	name := strings.TrimSuffix(host, ".")
	suffix, _ := publicsuffix.PublicSuffix(name)
	if len(suffix) >= len(name) {
		return ""
	}
	return host[strings.LastIndexByte(name[:len(name)-len(suffix)-1], '.')+1:]
}

// domainMatch is RFC 6265bis section 5.1.3: host is domain or lies under it.
// Both are canonical, so that an address lies under nothing: no other name ends
// in a number, see validHost.
func domainMatch(host, domain string) bool {
	n := len(host) - len(domain)
	return n == 0 && host == domain || n > 1 && domain != "" && host[n-1] == '.' && host[n:] == domain
}

// asciiEqualFold compares without regard to ASCII case. strings.EqualFold
// would also take the long s for an s, and the Kelvin sign for a k.
func asciiEqualFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		x, y := a[i], b[i]
		if x != y && (x|0x20 != y|0x20 || x|0x20 < 'a' || x|0x20 > 'z') {
			return false
		}
	}
	return true
}
