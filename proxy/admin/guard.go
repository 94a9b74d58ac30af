package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// names are what a listener of ours may be called in a Host field. A page that
// has its own name resolve to our address (DNS rebinding) is the same origin
// as we are to the browser; only the name gives it away.
type names struct {
	hosts map[string]bool // as in a URL: lower case, IPv6 in brackets
	port  string
}

// newNames are the loopback names, the host of addr, and others. An addr that
// cannot be read only leaves fewer names.
func newNames(addr string, others []string) names {
	host, port, _ := net.SplitHostPort(addr)
	n := names{hosts: map[string]bool{"localhost": true, "127.0.0.1": true, "[::1]": true}, port: port}
	for _, name := range append([]string{host}, others...) {
		if strings.Contains(name, ":") {
			name = "[" + name + "]"
		}
		n.hosts[undotted(name)] = true
	}
	delete(n.hosts, "") // the host of ":8081"
	return n
}

// include judges a Host field (RFC 9110 section 7.2). Nothing is parsed that a
// browser might parse otherwise: 2130706433 and [::ffff:127.0.0.1] may lead
// here as well, but they are on no list.
func (n names) include(field string) bool {
	host, port := field, n.port
	if i := strings.LastIndexByte(field, ':'); i >= 0 && !strings.HasSuffix(field, "]") {
		host, port = field[:i], field[i+1:]
	}
	return port == n.port && n.hosts[undotted(host)]
}

func undotted(host string) string { return strings.ToLower(strings.TrimSuffix(host, ".")) }

// isForeign says whether a page of another origin made the request, as far as
// a browser tells. Unlike [http.CrossOriginProtection] it lets no method pass:
// a GET shows sessions, and as a script even the PAC file can be read.
func isForeign(r *http.Request) bool {
	own := "http://" + r.Host
	if r.TLS != nil {
		own = "https://" + r.Host
	}
	for _, origin := range r.Header["Origin"] {
		if !strings.EqualFold(origin, own) {
			return true
		}
	}
	for _, from := range r.Header["Sec-Fetch-Site"] {
		if from != "same-origin" && from != "none" { // none: typed, or a bookmark
			return true
		}
	}
	return false
}

// isVisit says whether somebody follows a link to the dashboard from anywhere:
// that page holds no data, and lies in no frame.
func isVisit(r *http.Request) bool {
	return r.Method == http.MethodGet && r.URL.Path == "/" && len(r.Header["Origin"]) == 0 &&
		r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// bearer reads a token (RFC 6750 section 2.1).
func bearer(fields []string) (token string, ok bool) {
	if len(fields) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(fields[0], " ")
	token = strings.TrimLeft(token, " ") // RFC 9110 section 11.4 lets more than one space part them
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// isToken says whether it is the admin token.
func (s *server) isToken(token string) bool {
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], s.token[:]) == 1
}
