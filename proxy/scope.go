package proxy

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// scope decides what the request may have: which site it belongs to, whose
// request it is, and that its Host is the one that was verified.
func (x *exchange) scope(r *http.Request) *refusal {
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok && x.target.secure && c.sni != "" && !x.target.names(c.sni) {
		return misdirected("The TLS server name differs from the host of the CONNECT.")
	}
	if r.Host != "" && !x.target.names(r.Host) {
		return misdirected("The Host field differs from the host of this connection.")
	}
	if lastHop(r) {
		return endsHere(r.Method)
	}
	x.site = x.rules.site(x.target.host, x.target.port)
	if x.site == nil {
		if x.rules.undeclared == config.Refuse {
			return undeclared(x.target.host)
		}
		return nil
	}
	if ref := x.id.admit(x.site); ref != nil {
		return ref
	}
	if r.Method == http.MethodTrace {
		// It would read the shared cookies back to the client.
		return deny(http.StatusMethodNotAllowed, "http_request_denied", "trace", "TRACE is not served for this site.")
	}
	if x.site.Origin.HTTPSOnly && !x.target.secure {
		ref := refuse(http.StatusTemporaryRedirect, "", "https_only", "This site is served over https only.")
		ref.header = http.Header{"Location": {"https://" + x.target.authority() + r.URL.RequestURI()}}
		return ref
	}
	x.whose = session.WhoseRequest(x.evidence(r))
	x.key = session.Key{Site: x.site.Key, ID: x.id.session}
	x.logout = x.site.endsLogin(r.URL)
	if x.inUse() && x.p.storeUp != nil && !x.p.storeUp() {
		return refuse(http.StatusServiceUnavailable, "proxy_internal_error", "store_unavailable", "The store of the sessions does not answer. Try again.")
	}
	for name, value := range x.site.Headers { // after the evidence: these are not the client's
		r.Header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	return nil
}

// endsLogin says whether a request for u is one on protect_logout. The path and
// the query are looked at as they are sent and as an origin may decode them, in
// lower case.
func (s *site) endsLogin(u *url.URL) bool {
	if len(s.Cookies.ProtectLogout) == 0 {
		return false
	}
	decoded := u.Path
	if u.RawQuery != "" {
		query, err := url.QueryUnescape(u.RawQuery)
		if err != nil {
			query = u.RawQuery
		}
		decoded += "?" + query
	}
	sent := strings.ToLower(u.RequestURI())
	if decoded = strings.ToLower(decoded); decoded != sent && session.AnyGlob(s.Cookies.ProtectLogout, decoded) {
		return true
	}
	return session.AnyGlob(s.Cookies.ProtectLogout, sent)
}

// evidence gathers what tells whose request it is, and remembers clients that
// are browsers: to plain http sites they send no Fetch metadata.
func (x *exchange) evidence(r *http.Request) session.Evidence {
	h := r.Header
	e := session.Evidence{
		Method: r.Method, Secure: x.target.secure, Host: x.target.host,
		WebSocket: strings.EqualFold(x.upgrade, "websocket"),
		FetchSite: first(h, "Sec-Fetch-Site"), FetchMode: first(h, "Sec-Fetch-Mode"), FetchDest: first(h, "Sec-Fetch-Dest"),
		Origin: first(h, "Origin"), Referer: first(h, "Referer"),
		ThirdParty:              len(h["Sec-Fetch-Storage-Access"]) > 0,
		Preflight:               r.Method == http.MethodOptions && len(h["Access-Control-Request-Method"]) > 0,
		UpgradeInsecureRequests: first(h, "Upgrade-Insecure-Requests") != "",
		Cookie:                  len(x.cookie) > 0,
	}
	if e.Origin != "" && e.FetchSite != "same-origin" {
		e.SameOrigin = e.Origin == x.target.scheme()+"://"+x.target.authority()
		e.Anonymous = x.p.publicOnly.has(x.askedBy(r, r.Method)...)
	}
	agent := first(h, "User-Agent")
	if e.FetchSite != "" {
		e.Browser = true
		x.p.browsers.add(x.id.name, agent)
	} else {
		e.Browser = x.p.browsers.has(x.id.name, agent)
	}
	x.browser = e.Browser
	return e
}

// inUse says whether the exchange takes part in a session.
func (x *exchange) inUse() bool { return x.site != nil && x.id.session != session.NoneID }

// endsHere answers a request whose Max-Forwards let it come so far only.
func endsHere(method string) *refusal {
	if method == http.MethodTrace {
		return refuse(http.StatusMethodNotAllowed, "http_request_denied", "trace", "TRACE is not served by this proxy.")
	}
	return refuse(http.StatusOK, "", "max_forwards", "By its Max-Forwards, this request ends at the proxy.")
}

func misdirected(public string) *refusal {
	return deny(http.StatusMisdirectedRequest, "http_request_error", "misdirected", public)
}

// first is h.Get for a canonical name, without the canonicalization.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}
