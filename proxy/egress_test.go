package proxy_test

import (
	"context"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// enforcing has the rules of a configuration file's defaults, which the tests'
// small internet, all on loopback, can't do with.
func enforcing(allow, deny string) func(*config.Config) {
	return func(c *config.Config) {
		c.Egress = config.Egress{Mode: config.EgressEnforce}
		for list, into := range map[string]*[]config.Destination{allow: &c.Egress.Allowed, deny: &c.Egress.Denied} {
			for entry := range strings.FieldsSeq(list) {
				d, err := config.ParseDestination(entry)
				if err != nil {
					panic(err)
				}
				*into = append(*into, d)
			}
		}
	}
}

// nowhere is what no test of ours may reach.
func nowhere(t *testing.T) (port string) {
	addr := world.Serve(t, func(c *world.Conn) {
		t.Error("a destination was reached that is not to be")
		c.Close()
	})
	_, port, _ = net.SplitHostPort(addr)
	return port
}

func TestUndeclaredHostsLeadToPublicAddressesOnly(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Config: enforcing("", "")})
	port := nowhere(t)
	refused := 0.0
	for _, host := range []string{"127.0.0.1", "localhost", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "0.0.0.0", "[::]", "[::1]", "10.255.255.1", "169.254.169.254", "[fe80::1]"} {
		t.Run(host, func(t *testing.T) {
			a := w.Dial(t).Connect(host + ":" + port)
			wantRefusal(t, a, 403, "destination_ip_prohibited", "egress")
			if !strings.Contains(a.Text, "egress.allow") {
				t.Errorf("the client reads %q, which names no setting", a.Text)
			}
			c := w.Dial(t)
			c.Send("GET http://" + host + ":" + port + "/ HTTP/1.1\r\nHost: x\r\n\r\n")
			wantRefusal(t, c.Answer("GET"), 403, "destination_ip_prohibited", "egress")
		})
		refused += 2
	}
	if got := count(t, w.Proxy, "sessionproxy_egress_total", "outcome", "refused"); got < refused {
		t.Errorf("%v refusals are counted, want %v", got, refused)
	}
	w.WantRecord(t, "exchange", "mode", "plain", "host", "127.0.0.1", "outcome", "refused", "refused", "egress")
}

// What the operator wrote himself is his own word: not even his deny is held
// against his resolve.
func TestAnAddressThatTheOperatorWroteIsNotJudged(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: enforcing("", "shop.test 127.0.0.0/8")})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		if a := w.Get(t, via, "/"); a.StatusCode != 200 {
			t.Errorf("a site with resolve: %d %s", a.StatusCode, a.Text)
		}
	})
}

func TestReportOnlyTells(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Config: func(c *config.Config) { c.Egress.Mode = config.EgressReport }})
	addr := world.Serve(t, echo)
	if a := w.Dial(t).Connect(addr); a.StatusCode != 200 {
		t.Errorf("%s", a.Status)
	}
	w.WantRecord(t, "egress: mode enforce would refuse this connection", "host", "127.0.0.1", "kind", "loopback")
	if got := count(t, w.Proxy, "sessionproxy_egress_total", "outcome", "reported", "kind", "loopback"); got != 1 {
		t.Errorf("%v reports are counted, want 1", got)
	}
}

// A reload that closes a door closes it on connections that are open, too.
func TestAReloadOfEgressLeavesNoWarmConnection(t *testing.T) {
	t.Parallel()
	addr := world.Serve(t, always("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	w := world.New(t, world.Options{})
	w.Change(t, func(c *config.Config) { enforcing("127.0.0.1", "")(c) })
	get := func() *world.Answer {
		c := w.Dial(t)
		c.Send("GET http://" + addr + "/ HTTP/1.1\r\nHost: " + addr + "\r\n\r\n")
		return c.Answer("GET")
	}
	if a := get(); a.StatusCode != 200 {
		t.Fatalf("while it is allowed: %d %s", a.StatusCode, a.Text)
	}
	w.Change(t, func(c *config.Config) { enforcing("", "")(c) })
	wantRefusal(t, get(), 403, "destination_ip_prohibited", "egress")
}

// A name that leads elsewhere the second time (DNS rebinding) gains nothing:
// what is dialled is what was judged. It changes the resolver of the process,
// so no other test runs beside it.
func TestANameThatTurnsToLoopbackOrMetadataIsRefused(t *testing.T) {
	var lookups atomic.Int64
	turn := []string{"127.0.0.2", "127.0.0.1", "169.254.169.254"}
	resolve(t, func(string) string { return turn[min(int(lookups.Add(1))-1, len(turn)-1)] })

	ln, err := net.Listen("tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	go closeAll(ln)
	other, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	go closeAll(other)

	w := world.New(t, world.Options{Config: enforcing("127.0.0.2", ""), Faulty: true})
	if a := w.Dial(t).Connect("rebind.test:" + port); a.StatusCode != 200 {
		t.Fatalf("while the name leads where it may: %s %s", a.Status, a.Text)
	}
	for _, kind := range []string{"loopback", "metadata"} {
		a := w.Dial(t).Connect("rebind.test:" + port)
		wantRefusal(t, a, 403, "destination_ip_prohibited", "egress")
		if got := count(t, w.Proxy, "sessionproxy_egress_total", "kind", kind, "outcome", "refused"); got != 1 {
			t.Errorf("%s: %v refusals are counted, want 1", kind, got)
		}
	}
	w.Audit.WantRecord(t, "client_refused", "reason", "egress", "host", "rebind.test", "outcome", "refused")
	// Declared sites may be private, but are no metadata.
	w.Change(t, func(c *config.Config) {
		enforcing("", "")(c)
		c.Sites = append(c.Sites, world.Site("turned", "*.turned.test"))
	})
	get := func(host string) *world.Answer {
		c := w.Dial(t)
		c.Send("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		return c.Answer("GET")
	}
	a := get("www.turned.test")
	wantRefusal(t, a, 403, "destination_ip_prohibited", "egress")
	if strings.Contains(a.Text, "169.254") {
		t.Errorf("the client learns what the name resolves to: %q", a.Text)
	}
	resolve(t, func(string) string { return "127.0.0.1" })
	if a := get("www.turned.test:" + port); a.StatusCode != 502 { // it is reached, and closes
		t.Errorf("a declared site on loopback: %d %s", a.StatusCode, a.Text)
	}
}

// closeAll takes connections and closes them, until ln is closed.
func closeAll(ln net.Listener) {
	for {
		c, err := ln.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

// resolve answers the process's DNS lookups until the test ends.
func resolve(t *testing.T, addr func(name string) string) {
	t.Helper()
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	done := make(chan struct{})
	t.Cleanup(func() {
		net.DefaultResolver = before
		server.Close()
		<-done
	})
	go func() {
		defer close(done)
		buf := make([]byte, 512)
		for {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			var m dnsmessage.Message
			if m.Unpack(buf[:n]) != nil {
				continue
			}
			m.Response, m.Additionals = true, nil
			if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
				m.Answers = []dnsmessage.Resource{{
					Header: dnsmessage.ResourceHeader{Name: q.Name, Class: q.Class},
					Body:   &dnsmessage.AResource{A: netip.MustParseAddr(addr(q.Name.String())).As4()},
				}}
			}
			if out, err := m.Pack(); err == nil {
				_, _ = server.WriteTo(out, from)
			}
		}
	}()
}
