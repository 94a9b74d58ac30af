package proxy

import (
	"io"
	"net/http"

	"github.com/sessionproxy/sessionproxy/session"
)

// What became of an answer that the page behind a request could read only if
// it had asked without credentials.
const (
	askedAgain = "asked again without the session" // the page has that answer
	closed     = "closed to the page"              // it has none
)

// hide keeps an answer that the session's cookies brought from a page that
// could not have had it: one of another origin in the site, which may read what
// is answered to everybody, and may have asked without credentials. Where asking
// twice does no harm it gets the answer to a request without the session, whose
// cookies are nobody's; else an answer that it can't read, as a request with
// credentials would.
//
// What the first answer has set stands: the page could have caused that.
func (x *exchange) hide(r *http.Request, resp *http.Response) (*http.Response, *refusal) {
	if x.injected == 0 || len(x.cookie) > 0 || !session.OnlyAnonymously(x.evidence(r), corsOf(resp)) {
		return resp, nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead || x.upload != nil || x.upgrade != "" {
		x.hidden = closed
		delete(resp.Header, "Access-Control-Allow-Origin")
		return resp, nil
	}
	x.hidden = askedAgain
	discard(resp)
	set := resp.Header["Set-Cookie"]
	delete(r.Header, "Cookie")
	resp, _, ref := x.try(r)
	if ref != nil {
		return nil, ref
	}
	if delete(resp.Header, "Set-Cookie"); len(set) > 0 {
		resp.Header["Set-Cookie"] = set
	}
	return resp, nil
}

// discard ends a response, and keeps its connection where little is left of it.
func discard(resp *http.Response) {
	if n := resp.ContentLength; n >= 0 && n <= bufferSize {
		_, _ = io.CopyN(io.Discard, resp.Body, n+1)
	}
	resp.Body.Close()
}

// notePreflight remembers whether a preflight lets its request follow without
// credentials only: that request is anonymous for certain.
func (x *exchange) notePreflight(r *http.Request, resp *http.Response) {
	if r.Method != http.MethodOptions || !x.inUse() {
		return
	}
	e := x.evidence(r)
	if !e.Preflight || e.FetchSite == "cross-site" { // what follows from there is nobody's own anyway
		return
	}
	with, without := session.AfterPreflight(e, corsOf(resp))
	parts := x.preflightParts(r, first(r.Header, "Access-Control-Request-Method"))
	switch {
	case with:
		x.p.preflights.remove(parts...)
	case without:
		x.p.preflights.add(parts...)
	}
}

// preflighted says whether r follows such a preflight.
func (x *exchange) preflighted(r *http.Request) bool {
	return x.p.preflights.has(x.preflightParts(r, r.Method)...)
}

// preflightParts are what browsers keep the answers to preflights by.
func (x *exchange) preflightParts(r *http.Request, method string) []string {
	return []string{first(r.Header, "Origin"), method, x.target.scheme(), x.target.addr(), r.URL.RequestURI()}
}

func corsOf(resp *http.Response) session.CORS {
	return session.CORS{
		Status:           resp.StatusCode,
		AllowOrigin:      resp.Header["Access-Control-Allow-Origin"],
		AllowCredentials: resp.Header["Access-Control-Allow-Credentials"],
	}
}
