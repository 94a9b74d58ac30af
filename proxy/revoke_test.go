package proxy_test

import (
	"io"
	"net/http"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
)

// Tunnels of the session close when nothing is under way in them.
func TestRevokingClosesIdleTunnels(t *testing.T) {
	t.Parallel()
	for _, via := range []world.Way{world.TunnelPlain, world.TunnelH1} {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: login})
			used, fresh, plain := w.Raw(t, via), w.Raw(t, via), w.Raw(t, world.Plain)
			used.Send(world.Head("GET", via, "/"))
			used.Answer("GET")
			revoke(t, w)
			used.WantEnd()
			if via.TLS { // else nothing was said in it yet: it may become anything
				fresh.WantEnd()
			}
			plain.Send(world.Head("GET", world.Plain, "/")) // no tunnel: each request says whose it is
			plain.Answer("GET")
		})
	}
	t.Run("another session's", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.Options{Handler: login})
		c := w.Connect(t, world.Host+":443", credentials("b-session-qa", "")).TLS(world.Host)
		revoke(t, w)
		c.Send(world.Head("GET", world.TunnelH1, "/"))
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Close {
			t.Errorf("%d, and the end: %t", a.StatusCode, a.Close)
		}
	})
	t.Run("HTTP/2", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.Options{Handler: login})
		c := newH2Client(t, w)
		c.open(1, true, h2Request())
		if status, _, _ := c.answer(1); status != "200" {
			t.Fatalf("answered %q", status)
		}
		revoke(t, w)
		c.wantEnd(t)
	})
}

// What is under way when the session is revoked is answered whole, and is the
// last on its connection.
func TestRevokingLetsRequestsFinish(t *testing.T) {
	t.Parallel()
	begun, end := make(chan bool), make(chan bool)
	slow := handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/head" {
			w.(http.Flusher).Flush()
		}
		begun <- true
		<-end
		io.WriteString(w, "all of it")
	})
	w := world.New(t, world.Options{Handler: slow})
	for _, path := range []string{"/", "/head"} { // revoked before the head, and after it
		for _, via := range []world.Way{world.TunnelPlain, world.TunnelH1} {
			c := w.Raw(t, via)
			c.Send(world.Head("GET", via, path))
			<-begun
			if path == "/head" {
				c.R.Peek(1)
			}
			revoke(t, w)
			end <- true
			if a := c.Answer("GET"); a.Text != "all of it" || a.Close != (path == "/") {
				t.Errorf("%s %s: %q, and the end: %t", via.Name, path, a.Text, a.Close)
			}
			c.WantEnd()
		}
		c := newH2Client(t, w)
		c.open(1, true, h2Request(":path", path))
		<-begun
		revoke(t, w)
		end <- true
		if status, _, text := c.answer(1); status != "200" || text != "all of it" {
			t.Errorf("HTTP/2 %s: %s %q", path, status, text)
		}
		c.wantEnd(t)
	}
}

func revoke(t *testing.T, w *world.World) {
	t.Helper()
	if err := w.Proxy.Revoke(t.Context(), session.Key{Site: world.Host, ID: session.DefaultID}); err != nil {
		t.Fatal(err)
	}
}

func TestRevokingClosesWhatIsOpen(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: func(c *world.Conn) {
		c.Head()
		c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		io.Copy(c, c.R)
	}})
	var open []*world.Conn
	for _, user := range []string{"a", "b-session-qa"} {
		c := w.Connect(t, world.Host+":443", credentials(user, "")).TLS(world.Host)
		c.Send(world.Head("GET", world.TunnelH1, "/ws", "Connection: Upgrade", "Upgrade: websocket"))
		if a := c.Head(); a[:12] != "HTTP/1.1 101" {
			t.Fatalf("answered %q", a)
		}
		c.Send("ping")
		c.Want("ping")
		open = append(open, c)
	}
	if err := w.Proxy.Revoke(t.Context(), session.Key{Site: world.Host, ID: session.DefaultID}); err != nil {
		t.Fatal(err)
	}
	open[0].WantEnd()
	open[1].Send("still")
	open[1].Want("still")
}
