package redisstore

import (
	"cmp"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sessionproxy/sessionproxy/session"
)

// Why a worker's write was not taken: values of a metric's label.
const (
	refusedOld     = "worker_old"     // the cookie had that value before
	refusedPrivate = "worker_private" // the name belongs to one worker, or is not shared
	refusedRevoked = "worker_revoked" // the name was in the session when it was revoked
	refusedInvalid = "worker_invalid" // no Set-Cookie line could set it
)

// written is what workers did to a mirror since it was last written by a proxy.
type written struct {
	update  session.Update
	refused []string // a reason each
	cleared bool     // the hash is gone: so is the session
}

// nothing says whether workers did nothing.
func (w *written) nothing() bool {
	return len(w.update.Cookies) == 0 && len(w.refused) == 0 && !w.cleared
}

// reconcile reads what workers wrote: the difference between the mirror and
// what a proxy wrote last. jar is the session's, and never nil.
//
// A value that the name had before is one that the worker loaded some time ago.
// Any other one is taken, with the attributes that the name had, for all hosts
// of the site; it replaces all cookies of its name. Where the session was over,
// its last values are as good as new ones.
func reconcile(st *state, jar *session.Jar, siteKey string, site *Site, now int64) (w written) {
	w.update = session.Update{Base: session.Latest, Writer: session.ByWorker}
	live := st.record.Live(now)
	if live && len(st.mirror) == 0 {
		w.cleared = st.mirror != nil
		return w
	}
	for _, key := range sortedKeys(st.names) {
		if _, still := st.mirror[key]; live && st.names[key].there && !still {
			w.update.Cookies = append(w.update.Cookies, deletions(jar, key, nil)...)
		}
	}
	for _, key := range sortedKeys(st.mirror) {
		value := st.mirror[key]
		n, hash := st.names[key], hashValue(value)
		switch {
		case live && n.has(hash):
		case n.had(hash) && !n.has(hash):
			w.refused = append(w.refused, refusedOld)
		case !site.Policy.Shared(key):
			w.refused = append(w.refused, refusedPrivate)
		case key == "" || !utf8.ValidString(key) || !utf8.ValidString(value):
			w.refused = append(w.refused, refusedInvalid)
		default:
			set := adopted(jar, siteKey, key, value, site, now)
			w.update.Cookies = append(w.update.Cookies, deletions(jar, key, set)...)
			w.update.Cookies = append(w.update.Cookies, set...)
		}
	}
	return w
}

// adopted are the cookies of a name that a worker wrote: they reach all hosts
// that the site declares, and the mirror shows them.
func adopted(jar *session.Jar, siteKey, key, value string, site *Site, now int64) []session.Cookie {
	c := session.Cookie{Name: key, Value: value, Path: "/", Secure: true, HTTPOnly: true}
	have, shown := before(jar, siteKey, key, site, now)
	if have != nil {
		c.Secure, c.HTTPOnly, c.SameSite, c.Priority = have.Secure, have.HTTPOnly, have.SameSite, have.Priority
		if !have.Expires.IsZero() {
			c.Expires = time.UnixMicro(now).Add(have.Expires.Sub(have.Used))
		}
	}
	if shown {
		c.Path = have.Path
	}
	var cookies []session.Cookie
	for _, h := range site.Hosts {
		c.Domain = h.Name
		c.HostOnly = !slices.Contains(site.Hosts, Host{h.Name, true})
		if c.Check() != nil {
			c.HostOnly = true // no subdomains there, or a name that promises none
		}
		if !slices.ContainsFunc(cookies, func(have session.Cookie) bool { return have.Identity() == c.Identity() }) {
			cookies = append(cookies, c)
		}
	}
	return cookies
}

// before is the cookie of a name that a worker saw, or one that it did not see.
func before(jar *session.Jar, siteKey, key string, site *Site, now int64) (have *session.Cookie, shown bool) {
	for c := range jar.Matching(site.page(siteKey, now), site.Policy) {
		if c.Name == key {
			return c, true
		}
	}
	all := jar.Cookies()
	for i := range all {
		if all[i].Name == key {
			return &all[i], false
		}
	}
	return nil, false
}

// deletions delete the cookies of a name but those that are set.
func deletions(jar *session.Jar, key string, set []session.Cookie) []session.Cookie {
	var gone []session.Cookie
	for _, c := range jar.Cookies() {
		keep := slices.ContainsFunc(set, func(s session.Cookie) bool { return s.Identity() == c.Identity() })
		if c.Name == key && !keep {
			c.Expires = past
			gone = append(gone, c)
		}
	}
	return gone
}

// past deletes: the zero time would be a session cookie.
var past = time.Unix(0, 0)

// refusals are the reasons of what a jar did not take of w.
func (w *written) refusals(outcomes []session.Outcome) []string {
	refused := slices.Clone(w.refused)
	for _, o := range outcomes {
		switch o {
		case session.Revoked:
			refused = append(refused, refusedRevoked)
		case session.Invalid:
			refused = append(refused, refusedInvalid)
		}
	}
	return refused
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
