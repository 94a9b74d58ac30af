package session

import (
	"net/url"
	"strings"
)

// Whose tells whose request it is.
type Whose uint8

// The classes of requests.
const (
	Own             Whose = iota // the client's own: every matching cookie
	CrossNavigation              // a link or GET form on a foreign page: SameSite None, Lax and unspecified
	Cross                        // a foreign page's own doing: only fresh values of names the client sent
)

func (w Whose) String() string { return [...]string{"own", "cross navigation", "cross"}[w] }

// Evidence is what a request shows of who made it.
type Evidence struct {
	Method string
	Secure bool   // the request is https or wss
	Host   string // canonical target

	WebSocket bool

	FetchSite, FetchMode, FetchDest string // the Sec-Fetch-* fields
	Origin, Referer                 string

	// ThirdParty: the request has a Sec-Fetch-Storage-Access field, as browsers
	// send it to sites other than that of the page in the address bar.
	ThirdParty bool
	// Preflight: an OPTIONS request with Access-Control-Request-Method.
	Preflight bool
	// Anonymous: as far as is known, what is asked for can be read by the Origin
	// without credentials only, see [AfterPreflight] and [OnlyAnonymously].
	Anonymous bool

	SameOrigin bool // Origin is the target's own
	Cookie     bool // the client sent a Cookie field

	UpgradeInsecureRequests bool

	// Browser: this client has, with this User-Agent, sent Fetch metadata
	// before. It sends none to plain http sites.
	Browser bool
}

// WhoseRequest judges the evidence: Fetch metadata first, since no page can
// forge it, then the Origin, then, for clients known to be browsers, the
// Referer. A client without Fetch metadata, Origin or history is taken at its
// word: scrapers send a foreign Referer by habit.
//
// WebSockets are judged by Origin alone, which every browser sends with them
// (RFC 6455 section 4.1); one without is no browser's.
//
// What the site's own frame does inside a foreign page is cross: Sec-Fetch-Site
// is "same-origin" there, but the browser lets SameSite=None cookies go alone. So
// is a CORS preflight, with which no cookies go (Fetch standard, "CORS-preflight
// fetch"), and a request of the site's page that has no credentials, or no use for
// them.
func WhoseRequest(e Evidence) Whose {
	switch {
	case e.WebSocket && e.Origin == "":
		return Own
	case e.WebSocket:
		return e.by(e.Origin)
	case e.ThirdParty, e.Preflight, e.Anonymous && e.mayBeAnonymous():
		return Cross
	case e.FetchSite != "":
		return e.byFetchMetadata()
	case e.Origin != "":
		return e.by(e.Origin)
	case !e.Browser:
		return Own
	case e.Referer != "":
		return e.by(e.Referer)
	case e.Method == "GET" && e.UpgradeInsecureRequests:
		return CrossNavigation // typed or linked, it cannot be told
	}
	return Cross
}

// byFetchMetadata reads Sec-Fetch-Site (W3C Fetch Metadata). "none" is the
// user's own doing, such as a bookmark. A value not known today counts as
// cross-site.
func (e *Evidence) byFetchMetadata() Whose {
	switch e.FetchSite {
	case "none", "same-origin", "same-site":
		return Own
	}
	if e.safeNavigation() {
		return CrossNavigation
	}
	return Cross
}

// safeNavigation is where SameSite=Lax cookies go: a top-level navigation with
// a safe method (RFC 6265bis section 5.2). A frame's dest is "iframe".
func (e *Evidence) safeNavigation() bool {
	return (e.Method == "GET" || e.Method == "HEAD") && e.FetchMode == "navigate" && e.FetchDest == "document"
}

// by judges by the origin or URL of the page that made the request.
func (e *Evidence) by(page string) Whose {
	if e.sameSite(page) {
		return Own
	}
	return Cross
}

// sameSite says whether the URL or origin from is schemefully same-site with
// the target, as the HTML standard has it: http and https are not. The opaque
// origin "null" is nobody's.
func (e *Evidence) sameSite(from string) bool {
	u, err := url.Parse(from)
	if err != nil {
		return false
	}
	secure := strings.EqualFold(u.Scheme, "https")
	if secure != e.Secure || !secure && !strings.EqualFold(u.Scheme, "http") {
		return false
	}
	host, ok := CanonicalHost(u.Hostname())
	return ok && SameSiteHosts(host, e.Host)
}
