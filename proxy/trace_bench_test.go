package proxy

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
)

// BenchmarkLeaveTrace is what an exchange pays at its end for a trace that nobody
// reads.
func BenchmarkLeaveTrace(b *testing.B) {
	c, err := session.ParseSetCookie("sid=1", session.Setting{Host: "shop.test", Path: "/", Secure: true}, time.Now())
	if err != nil {
		b.Fatal(err)
	}
	jar, _ := new(session.Jar).Apply(session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, 1)
	p := &Proxy{traced: trace.New(nil)}
	x := &exchange{
		Context: context.Background(), p: p, mode: modeH1, method: "GET", uri: "/cart?q=1", start: time.Now(), status: 200, xid: "a-1",
		id:     &identity{name: "crawler", worker: "w1", from: netip.MustParseAddr("127.0.0.1"), session: session.DefaultID},
		target: target{host: "shop.test", port: "443"}, site: &site{Site: config.Site{Name: "shop", Cookies: config.Cookies{Inject: true}}},
		cookie: []string{"theme=dark"}, jar: jar, private: emptyJar, asked: session.Request{Host: "shop.test", Path: "/cart", Now: time.Now()},
	}
	b.ReportAllocs()
	for b.Loop() {
		x.leaveTrace(trace.OK, time.Millisecond)
	}
}
