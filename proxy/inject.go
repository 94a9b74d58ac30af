package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
)

// inject writes the request's Cookie header from the client's own and the
// session's cookies. It runs anew for each try, and notes the jar that the
// request leaves with.
func (x *exchange) inject(r *http.Request) {
	if !x.inUse() {
		return
	}
	x.auditUse()
	start := time.Now()
	x.jar = x.load(x.key)
	if !x.browser {
		x.private = x.load(x.privateKey())
		x.notePrivate()
	}
	x.asked = session.Request{
		Host:   x.target.host,
		Path:   cookiePath(r),
		Secure: x.target.secure,
		Whose:  x.whose,
		Logout: x.logout,
		Now:    x.p.store.Now(),
	}
	x.spent.Store += time.Since(start)
	if !x.site.Cookies.Inject {
		return
	}
	m := session.Merge(x.cookie, x.asked, x.jar, x.private, x.site.policy)
	x.injected = m.Injected
	if m.Dropped > 0 {
		x.p.metrics.refused.WithLabelValues("header_size").Add(float64(m.Dropped))
		x.p.log.Warn("the Cookie header would be longer than origins take: cookies of the session were left out",
			"id", x.exchangeID(), "site", x.site.Name, "session", x.id.session, "count", m.Dropped)
	}
	x.site.counts.injected.Add(float64(m.Injected))
	switch {
	case m.Header == "":
		delete(r.Header, "Cookie")
	case len(x.cookie) == 1 && m.Header == x.cookie[0]:
		r.Header["Cookie"] = x.cookie
	default:
		r.Header["Cookie"] = []string{m.Header}
	}
}

// load returns a jar of the session: an empty one where it is absent, or where
// the store can't say. The request goes on with the client's own cookies then.
func (x *exchange) load(key session.Key) *session.Jar {
	jar, err := x.p.store.Load(x, key)
	switch {
	case err == nil:
		if err := x.p.store.Renew(x, key, x.site.life); err != nil {
			x.p.storeFailed("renew", err)
		}
		return jar
	case !errors.Is(err, session.ErrNotFound):
		x.p.storeFailed("load", err)
		x.facts |= trace.StoreFailed
		return unknownJar
	}
	return emptyJar
}

var (
	emptyJar = new(session.Jar)

	// unknownJar stands for a session that the store does not tell of.
	unknownJar = new(session.Jar)
)

// cookiePath is the path as it is sent, without the query.
func cookiePath(r *http.Request) string {
	if r.URL.Opaque != "" {
		return r.URL.Opaque
	}
	if p := r.URL.EscapedPath(); p != "" {
		return p
	}
	return "/"
}
