package session

import (
	"math"
	"strings"
	"time"
)

// Setting is the request whose response carries a Set-Cookie line.
type Setting struct {
	Host   string // canonical, as verified
	Path   string // of the request, as sent: decides the default path
	Secure bool   // the response came over TLS
	// CrossSite: a foreign page made the request (see [WhoseRequest]);
	// a Partitioned cookie is refused then.
	CrossSite bool
}

// Limits of RFC 6265bis sections 5.5 and 5.6.
const (
	maxNameValue      = 4096
	maxAttributeValue = 1024
	maxLife           = 400 * 24 * time.Hour
)

// attributes are the values of a line's attributes: the last of each name wins.
type attributes struct {
	domain, path, expires, maxAge, sameSite, priority string

	secure, httpOnly, partitioned bool
}

// ParseSetCookie reads one Set-Cookie line by RFC 6265bis sections 5.6 and
// 5.7, as far as the jar is not needed for it. Where Chromium is stricter or
// more lenient, Chromium is followed, since sites are tested with it: a tab
// inside a value refuses the line, and so does a nameless cookie whose value
// would read as a name and a value; Max-Age may have a plus sign. A refused
// line comes back with the reason; the line itself appears in no error.
func ParseSetCookie(line string, s Setting, now time.Time) (Cookie, error) {
	pair, rest, _ := strings.Cut(line, ";")
	name, value, named := strings.Cut(pair, "=")
	if !named {
		name, value = "", pair
	}
	c := Cookie{Name: trimSpace(name), Value: trimSpace(value)}
	if c.Name == "" && c.Value == "" {
		return Cookie{}, RefusedEmpty
	}
	a, ok := parseAttributes(rest)
	if !ok {
		return Cookie{}, RefusedControl
	}

	c.Domain, c.HostOnly, ok = cookieDomain(a.domain, s.Host)
	if !ok {
		return Cookie{}, RefusedDomain
	}
	c.Path = a.path
	if c.Path == "" || c.Path[0] != '/' {
		c.Path = defaultPath(s.Path)
	}
	c.Secure, c.HTTPOnly, c.Partitioned = a.secure, a.httpOnly, a.partitioned
	c.SameSite, c.Priority = parseSameSite(a.sameSite), a.priority
	c.Expires = a.expiry(now)
	c.Created, c.Used = now, now

	switch {
	case c.Secure && !s.Secure:
		return Cookie{}, RefusedSecure
	// The prefix promises that the server said Path=/, not only that it is the
	// default, and named no domain; an address may name itself.
	case hasPrefix(c.Name, "__Host-") && (a.path != "/" || a.domain != "" && !(isIP(s.Host) && a.domain == hostText(s.Host))):
		return Cookie{}, RefusedPrefix
	case c.Partitioned && s.CrossSite:
		return Cookie{}, RefusedPartitioned
	}
	if err := c.Check(); err != nil {
		return Cookie{}, err
	}
	return c, nil
}

// parseAttributes reads what follows the first semicolon. ok is false where an
// attribute, known or not, has a control character inside.
func parseAttributes(rest string) (a attributes, ok bool) {
	for rest != "" {
		var av string
		av, rest, _ = strings.Cut(rest, ";")
		name, value, _ := strings.Cut(av, "=")
		name, value = trimSpace(name), trimSpace(value)
		if hasControl(name) || hasControl(value) {
			return a, false
		}
		if len(value) > maxAttributeValue {
			continue
		}
		a.set(name, value)
	}
	return a, true
}

func (a *attributes) set(name, value string) {
	switch {
	case asciiEqualFold(name, "Path"):
		a.path = value
	case asciiEqualFold(name, "Domain"):
		a.domain = value
	case asciiEqualFold(name, "Secure"):
		a.secure = true
	case asciiEqualFold(name, "HttpOnly"):
		a.httpOnly = true
	case asciiEqualFold(name, "SameSite"):
		a.sameSite = value
	case asciiEqualFold(name, "Max-Age"):
		a.maxAge = value
	case asciiEqualFold(name, "Expires"):
		a.expires = value
	case asciiEqualFold(name, "Priority"):
		a.priority = value
	case asciiEqualFold(name, "Partitioned"):
		a.partitioned = true
	}
}

// expiry is the end of the cookie's life: Max-Age beats Expires, and where
// neither can be read the cookie is a session cookie.
func (a *attributes) expiry(now time.Time) time.Time {
	if seconds, ok := parseMaxAge(a.maxAge); ok {
		if seconds <= 0 {
			return past
		}
		return capped(now.Add(time.Duration(min(seconds, int64(maxLife/time.Second)))*time.Second), now)
	}
	if t, ok := parseDate(a.expires); ok {
		return capped(t, now)
	}
	return time.Time{}
}

// past deletes: the zero time would be a session cookie.
var past = time.Unix(0, 0).UTC()

// capped bounds a cookie's life: RFC 6265bis section 5.5.
func capped(t, now time.Time) time.Time {
	if limit := now.Add(maxLife); t.After(limit) {
		return limit
	}
	return t
}

// parseMaxAge reads delta-seconds. A number too large for an int64 counts as
// the largest (or smallest), whatever follows its digits: so does Chromium.
func parseMaxAge(s string) (seconds int64, ok bool) {
	digits, negative := strings.CutPrefix(s, "-")
	if !negative {
		digits = strings.TrimPrefix(s, "+")
	}
	for i := range len(digits) {
		d := int64(digits[i]) - '0'
		switch {
		case d < 0 || d > 9:
			return 0, false
		case seconds > (math.MaxInt64-d)/10:
			if negative {
				return math.MinInt64, true
			}
			return math.MaxInt64, true
		}
		seconds = seconds*10 + d
	}
	if negative {
		seconds = -seconds
	}
	return seconds, digits != ""
}

func parseSameSite(s string) SameSite {
	switch {
	case asciiEqualFold(s, "None"):
		return SameSiteNone
	case asciiEqualFold(s, "Lax"):
		return SameSiteLax
	case asciiEqualFold(s, "Strict"):
		return SameSiteStrict
	}
	return SameSiteDefault
}

// cookieDomain says for which domain a cookie from host is: RFC 6265bis
// section 5.7. attr is the Domain attribute. Hosts that can
// have no subdomains of their own (addresses, single labels, public suffixes)
// may name themselves and get a host-only cookie.
func cookieDomain(attr, host string) (domain string, hostOnly, ok bool) {
	if attr == "" {
		return host, true, true
	}
	name := strings.TrimPrefix(attr, ".")
	site := registrable(host)
	if site == "" {
		return host, true, asciiEqualFold(name, hostText(host))
	}
	domain, ok = CanonicalHost(name)
	// What host is or lies under is a public suffix if it is shorter than site.
	return domain, false, ok && domainMatch(host, domain) && len(domain) >= len(site)
}

// hostText is host as it stands in a URL.
func hostText(host string) string {
	if strings.IndexByte(host, ':') >= 0 {
		return "[" + host + "]"
	}
	return host
}

// defaultPath is RFC 6265bis section 5.1.4: the request's path up to its last
// slash.
func defaultPath(path string) string {
	i := strings.LastIndexByte(path, '/')
	if i <= 0 || path[0] != '/' {
		return "/"
	}
	return path[:i]
}

// trimSpace removes the whitespace of RFC 6265bis: spaces and tabs.
func trimSpace(s string) string { return strings.Trim(s, " \t") }

// hasControl looks for control characters, tabs among them: only tabs at the
// ends, which are trimmed, are let pass.
func hasControl(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return true
		}
	}
	return false
}
