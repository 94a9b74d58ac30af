package proxy

import (
	"errors"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// takesNothing says why the session takes none of the reply's cookies, "" where
// each has a reason of its own.
func (x *exchange) takesNothing() string {
	switch {
	case x.logout:
		return "the request ends the login: what it sets is this client's own"
	case x.overtaken:
		return "a later login had been granted before the reply came"
	case !x.site.Cookies.Capture:
		return "cookies.capture is false: no reply changes the site's sessions"
	case x.whose == session.Cross:
		return "a page of another site made the request"
	case !x.id.writes():
		return "the client " + x.id.name + " has access: read"
	}
	return ""
}

// became says what became of a Set-Cookie line: whether it holds now, and why.
func became(o session.Outcome, deletes, private bool) (holds bool, why string) {
	whose := "the session's"
	if private {
		whose = "this worker's own, in the session"
	}
	switch o {
	case session.Changed:
		if deletes {
			return true, "deleted"
		}
		return true, "captured: it is " + whose
	case session.Unchanged:
		if deletes {
			return true, "unchanged: there was none to delete"
		}
		return true, "unchanged: it is " + whose + " already"
	case session.Late:
		return false, "late: the session got a newer one after the request had left"
	case session.Revoked:
		return false, "revoked: the session was, after the request had left"
	case session.Evicted:
		return false, "evicted: the session holds as many cookies as it may"
	case session.Overlays:
		return false, "refused: over plain http it would overlay one that is Secure"
	case session.Guarded:
		return false, "guarded: the reply shows a logged-out session, and this one is of a login"
	}
	return false, "refused: no Set-Cookie line can set it"
}

// whyRefused says in words why a line is no cookie.
func whyRefused(err error) string {
	reason, _ := errors.AsType[session.Refusal](err)
	return "refused: " + refusedWords[reason]
}

var refusedWords = map[session.Refusal]string{
	session.RefusedEmpty:       "it has neither name nor value",
	session.RefusedControl:     "it has a control character, or a byte that ends a value",
	session.RefusedSize:        "name and value are over 4096 bytes",
	session.RefusedAmbiguous:   "its nameless value would be read as another cookie's name",
	session.RefusedDomain:      "its Domain is not the host's own, or a public suffix",
	session.RefusedPath:        "it has no path",
	session.RefusedSecure:      "it is Secure, and came over plain http",
	session.RefusedPrefix:      "it breaks the promise of its prefix __Host-, __Secure- or __Http-",
	session.RefusedSameSite:    "SameSite=None without Secure",
	session.RefusedPartitioned: "Partitioned without Secure, or on behalf of a page of another site",
}

// nameOf is the name in a Set-Cookie line.
func nameOf(line string) string {
	pair, _, _ := strings.Cut(line, ";")
	name, _, named := strings.Cut(pair, "=")
	if !named {
		return ""
	}
	return strings.TrimSpace(name)
}
