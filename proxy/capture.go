package proxy

import (
	"context"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
)

// setCookie is one Set-Cookie line that belongs to the session, or to the
// worker in it.
type setCookie struct {
	session.Cookie
	line    int // in the response
	deletes bool
	revoked bool // the request left before the session was revoked
}

// capture puts the response's cookies into the session before the client sees
// a byte of it: a client that was told to be logged in finds the others are.
// A reply to a logout is that client's own affair.
func (x *exchange) capture(resp *http.Response) {
	lines := resp.Header["Set-Cookie"]
	if len(lines) == 0 || !x.inUse() {
		return
	}
	x.set = make([]trace.ReplyCookie, len(lines))
	for i, l := range lines {
		x.set[i] = trace.ReplyCookie{Name: nameOf(l), Why: x.takesNothing()}
	}
	if x.logout {
		return
	}
	shared, private := x.parse(resp, lines, x.p.store.Now())
	switch {
	case x.overtaken:
		shared = nil
	case x.spares(resp):
		shared = slices.DeleteFunc(shared, func(s setCookie) bool {
			if s.deletes {
				x.set[s.line].Why = "spared: a page to log in at deletes it, and somebody has logged in"
			}
			return s.deletes
		})
	}
	switch {
	case x.site.Cookies.Capture && x.whose != session.Cross && x.id.writes():
		defer lap(&x.spent.Store, time.Now())
		// At once, so that a store that commits in groups does so once.
		var own int
		var wg sync.WaitGroup
		if len(private) > 0 {
			wg.Go(func() { own = x.apply(x.privateKey(), resp, x.private, private) })
		}
		x.captured = x.apply(x.key, resp, x.jar, shared)
		wg.Wait()
		x.captured += own
	case x.load(x.key).Floor() > x.jar.Version():
		for i := range shared {
			shared[i].revoked = true
		}
	}
	x.withhold(resp, lines, shared)
}

// parse returns the cookies of the lines that a jar wants. Private ones are
// wanted only for workers that do not keep them.
func (x *exchange) parse(resp *http.Response, lines []string, now time.Time) (shared, private []setCookie) {
	setting := session.Setting{
		Host: x.target.host, Path: cookiePath(resp.Request), Secure: x.target.secure,
		CrossSite: x.whose != session.Own,
	}
	if len(lines) > maxSetCookies {
		x.p.metrics.refused.WithLabelValues("too_many").Add(float64(len(lines) - maxSetCookies))
		for i := maxSetCookies; i < len(lines); i++ {
			x.set[i].Why = "refused: a reply may set 200 cookies"
		}
		lines = lines[:maxSetCookies]
	}
	for i, l := range lines {
		c, err := session.ParseSetCookie(l, setting, now)
		if err != nil {
			x.p.metrics.refuse(err)
			x.set[i].Why = whyRefused(err)
			continue
		}
		s := setCookie{Cookie: c, line: i, deletes: c.Expired(now)}
		switch {
		case x.site.policy.Shared(c.Name):
			shared = append(shared, s)
		case !x.site.policy.Private(c.Name):
			x.set[i].Why = "not shared: the site's list of shared names leaves it out"
		case x.keepsItself(c.Name):
			x.set[i].Why = "private name: the client keeps it itself"
		default:
			private = append(private, s)
		}
	}
	return shared, private
}

// maxSetCookies is how many lines of one response are looked at: more than a
// site may have cookies.
const maxSetCookies = 200

// apply changes a jar, notes what became of each cookie, and returns how many
// were changed. base is the jar that the request left with.
func (x *exchange) apply(key session.Key, resp *http.Response, base *session.Jar, set []setCookie) (changed int) {
	if len(set) == 0 {
		return 0
	}
	u := session.Update{
		Base:   base.Version(),
		Writer: session.ByReply,
		// Where no login is declared, nothing tells a new session from the
		// anonymous one of a client that was logged out.
		Timid:     x.site.login == nil && resp.StatusCode >= 300 && resp.StatusCode < 500,
		LoggedOut: x.judged.Verdict == login.Out && key == x.key,
		Insecure:  !x.target.secure,
		Cookies:   make([]session.Cookie, len(set)),
	}
	if x.logsIn && x.judged.Verdict == login.In && key == x.key {
		u.Writer = session.ByLogin
	}
	for i := range set {
		u.Cookies[i] = set[i].Cookie
	}
	// The client may be gone; its login is not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x), storeLimit)
	defer cancel()
	_, outcomes, err := x.p.store.Apply(ctx, key, u, x.site.life)
	if err != nil {
		x.p.storeFailed("apply", err)
		for _, s := range set {
			x.set[s.line].Why = "the session store did not take it"
		}
		return 0
	}
	for i, o := range outcomes {
		set[i].revoked = o == session.Revoked
		x.site.counts.capture(o, set[i].deletes)
		x.set[set[i].line].Captured, x.set[set[i].line].Why = became(o, set[i].deletes, key.Worker != "")
		if o == session.Changed {
			changed++
		}
	}
	return changed
}

// spares says whether the session keeps what a reply deletes: a page to log in
// at may clear what it takes for the rest of an older login, as WordPress's
// does (reauth=1), while somebody has logged in.
func (x *exchange) spares(resp *http.Response) bool {
	if !x.knowsLogin() || x.logsIn || !x.site.login.Page(sentURL(resp.Request)) {
		return false
	}
	jar := x.load(x.key)
	return jar.Login() > 0 && x.p.verdicts.Show(x.key, jar).Verdict != login.Out
}

// adopt makes the cookies that a login request left with those of a login,
// where its reply has set none: some sites keep the session's name over a login.
func (x *exchange) adopt(r *http.Request) {
	if x.load(x.key).Login() > x.jar.Version() {
		return
	}
	u := session.Update{Base: x.jar.Version(), Writer: session.ByLogin, Insecure: !x.target.secure}
	for _, v := range x.jar.Explain(session.Request{
		Host: x.target.host, Path: cookiePath(r), Secure: x.target.secure, Now: x.p.store.Now(),
	}, x.site.policy) {
		if v.Sent {
			u.Cookies = append(u.Cookies, *v.Cookie)
		}
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x), storeLimit)
	defer cancel()
	if _, _, err := x.p.store.Apply(ctx, x.key, u, x.site.life); err != nil {
		x.p.storeFailed("apply", err)
	}
}

// withhold removes the lines that the client may not have: those of a revoked
// session, and the session's cookies where they are not delivered. Deletions
// always pass.
func (x *exchange) withhold(resp *http.Response, lines []string, shared []setCookie) {
	deliver := x.site.Cookies.Deliver && (x.id.client == nil || x.id.client.Deliver)
	gone := make(map[int]bool)
	for _, s := range shared {
		if s.revoked || !deliver && !s.deletes {
			gone[s.line] = true
		}
	}
	if len(gone) == 0 {
		return
	}
	kept := make([]string, 0, len(lines))
	for i, l := range lines {
		if !gone[i] {
			kept = append(kept, l)
		}
	}
	resp.Header["Set-Cookie"] = kept
	if len(kept) == 0 {
		delete(resp.Header, "Set-Cookie")
	}
}

// storeLimit bounds what a response waits for the store, whose disk may stall. A
// client that is answered before its login is stored may find others logged
// out, so it is long.
const storeLimit = 5 * time.Second
