package proxy_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
)

// A 103 is a head like any other: what is the hop's, or the session's, stays.
func TestEarlyHintsAreFiltered(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{
		Script: func(c *world.Conn) {
			c.Head()
			c.Send("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\nConnection: x\r\nX: 1\r\nKeep-Alive: timeout=5\r\nAlt-Svc: h3\r\nProxy-Status: evil\r\nSet-Cookie: sid=a1\r\n\r\n" +
				"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
			io.Copy(io.Discard, c.R)
		},
		Config: func(c *config.Config) { c.Sites[0].Cookies.Deliver = false },
	})
	for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2H1} {
		var hints []textproto.MIMEHeader
		r := world.Request(t, http.MethodGet, via.URL("/"), nil)
		r = r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{Got1xxResponse: func(_ int, h textproto.MIMEHeader) error {
			hints = append(hints, h)
			return nil
		}}))
		if a := world.Do(t, w.Client(via), r); a.Text != "ok" {
			t.Errorf("%s: answered %d %q", via.Name, a.StatusCode, a.Text)
		}
		if len(hints) != 1 || len(hints[0]) != 1 || hints[0].Get("Link") != "</a>" {
			t.Errorf("%s: hints %v, want the link alone", via.Name, hints)
		}
	}
}

// The answer does not wait for a client that pauses within its upload.
func TestAPausedUploadIsAnswered(t *testing.T) {
	t.Parallel()
	for _, via := range world.H1Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Script: func(c *world.Conn) { c.Head() }}) // and closes
			c := w.Raw(t, via)
			c.Send(world.Head(http.MethodPost, via, "/", "Transfer-Encoding: chunked") + "5\r\nhello\r\n")
			if a := c.Answer(http.MethodPost); a.StatusCode != http.StatusBadGateway {
				t.Errorf("answered %d %q, want 502", a.StatusCode, a.Text)
			}
		})
	}
}

// For CONNECT to an address the name decides, however late it comes.
func TestALateHelloToAnAddress(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, declared, hello string
		intercepted           bool
	}{
		{"a declared name at an address that is not", "", world.Host, true},
		{"a name that is not declared at an address that is", "address", "elsewhere.test", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := world.Serve(t, func(c *world.Conn) { io.Copy(io.Discard, c.R) })
			w := world.New(t, world.Options{
				Handler: login, Timeouts: proxy.Timeouts{Sniff: 20 * time.Millisecond},
				Config: func(c *config.Config) {
					if tt.declared != "" {
						c.Sites = append(c.Sites, world.Site("address", addr[:strings.LastIndexByte(addr, ':')]))
					}
				},
			})
			c := w.Connect(t, addr)
			time.Sleep(100 * time.Millisecond) // longer than Sniff: the client is far away
			c.SetDeadline(time.Now().Add(2 * time.Second))
			tc, err := c.TryTLS(&tls.Config{ServerName: tt.hello})
			if got := err == nil; got != tt.intercepted {
				t.Fatalf("handshake: %v, want intercepted: %v", err, tt.intercepted)
			}
			if tc != nil {
				tc.Close()
			}
		})
	}
}

func TestATunnelThatTheServerResetIsBroken(t *testing.T) {
	t.Parallel()
	addr := world.Serve(t, func(c *world.Conn) {
		c.Want("hello")
		c.Reset()
	})
	w := world.New(t, world.Options{Handler: login})
	c := w.Connect(t, addr)
	c.Send("hello")
	io.Copy(io.Discard, c)
	w.WantRecord(t, "exchange", "mode", "tunnel", "outcome", "broken")
}
