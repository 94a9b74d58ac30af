package login

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// Rules are a site's login, made ready. They never change.
type Rules struct {
	Wait   time.Duration // for another's login
	Fail   bool          // answer 503 after that, rather than log in too
	Recipe *Recipe       // nil: clients log in

	method, host, path string
	ignore             []string // globs of fields
	out, in            config.Signs
}

// builtinIgnore are the fields that differ each time a login form is shown.
var builtinIgnore = []string{
	"csrf_token", "_csrf", "csrfmiddlewaretoken", "authenticity_token", "_token", "__RequestVerificationToken",
	"g-recaptcha-response", "h-captcha-response", "cf-turnstile-response",
}

// New makes the rules of a site whose key is key.
func New(l *config.Login, key string) *Rules {
	return &Rules{
		Wait:   l.Wait,
		Fail:   l.OnTimeout == config.Fail,
		Recipe: newRecipe(l, key),
		method: l.Request.Method,
		host:   l.Request.Host,
		path:   l.Request.Path,
		ignore: append(l.Ignore[:len(l.Ignore):len(l.Ignore)], builtinIgnore...),
		out:    l.LoggedOut,
		in:     l.LoggedIn,
	}
}

// Matches says whether a request is one by which clients log in. host is
// canonical.
func (r *Rules) Matches(method, host, path string) bool {
	return method == r.method && r.at(host, path)
}

func (r *Rules) at(host, path string) bool {
	return (r.host == "" || r.host == strings.TrimSuffix(host, ".")) && session.Glob(r.path, path)
}

// Page says whether u is a page to log in at: the login request's own path, or
// where logged-out clients are sent. What it shows is there for whoever asks,
// so a reply from it tells nothing of the session.
func (r *Rules) Page(u *url.URL) bool {
	return r.at(u.Hostname(), u.EscapedPath()) || r.out.Redirect != "" && session.Glob(r.out.Redirect, u.String())
}

// Verdict says whether a reply shows a logged-in session.
type Verdict uint8

// The verdicts.
const (
	Unknown Verdict = iota
	In
	Out
)

func (v Verdict) String() string { return [...]string{"unknown", "in", "out"}[v] }

// Judgment is a verdict, and the rule that spoke: a key of the configuration,
// such as "logged_out.redirect".
type Judgment struct {
	Verdict
	Rule string
}

// Reply is what the rules look at.
type Reply struct {
	Status   int
	Location string           // where it redirects, in full; "" nowhere
	Cookies  []session.Cookie // that it sets; expired ones are deleted by it
	HTML     bool             // its body is a page
	Page     []byte           // the beginning of the page, unpacked; nil: not known yet
	Time     time.Time        // of its arrival
}

// Read looks at the head of a response to a request for u, which sets cookies
// at at: at as much of it as the rules ask for.
func (r *Rules) Read(resp *http.Response, u *url.URL, at session.Setting, now time.Time) Reply {
	reply := Reply{Status: resp.StatusCode, HTML: isHTML(resp.Header.Get("Content-Type")), Time: now}
	if l := resp.Header.Get("Location"); l != "" && resp.StatusCode >= 300 && resp.StatusCode <= 399 {
		if u, err := u.Parse(l); err == nil {
			reply.Location = u.String()
		}
	}
	byPage := r.out.Body != "" || r.in.Body != "" // then the caller looks at cookies, too
	if r.out.Cookie == "" && r.in.Cookie == "" && !byPage {
		return reply
	}
	for _, line := range resp.Header["Set-Cookie"] {
		if c, err := session.ParseSetCookie(line, at, now); err == nil {
			reply.Cookies = append(reply.Cookies, c)
		}
	}
	return reply
}

// answer is what is known of a sign.
type answer uint8

const (
	no answer = iota
	yes
	open // the page is not known yet
)

// sign is one of those that are declared, and what a reply says to it.
type sign struct {
	rule string
	answer
}

// signs are what the reply says to each declared sign; deleted: the cookie is
// one that has to go.
func (r *Reply) signs(s *config.Signs, deleted bool) []sign {
	all := make([]sign, 0, 4)
	add := func(rule string, holds bool) {
		a := no
		if holds {
			a = yes
		}
		all = append(all, sign{rule, a})
	}
	if len(s.Status) > 0 {
		found := false
		for _, status := range s.Status {
			found = found || status == r.Status
		}
		add("status", found)
	}
	if s.Redirect != "" {
		add("redirect", r.Location != "" && session.Glob(s.Redirect, r.Location))
	}
	if s.Cookie != "" {
		found := false
		for i := range r.Cookies {
			if r.Cookies[i].Name == s.Cookie {
				found = r.Cookies[i].Expired(r.Time) == deleted // the last of a name is what stays
			}
		}
		add("cookie", found)
	}
	if s.Body != "" {
		if r.HTML && r.Page == nil {
			all = append(all, sign{"body", open})
		} else {
			add("body", r.HTML && contains(r.Page, s.Body))
		}
	}
	return all
}

// loggedOut says whether any sign of a logged-out session holds.
func (r *Rules) loggedOut(reply *Reply) sign {
	result := sign{}
	for _, s := range reply.signs(&r.out, true) {
		switch {
		case s.answer == yes:
			return sign{"logged_out." + s.rule, yes}
		case s.answer == open:
			result = s
		}
	}
	return result
}

// loggedIn says whether all signs of a logged-in session hold.
func (r *Rules) loggedIn(reply *Reply) sign {
	result := sign{"logged_in", yes}
	for _, s := range reply.signs(&r.in, false) {
		switch {
		case s.answer == no:
			return sign{"logged_in." + s.rule, no}
		case s.answer == open:
			result = s
		}
	}
	return result
}

// Judge says what a reply shows of the session. It returns false where only
// the page can tell.
func (r *Rules) Judge(reply Reply) (Judgment, bool) {
	out := r.loggedOut(&reply)
	if out.answer == yes {
		return Judgment{Out, out.rule}, true
	}
	in := sign{}
	if !r.in.Empty() {
		in = r.loggedIn(&reply)
	}
	switch {
	case out.answer == open || in.answer == open:
		return Judgment{}, false
	case in.answer == yes:
		return Judgment{In, in.rule}, true
	}
	return Judgment{}, true
}

// JudgeLogin says what the reply to a login request shows of that login: it
// succeeded where all declared signs of that hold; without any, where the
// site took the request and no sign of a logged-out session holds. It returns
// false where only the page can tell.
func (r *Rules) JudgeLogin(reply Reply) (Judgment, bool) {
	out := r.loggedOut(&reply)
	in := r.loggedIn(&reply)
	declared := !r.in.Empty()
	switch {
	case out.answer == yes:
		return Judgment{Out, out.rule}, true
	case judgesNothing(reply.Status):
		return Judgment{}, true
	case declared && in.answer == no:
		return Judgment{Out, in.rule}, true
	case out.answer == open, declared && in.answer == open:
		return Judgment{}, false
	case declared:
		return Judgment{In, in.rule}, true
	case reply.Status >= 400:
		return Judgment{}, true
	}
	return Judgment{In, "not logged_out"}, true
}

// judgesNothing says whether a site that answers so has looked at no password.
func judgesNothing(status int) bool {
	return status == http.StatusTooManyRequests || status >= 500
}
