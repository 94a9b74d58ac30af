package proxy

import (
	"io"
	"net/http"

	"github.com/sessionproxy/sessionproxy/session"
)

// What became of a request of which no field tells whether it has credentials.
const (
	askedWithout = "asked again without the session" // the page has that answer
	askedWith    = "asked again with the session"
	closed       = "closed to the page" // it has no answer
)

// settle gives the page behind a request the answer that it could have had, where
// it is one of another origin in the site that may have asked without
// credentials, and may read what is answered to everybody.
//
// What only a request without credentials may read, and the session's cookies
// have brought, is asked for again without the session, whose cookies are
// nobody's then. What the first answer has set stands: the page could have caused
// that. Where asking twice may do harm it gets an answer that it can't read, as a
// request with credentials would.
//
// From then on requests for it leave without the session at once, until an
// answer may be read with credentials.
func (x *exchange) settle(r *http.Request, resp *http.Response) (*http.Response, *refusal) {
	if !x.browser || len(x.cookie) > 0 || !x.inUse() {
		return resp, nil
	}
	cors := corsOf(resp)
	safe := (r.Method == http.MethodGet || r.Method == http.MethodHead) && x.upload == nil && x.upgrade == ""
	switch {
	case x.injected > 0 && session.OnlyAnonymously(x.evidence(r), cors):
		if !safe {
			x.cors = closed
			delete(resp.Header, "Access-Control-Allow-Origin")
			return resp, nil
		}
		if resp.StatusCode < 400 { // else it says nothing of what is there
			x.p.publicOnly.add(x.askedBy(r, r.Method)...)
		}
		return x.askWithout(r, resp)
	case x.whose == session.Cross && safe && len(cors.AllowCredentials) > 0:
		e := x.evidence(r)
		e.Anonymous = false
		if with, _ := cors.Allows(e.Origin); with && session.WhoseRequest(e) == session.Own {
			x.p.publicOnly.remove(x.askedBy(r, r.Method)...)
			x.whose = session.Own
			return x.askWith(r, resp)
		}
	}
	return resp, nil
}

// askWithout asks again without the session.
func (x *exchange) askWithout(r *http.Request, resp *http.Response) (*http.Response, *refusal) {
	x.cors = askedWithout
	set := resp.Header["Set-Cookie"]
	discard(resp)
	resp, ref := x.tries(r, func(r *http.Request) { delete(r.Header, "Cookie") })
	if ref != nil {
		return nil, ref
	}
	if delete(resp.Header, "Set-Cookie"); len(set) > 0 {
		resp.Header["Set-Cookie"] = set
	}
	return resp, nil
}

// askWith asks again with the session.
func (x *exchange) askWith(r *http.Request, resp *http.Response) (*http.Response, *refusal) {
	x.cors = askedWith
	discard(resp)
	resp, ref := x.tries(r, x.inject)
	if ref != nil {
		return nil, ref
	}
	x.capture(resp)
	if x.injected > 0 && session.OnlyAnonymously(x.evidence(r), corsOf(resp)) {
		return x.askWithout(r, resp) // who may read it depends on who asks
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
	asked := x.askedBy(r, first(r.Header, "Access-Control-Request-Method"))
	switch {
	case with:
		x.p.publicOnly.remove(asked...)
	case without:
		x.p.publicOnly.add(asked...)
	}
}

// askedBy is what is kept by: the page's origin, and what it asks for.
func (x *exchange) askedBy(r *http.Request, method string) []string {
	return []string{first(r.Header, "Origin"), method, x.target.scheme(), x.target.addr(), r.URL.RequestURI()}
}

func corsOf(resp *http.Response) session.CORS {
	return session.CORS{
		Status:           resp.StatusCode,
		AllowOrigin:      resp.Header["Access-Control-Allow-Origin"],
		AllowCredentials: resp.Header["Access-Control-Allow-Credentials"],
	}
}
