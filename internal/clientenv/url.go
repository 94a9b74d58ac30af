package clientenv

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// proxyURL is the proxy as a client writes it.
type proxyURL struct {
	tls      bool
	addr     string // host:port
	user     string // "" for none
	password string
	checked  bool // whether the proxy is known to check the password
}

// noPassword stands for none. A proxy without declared clients ignores it;
// without any, Python's urllib and Node send no credentials at all.
const noPassword = "x"

func (p proxyURL) String() string {
	scheme := "http://"
	if p.tls {
		scheme = "https://"
	}
	if p.user == "" {
		return scheme + p.addr
	}
	return scheme + escape(p.user) + ":" + escape(cmp.Or(p.password, noPassword)) + "@" + p.addr
}

// escape percent-encodes all but unreserved characters (RFC 3986 section 2.3).
// net/url leaves some that other parsers give a meaning, such as "+".
func escape(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "+", "%20") }

func (p proxyURL) host() string {
	host, _, _ := net.SplitHostPort(p.addr)
	return host
}

func (p proxyURL) port() string {
	_, port, _ := net.SplitHostPort(p.addr)
	return port
}

// parseProxy reads HOST:PORT, or http:// or https:// and that.
func parseProxy(s string) (proxyURL, error) {
	rest, tls := strings.CutPrefix(s, "https://")
	addr, err := parseAddr(strings.TrimPrefix(rest, "http://"))
	return proxyURL{tls: tls, addr: addr}, err
}

// parseAddr reads HOST:PORT and returns an address to dial.
func parseAddr(s string) (string, error) {
	host, port, err := net.SplitHostPort(s)
	if err != nil || strings.ContainsAny(host, "/@?# ") {
		return "", fmt.Errorf("%q is no address: write HOST:PORT", s)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("%q has no port of 1 to 65535", s)
	}
	return net.JoinHostPort(dialable(host), port), nil
}

// dialable is the host that reaches a listener on host from this machine.
func dialable(host string) string {
	switch ip := net.ParseIP(host); {
	case host == "", ip.Equal(net.IPv4zero):
		return "127.0.0.1"
	case ip.Equal(net.IPv6unspecified):
		return "::1"
	}
	return host
}

// nobody is the client of who names none, but a worker or a session.
const nobody = "run"

// userName is <client>[-worker-<id>][-session-<id>], or "" where nothing is
// said.
func userName(client, worker, id string) string {
	if client == "" && worker == "" && id == "" {
		return ""
	}
	user := cmp.Or(client, nobody)
	if worker != "" {
		user += "-worker-" + worker
	}
	if id != "" {
		user += "-session-" + id
	}
	return user
}

// checkID says what is wrong with a selector. The proxy would take an ID that
// holds the mark of another for two.
func checkID(flag, id string) error {
	if !session.ValidID(id) {
		return fmt.Errorf("%s %q: an ID is 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -", flag, id)
	}
	for _, mark := range []string{"-worker", "-session"} {
		if strings.Contains(id, mark+"-") || strings.HasSuffix(id, mark) {
			return fmt.Errorf("%s %q: %s- parts a user name, so an ID cannot hold it", flag, id, mark)
		}
	}
	return nil
}
