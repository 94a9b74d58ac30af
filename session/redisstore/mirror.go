package redisstore

import (
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/sessionproxy/sessionproxy/session"
)

// Site is what the store has to know of a site: which of its cookies workers
// see, and for which hosts what they write counts.
type Site struct {
	Hosts  []Host // none: the key itself and all below it
	Policy *session.Policy
	Life   session.Life
}

// Host is one declared host, or all below it.
type Host struct {
	Name     string // canonical, see [session.CanonicalHost]; no port
	Wildcard bool   // the hosts below Name
}

// everything shares all cookies but the private ones.
var everything = session.NewPolicy([]string{"*"}, nil, false)

// site is what is declared for a key. A site that is declared no more keeps its
// sessions, and shares them as one that was declared without a word.
func (s *Store) site(key string) Site {
	var site Site
	if s.sites != nil {
		site, _ = s.sites(key)
	}
	if site.Policy == nil {
		site.Policy = everything
	}
	if len(site.Hosts) == 0 {
		host := keyHost(key)
		site.Hosts = []Host{{Name: host}, {Name: host, Wildcard: true}}
	}
	return site
}

// keyHost is the host that a site's key names: keys may have a port.
func keyHost(key string) string {
	host := key
	if i := strings.LastIndexByte(key, ':'); i >= 0 && strings.IndexByte(key, ':') == i || strings.HasPrefix(key, "[") && i > strings.IndexByte(key, ']') {
		host = key[:i]
	}
	if canonical, ok := session.CanonicalHost(host); ok {
		return canonical
	}
	return host
}

// page is the request whose cookies the mirror shows.
func (site *Site) page(key string, now int64) session.Request {
	return session.Request{Host: site.shown(key), Path: "/", Secure: true, Now: time.UnixMicro(now)}
}

// shown is the host of that request: the key's, or the first one where the key
// is a word of the operator's.
func (site *Site) shown(key string) string {
	host := keyHost(key)
	for _, h := range site.Hosts {
		if h.Name == host || h.Wildcard && strings.HasSuffix(host, "."+h.Name) {
			return host
		}
	}
	for _, h := range site.Hosts {
		if !h.Wildcard {
			return h.Name
		}
	}
	return site.Hosts[0].Name
}

// mirrorOf is the hash that workers read: name and value of what a request to
// the site's first page carries, the first of each name. A worker's client could
// not hold a value that is no UTF-8, or a cookie without a name.
func mirrorOf(jar *session.Jar, key string, site *Site, now int64) map[string]string {
	mirror := make(map[string]string, len(jar.Cookies()))
	for c := range jar.Matching(site.page(key, now), site.Policy) {
		if _, have := mirror[c.Name]; have || c.Name == "" || !utf8.ValidString(c.Name) || !utf8.ValidString(c.Value) {
			continue
		}
		mirror[c.Name] = c.Value
	}
	return mirror
}

// hashValue tells values apart without keeping them.
func hashValue(value string) uint64 {
	sum := sha256.Sum256([]byte(value))
	return binary.BigEndian.Uint64(sum[:])
}
