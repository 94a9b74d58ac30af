package proxy_test

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"net/netip"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/filestore"
)

func authority(t *testing.T) *access.Authority {
	t.Helper()
	store, err := filestore.Open(filepath.Join(t.TempDir(), "access.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	a, err := access.New(t.Context(), access.Options{
		Store: store, Seal: bytes.Repeat([]byte{7}, 32), Passwords: password.NewVerifier(), Log: slog.New(slog.DiscardHandler),
		Operators: []config.Operator{{Name: "crawler", Password: "s3cret", Role: config.RoleOperator}}, // a client's name too
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func issue(t *testing.T, a *access.Authority, g access.Grant, life time.Duration) (id, token string) {
	t.Helper()
	g, token, err := a.Issue(t.Context(), g, life)
	if err != nil {
		t.Fatal(err)
	}
	return g.ID, token
}

func TestATokenStandsForAPassword(t *testing.T) {
	t.Parallel()
	a := authority(t)
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking, Access: a})
	_, all := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	_, one := issue(t, a, access.Grant{Client: "viewer", Sites: []string{"shop"}, Sessions: []string{"qa*"}}, time.Hour)
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		as := func(user, token, host string) *world.Answer {
			return world.Do(t, w.ClientAs(via, world.User{Name: user, Password: token}), world.Request(t, "GET", via.URLOf(host, "/"), nil))
		}
		if a := as("crawler-worker-7", all, world.Host); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "crawler", "worker", "7")
		wantRefusal(t, as("crawler", all, "bank.test"), 403, "http_request_denied", "site_not_allowed") // no more than the client
		if a := as("viewer-session-qa1", one, world.Host); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		wantRefusal(t, as("viewer-session-qa1", one, "bank.test"), 403, "http_request_denied", "token_not_for_this")
		wantRefusal(t, as("viewer", one, world.Host), 403, "http_request_denied", "token_not_for_this")
	})
}

// Whatever is wrong with a token reads as a wrong password.
func TestTokensThatAreNoPassword(t *testing.T) {
	t.Parallel()
	a := authority(t)
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking, Access: a})
	without := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking})
	_, good := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	id, revoked := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	if ok, err := a.RevokeGrant(t.Context(), id); !ok || err != nil {
		t.Fatal(ok, err)
	}
	_, strange := issue(t, authority(t), access.Grant{Client: "crawler"}, time.Hour)
	_, gone := issue(t, a, access.Grant{Client: "gone"}, time.Hour)
	admin, err := a.Login(t.Context(), "crawler", "s3cret", "", netip.MustParseAddr("192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	unsigned, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{
		"sub": "crawler", "aud": "sessionproxy:proxy", "jti": "x", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		w           *world.World
		user, token string
	}{
		"alg none":                      {w, "crawler", unsigned},
		"another client's name":         {w, "viewer", good},
		"one that was revoked":          {w, "crawler", revoked},
		"another deployment's":          {w, "crawler", strange},
		"a client that is not declared": {w, "gone", gone},
		"an operator's for the admin":   {w, "crawler", admin.Access},
		"one that is cut off":           {w, "crawler", good[:len(good)-4]},
		"at a proxy that takes none":    {without, "crawler", good},
	} {
		t.Run(name, func(t *testing.T) {
			before := count(t, c.w.Proxy, "sessionproxy_auth_failures_total")
			wantRefusal(t, c.w.Dial(t).Connect("shop.test:443", credentials(c.user, c.token)), 407, "http_request_denied", "credentials")
			if got := count(t, c.w.Proxy, "sessionproxy_auth_failures_total"); got != before+1 {
				t.Errorf("%v failures are counted, want %v", got, before+1)
			}
			c.w.Audit.WantRecord(t, "client_login", "outcome", "refused", "reason", "credentials")
		})
	}
}

// A tunnel ends with its token: when it is revoked, and when its time is over.
func TestATunnelEndsWithItsToken(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool), make(chan bool)
	slow := handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			begun <- true
			<-end
		}
		io.WriteString(w, "all of it")
	})
	a := authority(t)
	w := world.New(t, world.Options{Handler: slow, Config: clients, Listen: asking, Access: a})
	blindly := world.Serve(t, echo)

	id, token := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	_, other := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	connect := func(addr, token string) *world.Conn { return w.Connect(t, addr, credentials("crawler", token)) }
	get := func(c *world.Conn, path string) *world.Answer {
		c.Send(world.Head("GET", world.TunnelH1, path))
		return c.Answer("GET")
	}
	idle, busy, still := connect("shop.test:443", token).TLS(world.Host), connect("shop.test:443", token).TLS(world.Host), connect("shop.test:443", other).TLS(world.Host)
	blind, silent := connect(blindly, token), connect("shop.test:443", token)
	get(idle, "/")
	get(still, "/")
	blind.Send("ping")
	blind.Want("ping")
	busy.Send(world.Head("GET", world.TunnelH1, "/slow"))
	<-begun
	if ok, err := a.RevokeGrant(t.Context(), id); !ok || err != nil {
		t.Fatal(ok, err)
	}
	idle.WantEnd()
	blind.WantEnd()
	end <- true
	if a := busy.Answer("GET"); a.Text != "all of it" {
		t.Errorf("a request under way: %d %s", a.StatusCode, a.Text)
	}
	busy.WantEnd()
	if a := get(still, "/"); a.StatusCode != 200 || a.Close {
		t.Errorf("another token's tunnel: %d %s", a.StatusCode, a.Text)
	}
	silent.WantEnd()

	_, short := issue(t, a, access.Grant{Client: "crawler"}, time.Second)
	ends := connect("shop.test:443", short).TLS(world.Host)
	blind = connect(blindly, short)
	get(ends, "/")
	ends.WantEnd()
	blind.WantEnd()
}

// While one request is under way on a connection, no other begins.
func TestNoRequestBeginsAfterItsToken(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool), make(chan bool)
	a := authority(t)
	w := world.New(t, world.Options{Config: clients, Listen: asking, Access: a, Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		begun <- true
		<-end
		io.WriteString(w, "all of it")
	})})
	id, token := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	client := w.ClientAs(world.TunnelH2, world.User{Name: "crawler", Password: token})
	first := make(chan *world.Answer)
	go func() { first <- world.Do(t, client, world.Request(t, "GET", world.TunnelH2.URL("/"), nil)) }()
	<-begun
	if ok, err := a.RevokeGrant(t.Context(), id); !ok || err != nil {
		t.Fatal(ok, err)
	}
	wantRefusal(t, world.Do(t, client, world.Request(t, "GET", world.TunnelH2.URL("/"), nil)), 403, "http_request_denied", "token_ended")
	w.Audit.WantRecord(t, "client_refused", "reason", "token_ended", "by", "crawler")
	end <- true
	if a := <-first; a.Text != "all of it" {
		t.Errorf("the request under way: %d %s", a.StatusCode, a.Text)
	}
}

func TestAWebSocketEndsWithItsToken(t *testing.T) {
	t.Parallel()
	a := authority(t)
	w := world.New(t, world.Options{Script: socket(echo), Config: clients, Listen: asking, Access: a})
	id, token := issue(t, a, access.Grant{Client: "crawler"}, time.Hour)
	c := w.Connect(t, "shop.test:443", credentials("crawler", token)).TLS(world.Host)
	c.Send(world.Head("GET", world.TunnelH1, "/ws", "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Key: key"))
	if head := c.Head(); head[:12] != "HTTP/1.1 101" {
		t.Fatal(head)
	}
	c.Send("ping")
	c.Want("ping")
	if ok, err := a.RevokeGrant(t.Context(), id); !ok || err != nil {
		t.Fatal(ok, err)
	}
	c.WantEnd()
}
