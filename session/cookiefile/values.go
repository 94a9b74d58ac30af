package cookiefile

import (
	"math"
	"net/netip"
	"strings"
	"time"
	"unicode/utf8"

	"golang.org/x/net/publicsuffix"

	"github.com/sessionproxy/sessionproxy/session"
)

// setDomain sets c's domain as a file has it. A leading dot says that
// subdomains count, and so does subdomains.
func setDomain(c *session.Cookie, domain string, subdomains bool) {
	name, dotted := strings.CutPrefix(domain, ".")
	c.Domain, c.HostOnly = name, !dotted && !subdomains
	if host, ok := session.CanonicalHost(name); ok {
		c.Domain = host
	}
	if _, err := netip.ParseAddr(c.Domain); err == nil {
		c.HostOnly = true // an address has no subdomains
	}
	if c.Path == "" {
		c.Path = "/"
	}
}

// secondsTime is the end of life that so many seconds since 1970 are: the zero
// time, of a session cookie, up to 0.
func secondsTime(seconds float64) time.Time {
	const latest = 253402300799 // of the year 9999, the last that all formats can say
	if !(seconds > 0) {
		return time.Time{}
	}
	return time.UnixMicro(int64(math.Round(min(seconds, latest) * 1e6))).UTC()
}

// siteOf is the site of a page on host, as a partition is named by it: the HTML
// standard's schemeful site. Partitioned cookies are Secure.
func siteOf(host string) string {
	if site, err := publicsuffix.EffectiveTLDPlusOne(host); err == nil {
		host = site
	}
	return "https://" + inURL(host)
}

// inURL is a canonical host as a URL has it.
func inURL(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

func validText(s string) bool { return utf8.ValidString(s) }

// priorityOf spells a Priority attribute as the DevTools Protocol does; "" for
// Medium, which is what a cookie without one has.
func priorityOf(s string) string {
	for _, p := range []string{"Low", "High"} {
		if strings.EqualFold(s, p) {
			return p
		}
	}
	return ""
}
