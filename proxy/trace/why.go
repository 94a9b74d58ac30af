package trace

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
)

// clock is how sentences write a time.
const clock = "2006-01-02T15:04:05.000Z07:00"

// why is what is not as a reader may expect, in sentences: first what the request
// was taken for, then what became of it, then where the time went.
func (r *Record) why(e *Exchange) []string {
	all := []string{}
	say := func(is bool, format string, args ...any) {
		if is {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	is := func(f Facts) bool { return r.Facts&f != 0 }
	tunnel := r.Mode == Tunnel

	say(is(Undeclared) && tunnel, "No site declares %s: the tunnel passed as it is, and nothing in it was looked at. To have it intercepted, name the host in a site's hosts.", r.Host)
	say(is(Undeclared) && !tunnel, "No site declares %s: its requests pass as they are.", r.Host)
	say(is(Foreign), "The site %s declares %s, but the client spoke neither TLS nor HTTP, or let the server speak first: the tunnel passed as it is.", r.Site, r.Host)
	say(is(Silent), "The client opened a tunnel and said nothing in it, as browsers do that connect ahead.")
	say(is(Distrust), "The client broke off the TLS handshake with the proxy, as one does that does not trust its CA: sessionproxy ca says how it gets that.")
	say(is(NoSession), "The client selected the session none: no cookie was injected, and none is captured.")
	say(is(Ignored), "X-Proxy-Session was ignored: it selects a session on CONNECT, or on plain http.")
	say(e.Whose == "cross", "A page of another site made the request, or one that asks without credentials: it got no cookie that its browser did not send.")
	say(e.Whose == "cross navigation", "A page of another site led here: cookies with SameSite=Strict stay behind.")
	say(is(Logout), "The request is on protect_logout: it left without the session's cookies, and what its reply sets is this client's own.")
	say(is(NoInjection), "cookies.inject is false: the site's requests get no cookies of its sessions.")
	say(is(StoreFailed), "The session store did not answer in time: the request left with the client's own cookies.")
	say(is(Forgotten), "Which cookies went is no longer kept: the sessions of the last exchanges are too large.")
	if r.Jar != nil && len(r.Jar.Cookies()) == 0 && !is(StoreFailed) {
		floor := r.Jar.Floor()
		say(floor > 0, "The session was revoked at %s, and nobody has logged in since.", micro(floor))
		say(floor == 0, "The session %s of %s held no cookies.", r.Session, r.Site)
	}

	say(is(Shared), "It was answered with the login of another client, which had sent the same.")
	say(is(LoginRequest) && !is(Shared) && r.Judged.Verdict == login.Unknown && r.Code == "", "A login request: its reply does not show whether it succeeded.")
	say(is(LoginRequest) && r.Judged.Verdict == login.In, "A login request, and it succeeded (%s).", r.Judged.Rule)
	say(is(LoginRequest) && r.Judged.Verdict == login.Out, "A login request, and it failed (%s).", r.Judged.Rule)
	say(is(Overtaken), "A later login had been granted before its reply came: it sets nothing.")
	say(is(Confirmed), "The first reply showed a logged-out session, and it was sent again lest the site had erred.")
	say(is(Renewed), "The first reply showed a logged-out session, but the session had moved on: it was sent again with the new cookies.")
	say(is(Relogged), "The session was logged out: the proxy logged in by the site's recipe.")
	say(!is(LoginRequest) && r.Judged.Verdict == login.Out, "The reply shows that the session is logged out (%s).", r.Judged.Rule)
	say(r.CORS != "", "A page of another origin in the site asked, perhaps without credentials: %s.", r.CORS)
	say(r.Moves > 0, "An upstream failed, and the request was sent again by another.")
	for i := range e.Cookies {
		c := &e.Cookies[i]
		if r.sets(c.Name) {
			continue // its own reply replaced it
		}
		say(!c.Replaced.IsZero() && !c.Replaced.After(r.sent()), "%s went with an old value: it had been replaced at %s, and this proxy had not heard of that yet.", c.Name, c.Replaced.Format(clock))
		say(!c.Replaced.IsZero() && c.Replaced.After(r.sent()) && !c.Replaced.After(r.end()), "%s went with a value that has become old on the way: it was replaced at %s.", c.Name, c.Replaced.Format(clock))
	}
	if phase, d := r.Spent.longest(); !tunnel && r.Status != 101 {
		say(r.Spent.Total >= slow, "%s of %s went by %s.", seconds(d), seconds(r.Spent.Total), phase)
	}
	return all
}

// sets says whether the reply set the cookie.
func (r *Record) sets(name string) bool {
	return slices.ContainsFunc(r.ReplyCookies, func(c ReplyCookie) bool { return c.Captured && c.Name == name })
}

// slow is from when on it is told where the time went.
const slow = time.Second

// sent is when the request left for the last time.
func (r *Record) sent() time.Time { return cmp.Or(r.Request.Now, r.Start) }

func (r *Record) end() time.Time { return r.Start.Add(r.Spent.Total) }

// longest is what took most of the time.
func (s Spent) longest() (phase string, d time.Duration) {
	own := s.added() - s.Login - s.Captcha - s.Lease - s.Store
	for _, p := range []struct {
		phase string
		took  time.Duration
	}{
		{"in the proxy itself", own},
		{"until the head of the site's answer came", s.Upstream},
		{"while its body was on the way to the client", s.Body},
		{"in waiting for a login", s.Login},
		{"in waiting for a captcha token", s.Captcha},
		{"in waiting for an upstream", s.Lease},
		{"in waiting for the session store", s.Store},
	} {
		if p.took >= d {
			phase, d = p.phase, p.took
		}
	}
	return phase, d
}

func micro(us int64) string { return time.UnixMicro(us).UTC().Format(clock) }

func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }
