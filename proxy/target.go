package proxy

import (
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// target is where a request goes.
type target struct {
	host   string // canonical: what TLS verifies, and what cookies go by
	port   string
	secure bool // https
	ip     bool // host is an IP literal
}

func (t target) addr() string { return net.JoinHostPort(t.host, t.port) }

func (t target) scheme() string {
	if t.secure {
		return "https"
	}
	return "http"
}

// authority is the URL's host: without the port where it is the scheme's own.
func (t target) authority() string {
	if t.secure && t.port == "443" || !t.secure && t.port == "80" {
		if strings.Contains(t.host, ":") {
			return "[" + t.host + "]"
		}
		return t.host
	}
	return t.addr()
}

// internalHost is a name that only this proxy answers.
const internalHost = "sessionproxy.internal"

// connectTarget reads the authority of a CONNECT (RFC 9110 section 9.3.6). It
// takes the request line as it came: net/http would drop a userinfo from it.
func connectTarget(r *http.Request) (target, *refusal) {
	host, port, err := net.SplitHostPort(r.RequestURI)
	if err != nil {
		return target{}, badTarget("CONNECT wants HOST:PORT.")
	}
	return newTarget(host, port, false)
}

// plainTarget reads the absolute URL of a request outside a tunnel. An https
// URL is for old clients that leave TLS to the proxy.
func plainTarget(u *url.URL) (target, *refusal) {
	var secure bool
	port := "80"
	switch u.Scheme {
	case "http":
	case "https":
		secure, port = true, "443"
	default:
		return target{}, badTarget("This proxy speaks http and https, no other scheme.")
	}
	if u.User != nil {
		return target{}, badTarget("The URL must hold no user name.")
	}
	if p := u.Port(); p != "" {
		port = p
	}
	return newTarget(u.Hostname(), port, secure)
}

func newTarget(host, port string, secure bool) (target, *refusal) {
	canonical, ok := session.CanonicalHost(host)
	if !ok {
		return target{}, noHost(host)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return target{}, badTarget("The port must be a number from 1 to 65535.")
	} else {
		port = strconv.FormatUint(n, 10)
	}
	_, err := netip.ParseAddr(canonical)
	return target{host: canonical, port: port, secure: secure, ip: err == nil}, nil
}

// noHost refuses what is no host. Some programs read 2130706433, 0x7f.1 and
// 0177.0.0.1 as 127.0.0.1: whoever asks for that wants to get past a guard.
func noHost(host string) *refusal {
	ref := badTarget("That is no host name.")
	host = strings.TrimSuffix(host, ".")
	last := host[strings.LastIndexByte(host, '.')+1:]
	if last != "" && '0' <= last[0] && last[0] <= '9' {
		ref = badTarget("That is no host name. Write an IPv4 address as four decimal numbers.")
		ref.audit = true
	}
	return ref
}

func badTarget(public string) *refusal {
	return refuse(http.StatusBadRequest, "http_request_error", "target", public)
}

// names says whether a Host field or an SNI means t's host. Ports and a final
// dot make no difference.
func (t target) names(hostport string) bool {
	if hostport == t.host {
		return true
	}
	host := hostport
	if _, port, err := net.SplitHostPort(hostport); err == nil {
		if strings.Trim(port, "0123456789") != "" {
			return false // "shop.test:@evil.test", which some read the other way
		}
		host = strings.TrimSuffix(host, ":"+port)
	}
	canonical, ok := session.CanonicalHost(host) // which may be in brackets if it is an IPv6 address
	return ok && strings.TrimSuffix(canonical, ".") == strings.TrimSuffix(t.host, ".")
}
