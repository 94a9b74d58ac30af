package trace

import (
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// tell puts a record into words. now is the session's present jar, nil where it
// is not known.
func (r *Record) tell(now *session.Jar) Exchange {
	e := Exchange{
		Number: r.number, ID: r.ID, Time: r.Start.UTC(),
		Client: r.Client, Worker: r.Worker, Site: r.Site, Session: r.Session, Selected: string(r.Selected),
		Mode: r.Mode, Method: r.Method, Host: r.Host, Port: r.Port, Path: path(r.Target),
		Status: r.Status, Outcome: r.Outcome, Bytes: r.Bytes, SentBytes: r.Sent,
		Cookies: []RequestCookie{}, SetCookies: append([]ReplyCookie{}, r.ReplyCookies...), Captcha: append([]Fill{}, r.Fills...),
		Times: r.Spent.milliseconds(),
	}
	if r.Jar != nil {
		e.Version, e.Whose = r.Jar.Version(), r.Request.Whose.String()
		e.Cookies = r.cookies(now)
	}
	if r.Judged.Verdict != login.Unknown {
		e.Verdict, e.Rule = r.Judged.Verdict.String(), r.Judged.Rule
	}
	if r.Pool != "" {
		e.Lease = &Exit{r.Pool, r.Exit.String(), r.Moves}
	}
	if r.Code != "" {
		e.Refused = &Refusal{r.Code, r.Sentence}
	}
	if r.Err != nil {
		e.Error = r.Err.Error()
	}
	e.Why = r.why(&e)
	return e
}

// path is the path of a request target, without the query: in absolute form
// without the authority either, which may hold credentials.
func path(target string) string {
	target, _, _ = strings.Cut(target, "?")
	if strings.HasPrefix(target, "/") || target == "*" {
		return target
	}
	_, rest, absolute := strings.Cut(target, "://")
	if !absolute {
		return ""
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return "/"
}

// cookies tells of each cookie whether it went, and of the session's whether it
// has another value now.
func (r *Record) cookies(now *session.Jar) []RequestCookie {
	var verdicts []session.Verdict
	if r.Facts&NoInjection == 0 {
		verdicts = session.Explain(r.Cookie, r.Request, r.Jar, r.Private, r.Policy)
	} else {
		verdicts = uninjected(r.Cookie, r.Jar)
	}
	all := make([]RequestCookie, len(verdicts))
	for i, v := range verdicts {
		c := RequestCookie{Name: v.Cookie.Name, From: string(v.From), Sent: v.Sent, Why: v.Why}
		if v.From != session.FromClient {
			c.Domain, c.Path = v.Cookie.Domain, v.Cookie.Path
			if !v.Cookie.HostOnly {
				c.Domain = "." + c.Domain
			}
			c.Writer, c.Set = v.Cookie.Writer.String(), time.UnixMicro(v.Cookie.Version).UTC()
		}
		if v.From == session.FromSession && v.Sent {
			c.Replaced = replaced(v.Cookie, now)
		}
		all[i] = c
	}
	return all
}

// uninjected are the verdicts where the site's requests get no cookies of its
// sessions.
func uninjected(client []string, jar *session.Jar) []session.Verdict {
	const why = "cookies.inject is false: the site's requests get no cookies of its sessions"
	var all []session.Verdict
	for i := range jar.Cookies() {
		all = append(all, session.Verdict{Cookie: &jar.Cookies()[i], From: session.FromSession, Why: why})
	}
	for _, v := range session.Explain(client, session.Request{}, nil, nil, session.OneBrowser()) {
		v.Why = "the client's own"
		all = append(all, v)
	}
	return all
}

// replaced is when the session got another value of the cookie, zero where it has
// that one still.
func replaced(was *session.Cookie, now *session.Jar) time.Time {
	if now == nil {
		return time.Time{}
	}
	id := was.Identity()
	for i := range now.Cookies() {
		if c := &now.Cookies()[i]; c.Identity() == id && c.Value != was.Value {
			return time.UnixMicro(c.Version).UTC()
		}
	}
	return time.Time{}
}

func (s Spent) milliseconds() Times {
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return Times{
		Total: ms(s.Total), Upstream: ms(s.Upstream), Body: ms(s.Body), Added: ms(s.added()),
		Login: ms(s.Login), Captcha: ms(s.Captcha), Lease: ms(s.Lease), Store: ms(s.Store),
	}
}

func (s Spent) added() time.Duration { return max(0, s.Total-s.Upstream-s.Body) }
