package proxy

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
)

// identity is who sent a request, and which session it asked for.
type identity struct {
	client  *client // nil where none are declared, or nobody asked
	name    string  // of the client; "" unnamed
	from    netip.Addr
	grant   *access.Grant  // that came as the password; nil: none did
	worker  string         // its address unless it names itself
	session string         // ID of the session, or session.NoneID
	by      trace.Selector // of the session
}

// selectors are what a user name, or a port, says.
type selectors struct {
	client, worker, session string
}

// sessionHeader selects a session where a client can send header fields but no
// credentials.
const sessionHeader = "X-Proxy-Session"

// identify finds out whose request req is, by the rules r. For each selector the pinned port
// comes first, then the credentials, then the header.
func (p *Proxy) identify(r *rules, l *config.Listen, req *http.Request) (*identity, *refusal) {
	remote := remoteIP(req)
	if !admits(l.From, remote) {
		return nil, deny(http.StatusForbidden, "http_request_denied", "address_not_allowed",
			"This proxy port does not serve your address.")
	}
	id := &identity{from: remote, worker: remote.String(), session: session.DefaultID, by: trace.ByDefault}
	pin := selectors{client: l.Client, session: l.Session}

	named, pass, given := basicAuth(req.Header.Get("Proxy-Authorization"))
	sel := selectors{}
	if given {
		var ref *refusal
		if sel, ref = parseUser(named); ref != nil {
			return nil, ref
		}
	}
	switch {
	case pin.client != "":
		id.name = pin.client
		id.client = r.clients[pin.client]
	case given && r.clients != nil && pass != "" && inClear(l, req):
		return nil, deny(http.StatusForbidden, "http_request_denied", "password_in_clear",
			"Your password crossed the network in clear, so change it. This port wants none: use one with TLS, or send no credentials here.")
	case given:
		var cl *client
		var ref *refusal
		if p.access != nil && r.clients != nil && access.LooksLikeToken(pass) {
			cl, id.grant, ref = p.byToken(req.Context(), r, sel.client, pass)
		} else {
			cl, ref = p.verify(r, remote, sel.client, pass)
		}
		if ref != nil {
			return nil, ref
		}
		id.name, id.client = sel.client, cl
	case l.Auth == config.AuthAsk:
		return nil, authRequired("This proxy asks for a user name and a password.")
	}
	if sel.worker != "" {
		id.worker = sel.worker
	}
	switch {
	case pin.session != "":
		id.session, id.by = pin.session, trace.ByPort
	case sel.session != "":
		id.session, id.by = sel.session, trace.ByCredentials
	case headerMaySelect(req, p.browsers.has(id.name, first(req.Header, "User-Agent"))):
		if s := req.Header.Get(sessionHeader); s != "" {
			if !session.ValidID(s) {
				return nil, badSelector(sessionHeader + " must be 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -")
			}
			id.session, id.by = s, trace.ByHeader
		}
	}
	return id, nil
}

// selectorIgnored is for the audit log: the request goes on, in the session that
// its connection or its credentials are for.
var selectorIgnored = deny(http.StatusForbidden, "http_request_denied", "selector_ignored", "")

// inClear says whether what came on the request could be read on its way.
func inClear(l *config.Listen, req *http.Request) bool {
	if l.TLS || l.PlainAuth {
		return false
	}
	local, ok := req.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && !local.IP.IsLoopback()
}

// headerMaySelect: a page's script can add header fields to its requests; on
// CONNECT it can't. On plain http a request with Fetch metadata or an Origin may
// be a script's, and one of a browser without: it sends neither to a page's own
// origin there.
func headerMaySelect(r *http.Request, browser bool) bool {
	if r.Method == http.MethodConnect {
		return true
	}
	h := r.Header
	return !browser && len(h["Origin"]) == 0 && len(h["Sec-Fetch-Site"]) == 0 && len(h["Sec-Fetch-Mode"]) == 0 && len(h["Sec-Fetch-Dest"]) == 0
}

// again judges by the rules of today a client that was admitted when its tunnel
// was opened: a reload may have taken its rights, its password or its name.
func (r *rules) again(c *connection) (*identity, *refusal) {
	if r == c.rules || r.clients == nil {
		return c.id, nil
	}
	now := r.clients[c.id.name]
	switch {
	case now == nil && (c.asks || c.id.name != ""),
		now != nil && c.id.client != nil && c.id.grant == nil && !now.secret.Same(c.id.client.secret):
		return nil, deny(http.StatusForbidden, "http_request_denied", "client_changed",
			"The proxy's clients have changed since this tunnel was opened: open another.")
	}
	id := *c.id
	id.client = now
	return &id, nil
}

// verify finds the client that a name and a password are of. What is wrong with
// them neither the answer tells nor the time it takes.
func (p *Proxy) verify(r *rules, from netip.Addr, name, pass string) (*client, *refusal) {
	if r.clients == nil {
		return nil, nil
	}
	cl := r.clients[name]
	secret := p.passwords.Decoy(name, r.secrets)
	if cl != nil {
		secret = cl.secret
	}
	switch right, err := p.passwords.Check(from, name, pass, secret, cl != nil); {
	case right:
		return cl, nil
	case errors.Is(err, password.ErrBusy):
		return nil, later(http.StatusServiceUnavailable, "busy", "The proxy is checking as many passwords as it can. Try again in a few seconds.")
	case err != nil:
		p.metrics.authFailures.WithLabelValues("too_many").Inc()
		ref := later(http.StatusTooManyRequests, "too_many_failures", "Too many wrong passwords have come from your address. Try again in a few seconds, with the right one.")
		ref.audit, ref.login = true, true
		return nil, ref
	}
	p.metrics.authFailures.WithLabelValues("password").Inc()
	return nil, wrongCredentials(cl, name)
}

// wrongCredentials refuses a name, of the client cl if there is one, with what
// came with it.
func wrongCredentials(cl *client, name string) *refusal {
	ref := authRequired("The proxy user name or password is wrong.")
	ref.audit, ref.login = true, true
	if cl != nil { // else it may be a password in the wrong place
		ref.of = name
	}
	return ref
}

// later refuses what may be tried again.
func later(status int, code, public string) *refusal {
	ref := refuse(status, "http_request_denied", code, public)
	ref.header = http.Header{"Retry-After": {strconv.Itoa(int(password.RetryAfter.Seconds()))}}
	return ref
}

// admit says whether the identity may use the session on the site.
func (id *identity) admit(s *site) *refusal {
	if id.client == nil {
		return nil
	}
	if id.client.sites != nil && !id.client.sites[s.Name] {
		return deny(http.StatusForbidden, "http_request_denied", "site_not_allowed",
			fmt.Sprintf("The proxy client %s may not use the site %s.", id.name, s.Name))
	}
	if !id.grants(s) {
		return deny(http.StatusForbidden, "http_request_denied", "token_not_for_this",
			fmt.Sprintf("The token that the proxy client %s came with is not for the site %s, or not for the session %s.", id.name, s.Name, id.session))
	}
	if !id.client.MayUse(id.session) {
		return deny(http.StatusForbidden, "http_request_denied", "session_not_allowed",
			fmt.Sprintf("The proxy client %s may not use the session %s. Select one of %s with the proxy user name %s-session-ID.",
				id.name, id.session, strings.Join(id.client.Sessions, " "), id.name))
	}
	return nil
}

// writes says whether the identity may change sessions.
func (id *identity) writes() bool { return id.client == nil || id.client.Access != config.Read }

const (
	workerMark  = "-worker-"
	sessionMark = "-session-"
)

// parseUser reads <client>[-worker-<id>][-session-<id>]. Each value runs up to
// the next mark.
func parseUser(user string) (selectors, *refusal) {
	var s selectors
	field, key, rest := &s.client, "", user
	for {
		at, mark := nextMark(rest)
		value := rest
		if mark != "" {
			value = rest[:at]
		}
		if *field != "" {
			return s, badSelector(fmt.Sprintf("%s stands twice in the proxy user name", strings.Trim(key, "-")))
		}
		if key != "" && !session.ValidID(value) {
			return s, badSelector(fmt.Sprintf("%s in the proxy user name must be 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -", strings.Trim(key, "-")))
		}
		*field = value
		if mark == "" {
			return s, nil
		}
		key, rest = mark, rest[at+len(mark):]
		field = &s.worker
		if mark == sessionMark {
			field = &s.session
		}
	}
}

func nextMark(s string) (at int, mark string) {
	w, n := strings.Index(s, workerMark), strings.Index(s, sessionMark)
	switch {
	case w >= 0 && (n < 0 || w < n):
		return w, workerMark
	case n >= 0:
		return n, sessionMark
	}
	return 0, ""
}

// basicAuth reads Basic credentials (RFC 7617). The scheme has no case.
func basicAuth(h string) (user, password string, ok bool) {
	scheme, rest, _ := strings.Cut(h, " ")
	if !strings.EqualFold(scheme, "Basic") {
		return "", "", false
	}
	b, err := base64.StdEncoding.DecodeString(strings.TrimSpace(rest))
	if err != nil {
		return "", "", false
	}
	user, password, _ = strings.Cut(string(b), ":")
	return user, password, true
}

func authRequired(public string) *refusal {
	ref := refuse(http.StatusProxyAuthRequired, "http_request_denied", "credentials", public)
	ref.header = http.Header{"Proxy-Authenticate": {`Basic realm="sessionproxy", charset="UTF-8"`}}
	return ref
}

func badSelector(public string) *refusal {
	return refuse(http.StatusBadRequest, "http_request_error", "selector", public+".")
}

func admits(from []netip.Prefix, a netip.Addr) bool {
	if len(from) == 0 {
		return true
	}
	for _, p := range from {
		if p.Contains(a) {
			return true
		}
	}
	return false
}

// remoteIP is the client's address without its port. The zero Addr where the
// listener is no IP listener.
func remoteIP(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return a.Unmap()
}
