// Package egress decides where the proxy may connect to for its clients. A
// proxy stands inside a network and its clients may not: what only its machine
// reaches, such as a cloud's metadata or a database on loopback, must not be
// theirs for the asking.
//
// Addresses are judged, not names, and at the last moment before the connection
// is made: a name that resolves to another address the second time gains
// nothing. Dialling, and the addresses of our own listeners, are its caller's
// part.
package egress

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// Guard judges destinations by the operator's rules. It never changes, and is
// safe for concurrent use.
type Guard struct{ rules config.Egress }

// New returns the guard of c.
func New(c config.Egress) *Guard { return &Guard{c} }

// Refusal says that a destination is not to be reached.
type Refusal struct {
	Kind   string     // of address, see [Kind], or [Denied]
	Addr   netip.Addr // that was judged; zero where it was a name
	Reason string     // a sentence for the client, without the address, that names the setting
}

// Error is for the log.
func (r *Refusal) Error() string {
	if !r.Addr.IsValid() {
		return "egress: " + r.Kind
	}
	return fmt.Sprintf("egress: %s is %s", r.Addr, r.Kind)
}

// Denied is the kind of what egress.deny names.
const Denied = "denied"

// Addr judges the address a, to which host resolved. declared says that a site
// declares the host. The result is nil where it may be reached.
func (g *Guard) Addr(host string, a netip.Addr, declared bool) *Refusal {
	a = a.Unmap().WithZone("")
	host = strings.TrimSuffix(host, ".")
	if g.denies(host, a) {
		return denied(host, a)
	}
	if g.rules.Mode == config.EgressOpen {
		return nil
	}
	switch kind := KindOf(a); {
	case kind == Public, addressed(g.rules.Allowed, a):
		return nil
	case kind != LinkLocal && kind != Metadata && (declared || named(g.rules.Allowed, host)):
		return nil
	default:
		return &Refusal{string(kind), a, reason(host, kind, declared)}
	}
}

// Name judges a host that another resolves, such as an upstream proxy: by its
// address where it is one, else by whether the name has a meaning there that is
// local. The host is canonical, see [session.CanonicalHost].
func (g *Guard) Name(host string, declared bool) *Refusal {
	if a, err := netip.ParseAddr(host); err == nil {
		return g.Addr(host, a, declared)
	}
	host = strings.TrimSuffix(host, ".")
	kind := kindOfName(host)
	switch {
	case named(g.rules.Denied, host):
		return denied(host, netip.Addr{})
	case g.rules.Mode == config.EgressOpen, kind == Public, declared, named(g.rules.Allowed, host):
		return nil
	}
	return &Refusal{string(kind), netip.Addr{}, reason(host, kind, declared)}
}

// kindOfName tells names that a resolver answers by where it stands: those of
// RFC 6761, RFC 6762, RFC 8375 and ICANN's .internal, and names of one label,
// which search domains complete.
func kindOfName(host string) Kind {
	last := host[strings.LastIndexByte(host, '.')+1:]
	switch {
	case last == "localhost":
		return Loopback
	case last == "local", last == "internal", last == host, host == "home.arpa", strings.HasSuffix(host, ".home.arpa"):
		return Private
	}
	return Public
}

func (g *Guard) denies(host string, a netip.Addr) bool {
	if named(g.rules.Denied, host) || addressed(g.rules.Denied, a) {
		return true
	}
	inner, ok := embedded(a)
	return ok && addressed(g.rules.Denied, inner)
}

func denied(host string, a netip.Addr) *Refusal {
	return &Refusal{Denied, a, fmt.Sprintf("%s is where this proxy leads nobody: its operator has named it in egress.deny.", host)}
}

// reason has no address in it: what an inner name resolves to is not the
// client's to know.
func reason(host string, kind Kind, declared bool) string {
	who, remedy := "only declared sites", "declare the host as a site, or name it in egress.allow"
	if declared || kind == LinkLocal || kind == Metadata {
		who, remedy = "nobody", "name the address in egress.allow"
	}
	return fmt.Sprintf("%s leads to %s, and this proxy lets %s go there. Its operator can %s.", host, words[kind], who, remedy)
}

func named(list []config.Destination, host string) bool {
	for _, d := range list {
		if d.Host != "" && session.Glob(d.Host, host) {
			return true
		}
	}
	return false
}

func addressed(list []config.Destination, a netip.Addr) bool {
	for _, d := range list {
		if d.Net.IsValid() && d.Net.Contains(a) {
			return true
		}
	}
	return false
}
