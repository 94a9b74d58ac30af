package proxy_test

import (
	"encoding/base64"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// clients are two that the tests know by name.
func clients(c *config.Config) {
	c.Clients = []config.Client{
		{Name: "crawler", Password: "s3cret", Sites: []string{"shop"}, Sessions: []string{"default", "qa*"}, Access: config.Write, Deliver: true},
		{Name: "viewer", Password: "pa:ss", Access: config.Read, Deliver: true},
	}
	c.Sites = append(c.Sites, world.Site("bank", "bank.test"))
}

var (
	crawler = world.User{Name: "crawler", Password: "s3cret"}
	viewer  = world.User{Name: "viewer", Password: "pa:ss"}
	asking  = config.Listen{Auth: config.AuthAsk}
)

func credentials(user, password string) string {
	return "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
}

// Browsers, Puppeteer and Java name themselves only when asked, and on the
// same connection.
func TestA407KeepsTheConnection(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking})
	t.Run("CONNECT", func(t *testing.T) {
		c := w.Dial(t)
		a := c.Connect("shop.test:443")
		wantRefusal(t, a, 407, "http_request_denied", "credentials")
		if got := a.Header.Get("Proxy-Authenticate"); !strings.HasPrefix(got, `Basic realm="`) || a.Close {
			t.Errorf("Proxy-Authenticate %q, close %t", got, a.Close)
		}
		if a := c.Connect("shop.test:443", credentials("crawler", "s3cret")); a.StatusCode != 200 {
			t.Fatalf("with credentials: %s", a.Status)
		}
		inside := c.TLS(world.Host)
		inside.Send("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n") // asked once: not again in the tunnel
		if a := inside.Answer("GET"); a.StatusCode != 200 {
			t.Errorf("inside: %d %s", a.StatusCode, a.Text)
		}
	})
	t.Run("plain", func(t *testing.T) {
		c := w.Dial(t)
		for _, tt := range []struct {
			fields []string
			status int
		}{
			{nil, 407},
			{[]string{credentials("crawler", "s3cret")}, 200},
			{nil, 407}, // each request carries its own
			{[]string{credentials("viewer", "pa:ss")}, 200},
			{[]string{credentials("crawler", "wrong")}, 407},
		} {
			c.Send(world.Head("GET", world.Plain, "/", tt.fields...))
			if a := c.Answer("GET"); a.StatusCode != tt.status {
				t.Errorf("%v: %d, want %d", tt.fields, a.StatusCode, tt.status)
			}
		}
		w.WantRecord(t, "exchange", "mode", "plain", "client", "viewer", "status", 200)
	})
}

func TestWhoMayPass(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking})
	basic := func(s string) string { return "Proxy-Authorization: " + s }
	encode := func(s string) string { return base64.StdEncoding.EncodeToString([]byte(s)) }
	for _, tt := range []struct {
		name, field string
		status      int
		code        string
	}{
		{"the password is right", credentials("crawler", "s3cret"), 200, ""},
		{"a password with a colon", credentials("viewer", "pa:ss"), 200, ""},
		{"the scheme has no case", basic("bASIC " + encode("crawler:s3cret")), 200, ""},
		{"selectors after the name", credentials("crawler-worker-w.1~x-session-qa1", "s3cret"), 200, ""},
		{"selectors the other way round", credentials("crawler-session-qa1-worker-a-b-c", "s3cret"), 200, ""},
		{"the session none", credentials("crawler-session-none", "s3cret"), 200, ""},
		{"a wrong password", credentials("crawler", "S3cret"), 407, "credentials"},
		{"no password", credentials("crawler", ""), 407, "credentials"},
		{"an undeclared name", credentials("stranger", "s3cret"), 407, "credentials"},
		{"an empty name", credentials("", "s3cret"), 407, "credentials"},
		{"no name before the selectors", credentials("-worker-x", "s3cret"), 407, "credentials"},
		{"another scheme", basic("Bearer s3cret"), 407, "credentials"},
		{"what is no base64", basic("Basic ***"), 407, "credentials"},
		{"worker twice", credentials("crawler-worker-x-worker-y", "s3cret"), 400, "selector"},
		{"session twice", credentials("crawler-session-x-worker-z-session-y", "s3cret"), 400, "selector"},
		{"an empty worker", credentials("crawler-worker-", "s3cret"), 400, "selector"},
		{"a worker with a space", credentials("crawler-worker-a b", "s3cret"), 400, "selector"},
		{"a worker of 65 characters", credentials("crawler-worker-"+strings.Repeat("x", 65), "s3cret"), 400, "selector"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onDoor := func(a *world.Answer) {
				t.Helper()
				switch {
				case a.StatusCode != tt.status:
					t.Errorf("%d %s, want %d", a.StatusCode, a.Text, tt.status)
				case tt.code != "" && !strings.Contains(a.Header.Get("Proxy-Status"), `"`+tt.code+":"):
					t.Errorf("Proxy-Status %s, want %s", a.Header.Get("Proxy-Status"), tt.code)
				case tt.code == "selector" && !strings.Contains(a.Text, "worker") && !strings.Contains(a.Text, "session"):
					t.Errorf("the answer does not name the selector: %s", a.Text)
				}
			}
			c := w.Dial(t)
			c.Send(world.Head("GET", world.Plain, "/", tt.field))
			onDoor(c.Answer("GET"))
			onDoor(w.Dial(t).Connect("shop.test:443", tt.field))
		})
	}
}

// 407 is for credentials alone: a client whose name is good reads in words
// what it may not do, inside the tunnel, where it can.
func TestWhatAClientMayNotUseIsA403(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		as := func(user, host string) *world.Answer {
			return world.Do(t, w.ClientAs(via, world.User{Name: user, Password: "s3cret"}), world.Request(t, "GET", via.URLOf(host, "/"), nil))
		}
		wantRefusal(t, as("crawler", "bank.test"), 403, "http_request_denied", "site_not_allowed")
		wantRefusal(t, as("crawler-session-prod", world.Host), 403, "http_request_denied", "session_not_allowed")
		if a := as("crawler-session-qa7", world.Host); a.StatusCode != 200 {
			t.Errorf("an allowed session: %d %s", a.StatusCode, a.Text)
		}
		w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "crawler", "site", "bank", "status", 403, "refused", "site_not_allowed")
	})
}

func TestAnyNameIsAClientWhereNoneAreDeclared(t *testing.T) {
	t.Parallel()
	for _, auth := range []config.Auth{config.AuthNone, config.AuthAsk} {
		t.Run(string(auth), func(t *testing.T) {
			w := world.New(t, world.Options{Handler: hello, Listen: config.Listen{Auth: auth}})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				if a := w.GetAs(t, via, world.User{Name: "ana-worker-7", Password: "whatever"}, "/"); a.StatusCode != 200 {
					t.Errorf("%d %s", a.StatusCode, a.Text)
				}
				w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "ana", "worker", "7", "session", "default")
			})
		})
	}
}

// For clients that cannot send credentials.
func TestAPinnedPortSaysWhoItsClientsAre(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: config.Listen{Auth: config.AuthAsk, Client: "crawler", Session: "qa1"}})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		if a := w.Get(t, via, "/"); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "crawler", "session", "qa1", "worker", "127.0.0.1")
		// The pin beats credentials, and they only add the worker.
		if a := w.GetAs(t, via, world.User{Name: "viewer-worker-3-session-qa2", Password: "pa:ss"}, "/"); a.StatusCode != 200 {
			t.Errorf("with credentials: %d %s", a.StatusCode, a.Text)
		}
		w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "crawler", "session", "qa1", "worker", "3")
	})
}

func TestAPortServesTheAddressesItIsFor(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Listen: config.Listen{From: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}}})
	wantRefusal(t, w.Get(t, world.Plain, "/"), 403, "http_request_denied", "address_not_allowed")
	a := w.Dial(t).Connect("shop.test:443")
	wantRefusal(t, a, 403, "http_request_denied", "address_not_allowed")
	if a.Status != "403 Forbidden (address_not_allowed)" {
		t.Errorf("the reason phrase, all that many clients show of a CONNECT, is %q", a.Status)
	}
}

func TestTheHeaderSelectsASession(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Header.Get("X-Proxy-Session")) })})
	for _, tt := range []struct {
		name    string
		fields  []string
		session string
	}{
		{"alone", []string{"X-Proxy-Session: s1"}, "s1"},
		{"less than credentials", []string{"X-Proxy-Session: s1", credentials("ana-session-s2", "")}, "s2"},
		{"beside a name", []string{"X-Proxy-Session: s3", credentials("ana", "")}, "s3"},
		{"not from a page's script: Origin", []string{"X-Proxy-Session: s4", "Origin: http://shop.test"}, "default"},
		{"not from a page's script: Fetch metadata", []string{"X-Proxy-Session: s5", "Sec-Fetch-Site: same-origin"}, "default"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := w.Dial(t)
			c.Send(world.Head("GET", world.Plain, "/"+strings.ReplaceAll(tt.name, " ", "-"), tt.fields...))
			if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "" {
				t.Errorf("%d, and the origin saw %q", a.StatusCode, a.Text)
			}
			w.WantRecord(t, "exchange", "mode", "plain", "session", tt.session)
		})
	}
	t.Run("on CONNECT", func(t *testing.T) {
		c := w.Connect(t, "shop.test:443", "X-Proxy-Session: s6").TLS(world.Host)
		c.Send("GET / HTTP/1.1\r\nHost: shop.test\r\nX-Proxy-Session: s7\r\n\r\n") // inside it selects nothing
		if a := c.Answer("GET"); a.Text != "" {
			t.Errorf("the origin saw %q", a.Text)
		}
		w.WantRecord(t, "exchange", "mode", "h1", "session", "s6")
	})
	t.Run("not from a page's script on plain http", func(t *testing.T) {
		w.Get(t, world.TunnelH1, "/", "User-Agent", "Browser/1", "Sec-Fetch-Site", "none")
		w.Get(t, world.Plain, "/", "User-Agent", "Browser/1", "X-Proxy-Session", "s8")
		w.Get(t, world.Plain, "/", "User-Agent", "curl/8", "X-Proxy-Session", "s9")
		w.WantRecord(t, "exchange", "mode", "plain", "session", "s9")
		if w.Count("exchange", "session", "s8") > 0 {
			t.Error("a browser's request has selected a session")
		}
	})
	t.Run("what is no ID", func(t *testing.T) {
		wantRefusal(t, w.Dial(t).Connect("shop.test:443", "X-Proxy-Session: a b"), 400, "http_request_error", "selector")
	})
}
