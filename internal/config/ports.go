package config

import (
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// ports judges where the proxy listens, and for whom. An open proxy would give
// the shared logins to anyone who finds it.
func (j *judge) ports() {
	var taken []socket
	admin, ok := j.socket("admin", j.c.Admin)
	if ok {
		taken = append(taken, admin)
		if !admin.loopback() && !j.c.TLS.set() && j.ok("tls") {
			j.at("admin", "off loopback, the admin API would send its tokens in clear", "keep it on loopback, such as 127.0.0.1:"+admin.port+", or set tls: {cert: FILE, key: FILE} or tls: {domains: [HOST]} at the top")
		}
	}
	if ops, ok := j.socket("ops", j.c.Ops); ok {
		j.free(ops, taken)
		taken = append(taken, ops)
	}
	if len(j.c.Listen) == 0 {
		j.at("listen", "the proxy would listen nowhere", "name a port, or remove the key for 127.0.0.1:8080")
	}
	for i := range j.c.Listen {
		l, at := &j.c.Listen[i], fmt.Sprintf("listen[%d]", i)
		j.identity(at, l)
		if l.TLS && !j.c.TLS.set() && j.ok("tls") {
			j.at(at+".tls", "an HTTPS proxy needs a certificate", "set tls: {cert: FILE, key: FILE} or tls: {domains: [HOST]} at the top")
		}
		s, ok := j.socket(at+".addr", l.Addr)
		if !ok {
			continue
		}
		j.free(s, taken)
		taken = append(taken, s)
		j.exposed(at, l, s)
	}
	if len(j.c.TLS.Domains) == 0 {
		return
	}
	if http, ok := j.socket("tls.http", j.c.TLS.HTTP); ok {
		j.free(http, taken)
	}
}

// AdminTLS says whether the admin API speaks TLS: off loopback, with the
// certificate of tls.
func (c *Config) AdminTLS() bool {
	host, port, err := net.SplitHostPort(c.Admin)
	if err != nil {
		return false
	}
	if canonical, ok := session.CanonicalHost(host); ok {
		host = canonical
	}
	return !socket{"", host, port}.loopback()
}

// OpenPorts judges ports that are open already against c's clients: listen
// changes at a restart only, and a port must not be opened to everybody by
// clients that go. Its error is of type [Faults], without places in the file.
func (c *Config) OpenPorts(open []Listen) error {
	j := &judge{report: newReport(), c: &Config{Listen: open, Clients: c.Clients}}
	for i, l := range open {
		at := fmt.Sprintf("listen[%d]", i)
		j.places[at] = place{name: "listen " + l.Addr}
		j.identity(at, &l)
		if s, ok := j.socket(at+".addr", l.Addr); ok {
			j.exposed(at, &l, s)
		}
	}
	if faults := j.faults(nil); len(faults) > 0 {
		return faults
	}
	return nil
}

// identity judges whom a port takes its users for, and sets the default of auth.
func (j *judge) identity(at string, l *Listen) {
	pinned := l.Client != ""
	if pinned && l.Auth == AuthAsk {
		j.at(at+".auth", "a port with a client never asks", "remove auth, or client")
	}
	if l.Auth == "" {
		l.Auth = AuthNone
		if len(j.c.Clients) > 0 && !pinned {
			l.Auth = AuthAsk
		}
	}
	sessionOK := l.Session == "" || session.ValidID(l.Session)
	if !sessionOK {
		j.at(at+".session", "this is no session's ID", "an ID is "+idForm)
	}
	if !pinned || !j.ok("clients") {
		return
	}
	if len(j.c.Clients) == 0 {
		j.clientName(at+".client", l.Client)
		return
	}
	names, known := map[string]bool{}, true
	for i, c := range j.c.Clients {
		names[c.Name] = true
		known = known && j.ok(fmt.Sprintf("clients[%d].name", i))
		if c.Name == l.Client && sessionOK && !c.MayUse(l.Session) {
			j.at(at+".session", "this client may not use this session", "add it to the client's sessions, which are "+strings.Join(c.Sessions, ", "))
		}
	}
	if !names[l.Client] && known {
		j.at(at+".client", "no client has this name", j.oneOf(l.Client, names))
	}
}

// exposed judges a port that others than this machine can reach.
func (j *judge) exposed(at string, l *Listen, s socket) {
	switch asks := l.Client == "" && l.Auth == AuthAsk; {
	case s.loopback(), !j.ok("clients"), !j.ok(at + ".from"), !j.ok(at + ".client"), !j.ok(at + ".auth"):
		return
	case len(j.c.Clients) == 0:
		j.at(at+".addr", "off loopback and without clients, whoever finds this port has the shared logins",
			"listen on 127.0.0.1:"+s.port+", or declare clients")
	case asks && !l.TLS && !l.PlainAuth && j.ok(at+".tls") && j.ok(at+".plain_auth"):
		j.at(at+".addr", "off loopback, passwords would cross the network in clear",
			"set tls: true, or plain_auth: true on a private network")
	case !asks && len(l.From) == 0:
		j.at(at+".addr", "this port asks nobody: off loopback, whoever finds it has the shared logins",
			"say whom it serves, such as from: [10.0.0.0/8], or set auth: ask")
	case !asks:
		for i, p := range l.From {
			if p.Bits() == 0 {
				j.at(fmt.Sprintf("%s.from[%d]", at, i), "this is everyone, and the port asks nobody", "name the networks it serves, or set auth: ask")
			}
		}
	}
}

// socket is an address to listen on.
type socket struct {
	at         string // its path
	host, port string // host is canonical; "" all addresses
}

// socket reads an address and reports what is wrong with it.
func (j *judge) socket(at, text string) (socket, bool) {
	if !j.ok(at) {
		return socket{}, false
	}
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		remedy := "write it like 127.0.0.1:8080"
		if _, err := strconv.ParseUint(text, 10, 16); err == nil {
			remedy = "write 127.0.0.1:" + text
		}
		j.at(at, "an address is HOST:PORT", remedy)
		return socket{}, false
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		j.at(at, "this is no port", "a port is 1 to 65535, or 0 for any free one")
		return socket{}, false
	}
	if host != "" {
		canonical, ok := session.CanonicalHost(host)
		if !ok {
			j.at(at, "this is no host to listen on", "write an address of this machine, such as 127.0.0.1")
			return socket{}, false
		}
		host = canonical
	}
	return socket{at, host, port}, true
}

// free reports where s meets one of the sockets that are taken.
func (j *judge) free(s socket, taken []socket) {
	for _, t := range taken {
		if !s.meets(t) {
			continue
		}
		// The one that was written is to be changed, not a default.
		at, other := s.at, t.at
		if _, written := j.place(at); !written {
			at, other = other, at
		}
		name, _, _ := strings.Cut(other, "[")
		j.at(at, fmt.Sprintf("this address is taken by %s (%s)", name, j.ref(other)), "choose another port")
		return
	}
}

// meets says whether two sockets cannot both be bound.
func (s socket) meets(t socket) bool {
	if s.port != t.port || s.port == "0" {
		return false
	}
	a, b := s.ip(), t.ip()
	if !a.IsValid() || !b.IsValid() {
		return s.host == t.host
	}
	return a == b || a.IsUnspecified() && (a.Is6() || b.Is4()) || b.IsUnspecified() && (b.Is6() || a.Is4())
}

// ip is the address of the host: [::] listens on IPv4 too.
func (s socket) ip() netip.Addr {
	switch s.host {
	case "":
		return netip.IPv6Unspecified()
	case "localhost":
		return netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	a, _ := netip.ParseAddr(s.host)
	return a.Unmap()
}

// loopback says whether only this machine reaches s. A name may lead anywhere.
func (s socket) loopback() bool { return s.ip().IsLoopback() }
