package main

import (
	"net"
	"net/netip"
	"slices"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// entry is the port that clients on this machine are told of, with an address
// that they can dial.
func (i *instance) entry() admin.Listener {
	var bound []net.Addr
	for _, ln := range i.listeners {
		bound = append(bound, ln.Addr())
	}
	port := entryOf(i.config.Listen, bound)
	if host, number, err := net.SplitHostPort(port.Addr); err == nil && port.TLS {
		port.Addr = net.JoinHostPort(i.cert.Load().name(host), number)
	}
	return port
}

// entryOf chooses the port that does for most: it serves this machine, is
// nobody's own, needs no TLS to the proxy, which some clients cannot speak, and
// listens on loopback; then it is the first. ports[n] is bound to bound[n].
func entryOf(ports []config.Listen, bound []net.Addr) admin.Listener {
	var best admin.Listener
	var least []int
	for n, l := range ports {
		at, loopback := dialable(l, bound[n])
		serves := len(l.From) == 0 || slices.ContainsFunc(l.From, func(p netip.Prefix) bool { return p.Contains(at.Addr()) })
		rank := []int{one(!serves), one(l.Client != "" || l.Session != ""), one(l.TLS), one(!loopback)}
		if least == nil || slices.Compare(rank, least) < 0 {
			best, least = admin.Listener{Addr: at.String(), TLS: l.TLS, Auth: l.Auth, Client: l.Client, Session: l.Session}, rank
		}
	}
	return best
}

// dialable is where this machine reaches a port, and whether it is bound to
// loopback alone: an unspecified address is one to listen on, not to dial.
func dialable(l config.Listen, bound net.Addr) (at netip.AddrPort, loopback bool) {
	b := bound.(*net.TCPAddr).AddrPort()
	host := b.Addr().Unmap()
	if !host.IsUnspecified() {
		return netip.AddrPortFrom(host, b.Port()), host.IsLoopback()
	}
	// Package net binds 0.0.0.0 as [::], so the family is that of what was
	// written. [::] takes IPv4 too, so without a host IPv4 is the safe choice.
	host = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	if written, err := netip.ParseAddrPort(l.Addr); err == nil && written.Addr().Unmap().Is6() {
		host = netip.IPv6Loopback()
	}
	return netip.AddrPortFrom(host, b.Port()), false
}

func one(b bool) int {
	if b {
		return 1
	}
	return 0
}

// proxyURL is a port as a client writes it. The userinfo is NAME:PASSWORD, or ""
// for none.
func proxyURL(port admin.Listener, userinfo string) string {
	scheme := "http://"
	if port.TLS {
		scheme = "https://"
	}
	if userinfo != "" {
		userinfo += "@"
	}
	return scheme + userinfo + port.Addr
}
