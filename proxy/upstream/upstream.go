package upstream

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/net/idna"
)

// Upstream is a proxy that requests can leave by. Equal ones are equal values.
// It prints without its credentials.
type Upstream struct {
	scheme     string // http, https or socks5
	addr       string // host:port
	shown      string // both, as a URL: each exchange's record has it
	auth       bool   // it has credentials
	user, pass string // of any bytes
}

// defaultPorts are those of the schemes, where a URL names none.
var defaultPorts = map[string]string{"http": "80", "https": "443", "socks5": "1080"}

// Parse reads an upstream's URL: http://, https:// or socks5://, with user name
// and password where it asks for them, percent-encoded. A socks5h:// is taken
// for a socks5://: names are always looked up by the upstream. Errors hold
// nothing of the URL.
func Parse(raw string) (Upstream, error) {
	u, err := url.Parse(raw)
	switch {
	case !strings.Contains(raw, "://"):
		return Upstream{}, errors.New("the URL begins with http://, https:// or socks5://")
	case err != nil:
		return Upstream{}, errors.New("this is no URL; write %, @, : and / in a user name or password as %25, %40, %3A and %2F")
	case u.Scheme == "socks5h":
		u.Scheme = "socks5"
	case defaultPorts[u.Scheme] == "":
		return Upstream{}, errors.New("the URL begins with http://, https:// or socks5://")
	}
	switch {
	case u.Hostname() == "":
		return Upstream{}, errors.New("the URL names no host")
	case u.Path != "" && u.Path != "/", u.RawQuery != "", u.Fragment != "":
		return Upstream{}, errors.New("the URL ends after its port")
	}
	host, err := canonicalHost(u.Hostname())
	if err != nil {
		return Upstream{}, err
	}
	port := defaultPorts[u.Scheme]
	if p := u.Port(); p != "" {
		n, err := strconv.ParseUint(p, 10, 16)
		if err != nil || n == 0 {
			return Upstream{}, errors.New("a port is 1 to 65535")
		}
		port = strconv.FormatUint(n, 10)
	}
	addr := net.JoinHostPort(host, port)
	up := Upstream{scheme: u.Scheme, addr: addr, shown: u.Scheme + "://" + addr}
	if u.User != nil {
		pass, _ := u.User.Password()
		return up.WithCredentials(u.User.Username(), pass)
	}
	return up, nil
}

func canonicalHost(host string) (string, error) {
	if ip := net.ParseIP(host); ip != nil {
		return ip.String(), nil
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	if !plainHost.MatchString(host) {
		ascii, err := idna.Lookup.ToASCII(host)
		if err != nil || !plainHost.MatchString(ascii) {
			return "", errNoHost
		}
		if again, err := idna.Lookup.ToASCII(ascii); err != nil || again != ascii {
			return "", errNoHost // of bytes that are no UTF-8
		}
		host = ascii
	}
	return host, nil
}

// plainHost is what needs no translation. Underscores are in many a container's
// name.
var plainHost = regexp.MustCompile(`^[a-z0-9_-]+(\.[a-z0-9_-]+)*$`)

var errNoHost = errors.New("the URL's host is no name and no address")

// WithCredentials returns the upstream with a user name and a password.
func (u Upstream) WithCredentials(user, pass string) (Upstream, error) {
	switch {
	case u.scheme == "socks5" && (len(user) > 255 || len(pass) > 255):
		return Upstream{}, errors.New("SOCKS5 takes user names and passwords of up to 255 bytes (RFC 1929)")
	case u.scheme == "socks5" && user == "":
		return Upstream{}, errors.New("SOCKS5 takes no empty user name (RFC 1929)")
	case u.scheme != "socks5" && strings.Contains(user, ":"):
		return Upstream{}, errors.New("a user name of an HTTP proxy holds no colon (RFC 7617)")
	case len(user)+len(pass) > maxCredentials:
		return Upstream{}, errors.New("user name and password are longer than 8 KiB")
	}
	u.auth, u.user, u.pass = true, user, pass
	return u, nil
}

// maxCredentials is what fits into a request's head anywhere.
const maxCredentials = 8 << 10

// HasCredentials says whether the upstream is shown any.
func (u Upstream) HasCredentials() bool { return u.auth }

// Addr is the upstream's host:port.
func (u Upstream) Addr() string { return u.addr }

// String is the upstream's URL without its credentials.
func (u Upstream) String() string { return u.shown }

// LogValue keeps the credentials out of logs.
func (u Upstream) LogValue() slog.Value { return slog.StringValue(u.String()) }

// GoString keeps them out of %#v.
func (u Upstream) GoString() string { return u.String() }

// URL is the upstream in one spelling, credentials included: what a ledger
// knows it by. Parse reads it back.
func (u Upstream) URL() string {
	out := url.URL{Scheme: u.scheme, Host: u.addr}
	if u.auth {
		out.User = url.UserPassword(u.user, u.pass)
	}
	return out.String()
}

// ID tells upstreams of one address apart, by their user names. It is short,
// and tells nothing of the password.
func (u Upstream) ID() string {
	sum := sha256.Sum256([]byte(u.scheme + "\x00" + u.addr + "\x00" + u.user))
	return hex.EncodeToString(sum[:4])
}

// Means says whether an operator who writes name means this upstream: by its
// address, its URL with or without the credentials, or its ID.
func (u Upstream) Means(name string) bool {
	if name == u.addr || name == u.ID() {
		return true
	}
	named, err := Parse(name)
	return err == nil && (named == u || !named.auth && named.String() == u.String())
}

// forwards says whether the upstream takes plain http requests as they are.
func (u Upstream) forwards() bool { return u.scheme != "socks5" }
