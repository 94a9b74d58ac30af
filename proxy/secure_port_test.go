package proxy_test

import (
	"crypto/sha256"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// A port with tls: true is an HTTPS proxy: all that a client does, it can do
// within TLS.
func TestAnHTTPSProxyPort(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Config: clients})
	addr := w.Listen(config.Listen{Auth: config.AuthAsk, TLS: true})

	for _, via := range []world.Way{world.Plain, world.TunnelH1} {
		t.Run(via.Name, func(t *testing.T) {
			proxy := &url.URL{Scheme: "https", Host: addr, User: url.UserPassword("crawler", "s3cret")}
			tr := w.Client(via).Transport.(*http.Transport).Clone()
			tr.Proxy = http.ProxyURL(proxy)
			defer tr.CloseIdleConnections()
			c := &http.Client{Transport: tr}
			world.Do(t, c, world.Request(t, "GET", via.URL(set("sid=a1; Path=/")), nil))
			wantCookie(t, world.Do(t, c, world.Request(t, "GET", via.URL("/"), nil)), "sid=a1")
			w.WantRecord(t, "exchange", "mode", via.Mode(), "client", "crawler", "injected", 1)
		})
	}
	t.Run("a 407, then a tunnel by hand", func(t *testing.T) {
		c := w.DialTo(t, addr).TLS("127.0.0.1")
		if a := c.Connect("shop.test:443"); a.StatusCode != 407 {
			t.Errorf("without credentials: %s", a.Status)
		}
		if a := c.Connect("shop.test:443", credentials("crawler", "s3cret")); a.StatusCode != 200 {
			t.Errorf("with credentials: %s", a.Status)
		}
		inside := c.TLS(world.Host)
		inside.Send("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		if a := inside.Answer("GET"); a.StatusCode != 200 {
			t.Errorf("inside: %d %s", a.StatusCode, a.Text)
		}
	})
	t.Run("a blind tunnel, half by half", func(t *testing.T) {
		big := strings.Repeat("tunnel", 1<<18)
		sum := sha256.Sum256([]byte(big))
		echoes := world.Serve(t, func(c *world.Conn) {
			up := sha256.Sum256([]byte(c.Rest()))
			c.Send(string(up[:]))
		})
		c := w.DialTo(t, addr).TLS("127.0.0.1")
		c.Connect(echoes, credentials("crawler", "s3cret"))
		c.Send(big)
		c.CloseWrite()
		c.Want(string(sum[:]))
		c.WantEnd()
	})
	t.Run("a refused tunnel says why", func(t *testing.T) {
		c := w.DialTo(t, addr).TLS("127.0.0.1")
		if a := c.Connect(closedPort(t), credentials("crawler", "s3cret")); a.Status != "502 Bad Gateway (origin_refused)" || a.Text == "" {
			t.Errorf("%s %q", a.Status, a.Text)
		}
	})
}
