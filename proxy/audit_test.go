package proxy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestTheFirstUseOfASessionIsAudited(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Config: clients, Listen: asking})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		worker := world.User{Name: "crawler-worker-" + via.Name, Password: "s3cret"}
		for range 3 {
			w.GetAs(t, via, worker, set("sid=topsecret; Path=/"))
		}
		r := w.Audit.WantRecord(t, "session_used", "by", "crawler", "worker", via.Name, "site", "shop", "session", "default", "from", "127.0.0.1", "outcome", "done")
		w.WantRecord(t, "exchange", "id", r.Attrs["exchange"].String())
		w.GetAs(t, via, world.User{Name: worker.Name + "-session-none", Password: "s3cret"}, "/")
		if n := w.Audit.Count("session_used", "worker", via.Name); n != 1 {
			t.Errorf("%d lines, want 1", n)
		}
	})
	for _, r := range w.Audit.All() {
		if strings.Contains(r.String(), "topsecret") || strings.Contains(r.String(), "s3cret") {
			t.Errorf("a value is in the audit log: %s", r)
		}
	}
}

// Who wants what is not his own is refused, counted, and written down: once,
// however often he tries.
func TestWhatIsRefusedIsAudited(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Listen: asking, Config: func(c *config.Config) {
		clients(c)
		c.Egress.Mode = config.EgressEnforce
	}})
	asks := func(method, url string, fields ...string) func() {
		return func() {
			c := w.Dial(t)
			host := strings.TrimPrefix(url, "http://")
			c.Send(fmt.Sprintf("%s %s/ HTTP/1.1\r\nHost: %s\r\n%s\r\n\r\n", method, url, host, strings.Join(fields, "\r\n")))
			c.Answer(method)
		}
	}
	_, port, _ := strings.Cut(w.Addr, ":")
	good := credentials("crawler", "s3cret")
	for _, tt := range []struct {
		name           string
		try            func()
		action, reason string
		attrs          []any
	}{
		{"a wrong password", asks("GET", "http://shop.test", credentials("crawler", "wr0ng")), "client_login", "credentials", []any{"by", "crawler"}},
		{"a name that nobody has", asks("GET", "http://shop.test", credentials("pa55word", "x")), "client_login", "credentials", nil},
		{"another's session by user name", asks("GET", "http://shop.test", credentials("crawler-session-boss", "s3cret")), "client_refused", "session_not_allowed", []any{"by", "crawler", "session", "boss"}},
		{"another's session by header", asks("GET", "http://shop.test", good, "X-Proxy-Session: boss2"), "client_refused", "session_not_allowed", nil},
		{"another's session by a page's script", asks("GET", "http://shop.test", good, "X-Proxy-Session: boss3", "Sec-Fetch-Site: same-origin"), "client_refused", "selector_ignored", []any{"by", "crawler", "session", "default"}},
		{"another's session by a header inside the tunnel", func() {
			c := w.Connect(t, "shop.test:443", credentials("crawler-session-qa1", "s3cret")).TLS(world.Host)
			c.Send("GET / HTTP/1.1\r\nHost: shop.test\r\nX-Proxy-Session: boss4\r\n\r\n")
			c.Answer("GET")
		}, "client_refused", "selector_ignored", []any{"by", "crawler", "session", "qa1"}},
		{"another's session on a connection that was good", func() {
			c := w.Dial(t)
			for _, fields := range []string{good, credentials("viewer", "wr0ng")} {
				c.Send(world.Head("GET", world.Plain, "/", fields))
				c.Answer("GET")
			}
		}, "client_login", "credentials", []any{"by", "viewer"}},
		{"another's site", asks("GET", "http://bank.test", good), "client_refused", "site_not_allowed", []any{"host", "bank.test"}},
		{"the cookies by TRACE", asks("TRACE", "http://shop.test", good), "client_refused", "trace", nil},
		{"the proxy itself", asks("GET", "http://127.0.0.1:"+port, good), "client_refused", "own_listener", []any{"host", "127.0.0.1"}},
		{"the proxy itself, mapped", asks("GET", "http://[::ffff:7f00:1]:"+port, good), "client_refused", "own_listener", nil},
		{"the proxy itself, as one number", asks("GET", "http://2130706433:"+port, good), "client_refused", "target", []any{"host", "2130706433"}},
		{"the proxy itself, in hexadecimal", asks("GET", "http://0x7f.1:"+port, good), "client_refused", "target", []any{"host", "0x7f.1"}},
		{"the proxy itself, in octal", func() { w.Dial(t).Connect("0177.0.0.1:"+port, good) }, "client_refused", "target", []any{"host", "0177.0.0.1"}},
		{"a cloud's metadata", asks("GET", "http://169.254.169.254", good), "client_refused", "egress", nil},
		{"another host than TLS verified", func() {
			c := w.Connect(t, "shop.test:443", good).TLS(world.Host)
			c.Send("GET / HTTP/1.1\r\nHost: bank.test\r\n\r\n")
			c.Answer("GET")
		}, "client_refused", "misdirected", []any{"host", "shop.test"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := count(t, w.Proxy, "sessionproxy_audit_events_total", "reason", tt.reason)
			for range 3 {
				tt.try()
			}
			w.Audit.WantRecord(t, tt.action, append([]any{"reason", tt.reason, "outcome", "refused", "from", "127.0.0.1"}, tt.attrs...)...)
			if got := count(t, w.Proxy, "sessionproxy_audit_events_total", "reason", tt.reason) - before; got != 1 {
				t.Errorf("%v lines are counted, want 1", got)
			}
		})
	}
	for _, r := range w.Audit.All() {
		if s := r.String(); strings.Contains(s, "wr0ng") || strings.Contains(s, "s3cret") || strings.Contains(s, "pa55word") {
			t.Errorf("a value is in the audit log: %s", s)
		}
	}
}
