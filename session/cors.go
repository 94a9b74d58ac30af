package session

import "strings"

// CORS is what an answer says of the pages of other origins that may read it.
type CORS struct {
	Status                        int
	AllowOrigin, AllowCredentials []string // the values of Access-Control-Allow-…
}

// Allows is the Fetch standard's "CORS check": whether a page of that origin
// may read the answer to a request with credentials, and to one without. In
// doubt it says no to the first and yes to the second.
func (c CORS) Allows(origin string) (with, without bool) {
	with = len(c.AllowOrigin) == 1 && trimSpace(c.AllowOrigin[0]) == origin &&
		len(c.AllowCredentials) == 1 && trimSpace(c.AllowCredentials[0]) == "true"
	for _, line := range c.AllowOrigin {
		for value := range strings.SplitSeq(line, ",") {
			value = trimSpace(value)
			without = without || value == "*" || value == origin
		}
	}
	return with, without
}

// OnlyAnonymously says whether the page that made a request could read this
// answer to it only where it had asked without credentials. With the session's
// cookies in the request, the page would read what it never could by itself.
//
// A page reads what its own origin answers in any case, and what no
// Access-Control-Allow-Origin opens in none. A 304 may stand for an answer in
// the browser's cache that was opened.
func OnlyAnonymously(e Evidence, c CORS) bool {
	if !e.mayBeAnonymous() {
		return false
	}
	with, without := c.Allows(e.Origin)
	return !with && (without || c.Status == 304)
}

// AfterPreflight says whether the answer to a preflight lets the request that
// it asked for follow with credentials, and without ("CORS-preflight fetch").
func AfterPreflight(e Evidence, c CORS) (with, without bool) {
	if c.Status < 200 || c.Status > 299 {
		return false, false
	}
	return c.Allows(e.Origin)
}

// mayBeAnonymous says whether a page of another origin in the site may have
// made the request without credentials, as fetch does by itself. No field
// tells; but with credentials a Cookie field would come where the browser had
// one to send. Clients that are no browsers have no pages.
func (e *Evidence) mayBeAnonymous() bool {
	if e.Cookie || e.WebSocket || !e.Browser {
		return false
	}
	switch e.FetchSite {
	case "": // to a plain http site
		return e.Origin != "" && !e.SameOrigin
	case "same-site":
		switch e.FetchMode {
		case "navigate", "no-cors", "same-origin", "websocket":
			return false // read by no page of another origin
		}
		return true
	}
	return false
}
