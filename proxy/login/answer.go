package login

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// NewAnswer makes of the reply to a login what may be given to others. page is
// its whole body, unpacked, or nil where that is too long or not to be had.
//
// Where a reply can't be given twice, since its Location holds a code that is
// good once, or its body is too long, the answer is a 303 without a Location:
// the others go back to the page they came from, and with the session's
// cookies it leads them on.
func NewAnswer(resp *http.Response, page []byte) *Answer {
	location := resp.Header.Get("Location")
	if page == nil && location == "" || len(page) > MaxAnswer && location == "" || goodOnce(location) {
		return &Answer{Status: http.StatusSeeOther}
	}
	a := &Answer{Status: resp.StatusCode, Location: location}
	if location == "" && len(page) > 0 {
		a.ContentType, a.Body = resp.Header.Get("Content-Type"), slices.Clone(page)
	}
	return a
}

// goodOnce says whether a URL carries what is made for one browser: an
// authorization code (RFC 6749 section 4.1.2), a ticket (CAS), a token, a SAML
// response, the id of a PHP session.
func goodOnce(location string) bool {
	u, err := url.Parse(location)
	if err != nil {
		return true
	}
	if strings.Contains(u.Fragment, "token=") || strings.Contains(u.Fragment, "code=") {
		return true
	}
	for name := range u.Query() {
		name = strings.ToLower(name)
		if slices.Contains([]string{"code", "state", "ticket", "token", "assertion", "samlresponse", "samlart", "phpsessid", "jsessionid", "sid", "nonce", "key", "signature"}, name) ||
			strings.HasSuffix(name, "_token") || strings.HasSuffix(name, "_code") || strings.HasSuffix(name, "_ticket") {
			return true
		}
	}
	return strings.Contains(strings.ToLower(u.Path), ";jsessionid=")
}

// Response is the answer as another client gets it. page is where that client
// came from, "" unknown.
func (a *Answer) Response(r *http.Request, page string) *http.Response {
	h := http.Header{"Cache-Control": {"no-store"}}
	location := a.Location
	if location == "" && a.Status == http.StatusSeeOther {
		if location = "/"; page != "" {
			location = page
		}
	}
	if location != "" {
		h["Location"] = []string{location}
	}
	if a.ContentType != "" {
		h["Content-Type"] = []string{a.ContentType}
	}
	return &http.Response{
		StatusCode: a.Status, Status: http.StatusText(a.Status), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, Request: r,
	}
}
