package config

import (
	"bytes"
	"fmt"
	"net"
	"net/textproto"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/http/httpguts"

	"github.com/sessionproxy/sessionproxy/session"
)

var (
	cookieGlob = regexp.MustCompile(`^[^\x00-\x1f\x7f;=]+$`) // RFC 6265bis, section 5.6: what a name can hold
	urlGlob    = regexp.MustCompile(`^[^\x00-\x20\x7fA-Z]+$`)
)

// sites judges the sites and parses their hosts. No two may share a name, a
// key or a pattern: a request and a stored session belong to one.
func (j *judge) sites() {
	names, keys := map[string]string{}, map[string]string{}
	patterns := map[Pattern]string{}
	for i := range j.c.Sites {
		s, at := &j.c.Sites[i], fmt.Sprintf("sites[%d]", i)
		j.hosts(at+".hosts", s, patterns)
		j.unique(at+".name", s.Name, names)
		if strings.ContainsFunc(s.Name, unicode.IsControl) {
			j.at(at+".name", "a site's name holds a control character", "take it out")
		}
		j.key(at, s)
		j.unique(at+".key", s.Key, keys)
		j.origin(at+".origin", s, j.parsed(at, s))
		for n, glob := range s.Cookies.Share {
			j.cookieGlob(fmt.Sprintf("%s.cookies.share[%d]", at, n), glob)
		}
		for n, glob := range s.Cookies.Private {
			j.cookieGlob(fmt.Sprintf("%s.cookies.private[%d]", at, n), glob)
		}
		for n, glob := range s.Cookies.ProtectLogout {
			if !urlGlob.MatchString(glob) {
				j.at(fmt.Sprintf("%s.cookies.protect_logout[%d]", at, n), "no path matches this", "paths are compared in lower case and hold no spaces; * stands for any run of characters")
			}
		}
		j.headers(at+".headers", s)
		j.captchas(at+".captcha", *s)
		j.login(at+".login", s)
	}
}

// noSite judges a file that declares none, such as one that is being written.
func (j *judge) noSite(text []byte) {
	message, remedy := "no site is declared: nothing would be shared", "declare one under sites, with its name and hosts"
	if len(bytes.TrimSpace(text)) == 0 {
		message, remedy = "the file is empty", "declare a site under sites, with its name and hosts"
	}
	j.at("sites", message, remedy)
}

// unique judges a value that each site has for itself.
func (j *judge) unique(at, value string, taken map[string]string) {
	if value == "" {
		return
	}
	if other, ok := taken[value]; ok {
		j.at(at, fmt.Sprintf("another site has this %s (%s)", lastName(at), j.ref(other)), "rename one")
		return
	}
	taken[value] = at
}

func (j *judge) cookieGlob(at, glob string) {
	if !cookieGlob.MatchString(glob) {
		j.at(at, "no cookie's name matches this", "a name holds no = and no semicolon; * stands for any run of characters, ? for one")
	}
}

// hosts parses the patterns of a site.
func (j *judge) hosts(at string, s *Site, taken map[Pattern]string) {
	if len(s.Hosts) == 0 {
		j.at(at, "a site has one host at least", `such as hosts: [shop.example.com, "*.shop.example.com"]`)
	}
	for n, host := range s.Hosts {
		at := fmt.Sprintf("%s[%d]", at, n)
		if !j.ok(at) {
			continue
		}
		p, message, remedy := parsePattern(host)
		if message != "" {
			j.at(at, message, remedy)
			continue
		}
		if other, ok := taken[p]; ok {
			j.at(at, fmt.Sprintf("%s is declared twice (%s)", p, j.ref(other)), "leave it in one place")
			continue
		}
		taken[p] = at
		s.Patterns = append(s.Patterns, p)
	}
}

// parsed says whether all hosts of a site could be read: else what they seem to
// lack is no fault of its own.
func (j *judge) parsed(at string, s *Site) bool {
	return j.ok(at+".hosts") && len(s.Patterns) > 0 && len(s.Patterns) == len(s.Hosts)
}

// key completes and judges what the site is called in the store.
func (j *judge) key(at string, s *Site) {
	if s.Key == "" {
		if !j.parsed(at, s) {
			return
		}
		i := slices.IndexFunc(s.Patterns, func(p Pattern) bool { return !p.Wildcard })
		if i < 0 {
			j.at(at+".key", "key is missing: each host is a wildcard", "key: KEY, such as "+s.Patterns[0].Host)
			return
		}
		s.Key = s.Patterns[i].String()
		return
	}
	if strings.ContainsAny(s.Key, "{}~") {
		j.at(at+".key", "a key holds no {, } or ~", "these part the key from other names in the store")
	}
	if strings.ContainsFunc(s.Key, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) {
		j.at(at+".key", "a key is one word", "such as the site's first host")
	}
}

// origin judges how the site's servers are reached; parsed says whether all its
// hosts are known.
func (j *judge) origin(at string, s *Site, parsed bool) {
	if s.Origin.CA != "" {
		j.roots(at+".ca", s.Origin.CA)
	}
	j.pair(at, s.Origin.Cert, s.Origin.Key)
	resolve := make(map[string]string, len(s.Origin.Resolve))
	for _, name := range j.inOrder(at+".resolve", s.Origin.Resolve) {
		at := join(at+".resolve", name)
		p, message, remedy := parsePattern(name)
		covers := func(q Pattern) bool { return q.Matches(p.Host, either(p.Port, q.Port)) }
		switch _, again := resolve[p.String()]; {
		case message != "":
			j.at(at, message, remedy)
		case p.Wildcard:
			j.at(at, "one host is resolved, not a pattern", "name each host")
		case again:
			j.at(at, p.String()+" is resolved twice", "remove one")
		case parsed && !slices.ContainsFunc(s.Patterns, covers):
			j.at(at, "the site has no such host", "resolve one of its hosts, or add this one to them")
		}
		resolve[p.String()] = s.Origin.Resolve[name]
		j.dialable(at, s.Origin.Resolve[name])
	}
	s.Origin.Resolve = resolve
}

// dialable judges an address that is dialled in place of a host.
func (j *judge) dialable(at, addr string) {
	host, port, err := net.SplitHostPort(addr)
	n, portErr := strconv.ParseUint(port, 10, 16)
	if err == nil && portErr == nil && n > 0 {
		if _, ok := session.CanonicalHost(host); ok {
			return
		}
	}
	j.at(at, "a host is resolved to HOST:PORT", `such as "127.0.0.1:8443"`)
}

// either returns a, or b where a is empty.
func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// headers judges the fields that are set on requests, and spells their names
// in one way.
func (j *judge) headers(at string, s *Site) {
	headers := make(map[string]string, len(s.Headers))
	for _, name := range j.inOrder(at, s.Headers) {
		at, value := join(at, name), s.Headers[name]
		canonical := textproto.CanonicalMIMEHeaderKey(name)
		why := reserved(canonical)
		switch _, again := headers[canonical]; {
		case !httpguts.ValidHeaderFieldName(name):
			j.at(at, "this is no field name", "a name holds letters, digits and hyphens (RFC 9110, section 5.1)")
		case why != "":
			j.at(at, canonical+" cannot be set: "+why, "remove it")
		case again:
			j.at(at, canonical+" stands twice", "remove one")
		case !httpguts.ValidHeaderFieldValue(value):
			j.at(at, "this value holds characters that no field can", "take out line breaks and control characters (RFC 9110, section 5.5)")
		}
		headers[canonical] = value
	}
	s.Headers = headers
}

// reserved says why a field cannot be set; "" where it can.
func reserved(canonical string) string {
	switch {
	case strings.HasPrefix(canonical, "Proxy-"):
		return "Proxy-* fields end at a proxy"
	case strings.HasPrefix(canonical, "Sec-Fetch-"), strings.HasPrefix(canonical, "Access-Control-Request-"):
		return evidence
	}
	return reservedFields[canonical]
}

const (
	hopByHop = "it belongs to one connection (RFC 9110, section 7.6.1)"
	// By these the site, and the proxy before it attaches cookies, know one
	// page's requests from another's.
	evidence = "it tells whose request this is, which only the client knows"
)

// reservedFields are those that the proxy itself answers for, and those that
// only the client can.
var reservedFields = map[string]string{
	"Connection":        hopByHop,
	"Keep-Alive":        hopByHop,
	"Te":                hopByHop,
	"Trailer":           hopByHop,
	"Transfer-Encoding": hopByHop,
	"Upgrade":           hopByHop,
	"Host":              "it is the request's own",
	"Content-Length":    "it is the body's own",
	"Cookie":            "the session's cookies go there",
	"X-Proxy-Session":   "it selects a session and ends here",

	"Origin":                    evidence,
	"Referer":                   evidence,
	"Upgrade-Insecure-Requests": evidence,
}
