package session

import "strings"

// Refusal is the reason why a cookie is not stored. It is the value of a
// metric's label, so there are few.
type Refusal string

// The reasons.
const (
	RefusedEmpty       Refusal = "empty"       // neither name nor value
	RefusedControl     Refusal = "control"     // a control character, or a byte that ends a value
	RefusedSize        Refusal = "size"        // name and value are over 4096 bytes
	RefusedAmbiguous   Refusal = "ambiguous"   // nameless, with a value that would be sent as another cookie's name
	RefusedDomain      Refusal = "domain"      // not the host's own, or a public suffix
	RefusedPath        Refusal = "path"        // no path
	RefusedSecure      Refusal = "secure"      // Secure, over plain http
	RefusedPrefix      Refusal = "prefix"      // breaks the promise of __Host-, __Secure-, __Http- or __Host-Http-
	RefusedSameSite    Refusal = "samesite"    // SameSite=None without Secure
	RefusedPartitioned Refusal = "partitioned" // without Secure, or set on behalf of a foreign page
)

// Error returns the reason.
func (r Refusal) Error() string { return "cookie refused: " + string(r) }

// Check says why no Set-Cookie line could have stored c: RFC 6265bis sections
// 5.6 and 5.7, as far as it depends on the cookie alone. Imports, operators
// and workers hand in cookies that no line brought, so every way into a jar
// passes here. It returns nil or a [Refusal].
func (c *Cookie) Check() error {
	switch {
	case c.Name == "" && c.Value == "":
		return RefusedEmpty
	case hasControl(c.Name), hasControl(c.Value), hasControl(c.Path), hasControl(c.Domain), hasControl(c.Priority),
		strings.ContainsAny(c.Name, ";="), strings.IndexByte(c.Value, ';') >= 0,
		trimSpace(c.Name) != c.Name, trimSpace(c.Value) != c.Value:
		return RefusedControl
	case len(c.Name)+len(c.Value) > maxNameValue:
		return RefusedSize
	case c.Name == "" && (strings.IndexByte(c.Value, '=') >= 0 || hasAnyPrefix(c.Value)):
		return RefusedAmbiguous
	case !validDomain(c.Domain, c.HostOnly):
		return RefusedDomain
	case c.Path == "" || c.Path[0] != '/':
		return RefusedPath
	case !c.keepsPrefix():
		return RefusedPrefix
	case c.SameSite == SameSiteNone && !c.Secure:
		return RefusedSameSite
	case c.Partitioned && !c.Secure:
		return RefusedPartitioned
	}
	return nil
}

// validDomain: a canonical host, and no public suffix unless for itself alone.
func validDomain(domain string, hostOnly bool) bool {
	host, ok := CanonicalHost(domain)
	return ok && host == domain && (hostOnly || registrable(host) != "")
}

// keepsPrefix says whether the promise that c's name makes to the server
// holds: RFC 6265bis section 5.4, and draft-ietf-httpbis-layered-cookies for
// the prefixes with Http. Names are compared without case, for the servers
// that do so.
func (c *Cookie) keepsPrefix() bool {
	if !strings.HasPrefix(c.Name, "__") {
		return true
	}
	host := hasPrefix(c.Name, "__Host-")
	http := hasPrefix(c.Name, "__Http-") || hasPrefix(c.Name, "__Host-Http-")
	switch {
	case host && !(c.Secure && c.HostOnly && c.Path == "/"):
		return false
	case http && !(c.Secure && c.HTTPOnly):
		return false
	}
	return c.Secure || !hasPrefix(c.Name, "__Secure-")
}

// hasAnyPrefix: a nameless cookie is sent as its bare value, which may not
// pose as a prefixed name.
func hasAnyPrefix(value string) bool {
	return hasPrefix(value, "__Host-") || hasPrefix(value, "__Secure-") || hasPrefix(value, "__Http-")
}

func hasPrefix(name, prefix string) bool {
	return len(name) >= len(prefix) && asciiEqualFold(name[:len(prefix)], prefix)
}
