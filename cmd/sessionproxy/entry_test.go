package main

import (
	"net"
	"net/netip"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

func TestTheEntryIsTheBestPort(t *testing.T) {
	t.Parallel()
	from := func(cidr string) []netip.Prefix { return []netip.Prefix{netip.MustParsePrefix(cidr)} }
	plain := config.Listen{Addr: "127.0.0.1:8080"}
	for _, tt := range []struct {
		name  string
		ports []config.Listen
		want  string
	}{
		{"the only one", []config.Listen{plain}, "http://127.0.0.1:8080"},
		{"the first of two alike", []config.Listen{{Addr: "127.0.0.1:9090"}, plain}, "http://127.0.0.1:9090"},
		{"one without TLS", []config.Listen{{Addr: "127.0.0.1:8443", TLS: true}, plain}, "http://127.0.0.1:8080"},
		{"one that is no client's own", []config.Listen{{Addr: "127.0.0.1:8091", Client: "crawler"}, plain}, "http://127.0.0.1:8080"},
		{"one that is no session's own", []config.Listen{{Addr: "127.0.0.1:8092", Session: "qa1"}, plain}, "http://127.0.0.1:8080"},
		{"one on loopback", []config.Listen{{Addr: "192.0.2.1:8080"}, {Addr: "0.0.0.0:8081"}, plain}, "http://127.0.0.1:8080"},
		{"TLS before a client's own", []config.Listen{{Addr: "127.0.0.1:8091", Client: "crawler"}, {Addr: "127.0.0.1:8443", TLS: true}}, "https://127.0.0.1:8443"},
		{"one that serves this machine", []config.Listen{{Addr: "0.0.0.0:8080", From: from("10.0.0.0/8")}, {Addr: "0.0.0.0:8443", TLS: true, From: from("127.0.0.0/8")}}, "https://127.0.0.1:8443"},
		{"any, where each is a client's own", []config.Listen{{Addr: "127.0.0.1:8091", Client: "crawler"}}, "http://127.0.0.1:8091"},
		{"IPv6 in brackets", []config.Listen{{Addr: "[::1]:8080"}}, "http://[::1]:8080"},
		{"loopback for all of IPv4", []config.Listen{{Addr: "0.0.0.0:8080"}}, "http://127.0.0.1:8080"},
		{"loopback for all of IPv6", []config.Listen{{Addr: "[::]:8443", TLS: true}}, "https://[::1]:8443"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var bound []net.Addr
			for _, l := range tt.ports {
				addr, err := net.ResolveTCPAddr("tcp", l.Addr)
				if err != nil {
					t.Fatal(err)
				}
				bound = append(bound, addr)
			}
			if got := proxyURL(entryOf(tt.ports, bound), ""); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// What is handed out for an unspecified address reaches it, whatever family
// the system bound.
func TestTheEntryCanBeDialled(t *testing.T) {
	t.Parallel()
	for _, addr := range []string{"0.0.0.0:0", "[::]:0", ":0", "127.0.0.1:0", "localhost:0"} {
		t.Run(addr, func(t *testing.T) {
			t.Parallel()
			ln, err := net.Listen("tcp", addr)
			if err != nil {
				t.Fatalf("%v: the tests need IPv6 on loopback", err)
			}
			defer ln.Close()
			entry := entryOf([]config.Listen{{Addr: addr}}, []net.Addr{ln.Addr()})
			conn, err := net.Dial("tcp", entry.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if ip := conn.RemoteAddr().(*net.TCPAddr).IP; !ip.IsLoopback() {
				t.Errorf("it leads to %s, which is not loopback", ip)
			}
		})
	}
}
