package proxy

import (
	"context"
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// capture puts the response's cookies into the session before the client sees
// a byte of it: a client that was told to be logged in finds the others are.
func (x *exchange) capture(resp *http.Response) {
	lines := resp.Header["Set-Cookie"]
	if len(lines) == 0 || !x.inUse() || !x.site.Cookies.Capture || x.logout || x.whose == session.Cross || !x.id.writes() {
		return
	}
	setting := session.Setting{
		Host: x.target.host, Path: cookiePath(resp.Request), Secure: x.target.secure,
		CrossSite: x.whose != session.Own,
	}
	now := time.Now()
	u := session.Update{
		Base:   x.jar.Version(),
		Writer: session.ByReply,
		// No login is declared for any site, so nothing tells a new session
		// from the anonymous one of a client that was logged out.
		Timid:    resp.StatusCode >= 300 && resp.StatusCode < 500,
		Insecure: !x.target.secure,
	}
	line := make([]int, 0, len(lines)) // of each cookie in u
	for i, l := range lines {
		c, err := session.ParseSetCookie(l, setting, now)
		if err != nil {
			x.p.metrics.refuse(err)
			continue
		}
		if !x.site.policy.Shared(c.Name) {
			continue
		}
		u.Cookies = append(u.Cookies, c)
		line = append(line, i)
	}
	if len(u.Cookies) == 0 {
		return
	}
	// The client may be gone; its login is not.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(x), storeBudget)
	defer cancel()
	_, outcomes, err := x.p.store.Apply(ctx, x.key, u, x.site.life)
	if err != nil {
		x.p.storeFailed("apply", err)
		return
	}
	drop := make([]bool, len(lines))
	for i, o := range outcomes {
		deletes := u.Cookies[i].Expired(now)
		x.site.counts.capture(o, deletes)
		if o == session.Changed {
			x.captured++
		}
		drop[line[i]] = o == session.Revoked || !deletes && !x.deliver()
	}
	kept := lines[:0:0]
	for i, l := range lines {
		if !drop[i] {
			kept = append(kept, l)
		}
	}
	if len(kept) < len(lines) {
		resp.Header["Set-Cookie"] = kept
	}
	if len(kept) == 0 {
		delete(resp.Header, "Set-Cookie")
	}
}

// deliver says whether the client is given the session's cookies, too.
func (x *exchange) deliver() bool {
	return x.site.Cookies.Deliver && (x.id.client == nil || x.id.client.Deliver)
}

// storeBudget bounds what a request waits for the store.
const storeBudget = 250 * time.Millisecond
