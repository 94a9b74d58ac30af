package proxy_test

import (
	"errors"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
)

// socket is an origin that switches to whatever protocol it is asked for, and
// then runs talk.
func socket(talk func(*world.Conn)) func(*world.Conn) {
	return func(c *world.Conn) {
		r := c.Request()
		if r.Header.Get("Connection") != "Upgrade" || r.Header.Get("Upgrade") == "" {
			c.Send("HTTP/1.1 426 Upgrade Required\r\nContent-Length: 0\r\n\r\n")
			return
		}
		c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade, X-Hop\r\nX-Hop: 1\r\nUpgrade: " + r.Header.Get("Upgrade") +
			"\r\nSec-WebSocket-Accept: " + r.Header.Get("Sec-WebSocket-Key") + "\r\nX-Cookie: " + r.Header.Get("Cookie") + "\r\n\r\n")
		talk(c)
	}
}

// echo sends back what comes, until the end.
func echo(c *world.Conn) { io.Copy(c.Conn, c.R) }

// upgrade asks for a protocol and gets it. ahead is sent in the same packet.
func upgrade(t *testing.T, w *world.World, via world.Way, protocol, ahead string, fields ...string) (*world.Conn, *world.Answer) {
	t.Helper()
	c := w.Raw(t, via)
	c.Send(world.Head("GET", via, "/ws", append(fields, "Connection: keep-alive, Upgrade", "Upgrade: "+protocol, "Sec-WebSocket-Key: key", "Sec-WebSocket-Version: 13")...) + ahead)
	resp, err := http.ReadResponse(c.R, nil)
	if err != nil || resp.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v; want a 101", resp, err)
	}
	return c, &world.Answer{Response: resp}
}

func TestWebSockets(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: socket(echo)})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c, a := upgrade(t, w, via, "websocket", "")
		if a.Header.Get("Connection") != "Upgrade" || a.Header.Get("Upgrade") != "websocket" || a.Header.Get("Sec-WebSocket-Accept") != "key" || a.Header.Get("X-Hop") != "" {
			t.Errorf("the 101 has %v", a.Header)
		}
		for range 3 {
			c.Send("\x81\x05hello")
			c.Want("\x81\x05hello")
		}
		c.Close()
		w.WantRecord(t, "exchange", "mode", via.Mode(), "status", 101, "outcome", "ok", "bytes", 21)
	})
	world.Eventually(t, "the origin's connections close", func() bool { return w.Origin.Open() == 0 })
}

func TestFramesSentAheadAreKept(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: socket(echo)})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c, _ := upgrade(t, w, via, "websocket", "\x81\x05early")
		c.Want("\x81\x05early")
	})
	greets := world.New(t, world.Options{Script: func(c *world.Conn) {
		c.Request()
		c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05first")
		echo(c)
	}})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c, _ := upgrade(t, greets, via, "websocket", "")
		c.Want("\x81\x05first")
	})
}

func TestOtherProtocolsAreSwitchedToo(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: socket(echo)})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c, a := upgrade(t, w, via, "foo/2", "")
		if a.Header.Get("Upgrade") != "foo/2" {
			t.Errorf("switched to %q", a.Header.Get("Upgrade"))
		}
		c.Send("bar")
		c.Want("bar")
	})
}

func TestASwitchThatIsDeclined(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: always("HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		for range 2 { // and the connection is good for more
			c.Send(world.Head("GET", via, "/ws", "Connection: Upgrade", "Upgrade: websocket"))
			if a := c.Answer("GET"); a.StatusCode != 403 || a.Text != "no" {
				t.Errorf("%d %q", a.StatusCode, a.Text)
			}
		}
	})
}

func TestASwitchThatNobodyAskedForIsA502(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: answer("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		wantRefusal(t, w.Get(t, via, "/"), 502, "http_protocol_error", "origin_protocol")
	})
}

func TestWebSocketsCarryTheSession(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: func(c *world.Conn) {
		r := c.Request()
		if r.URL.Path == "/login" {
			c.Send("HTTP/1.1 200 OK\r\nSet-Cookie: sid=a1; Path=/\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			return
		}
		c.Send("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Cookie: " + r.Header.Get("Cookie") +
			"\r\nSet-Cookie: ws=" + r.URL.Path[1:] + "; Path=/\r\n\r\n")
	}})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		w.Get(t, via, "/login")
		if _, a := upgrade(t, w, via, "websocket", ""); a.Header.Get("X-Cookie") == "" || a.Header.Get("X-Cookie")[:6] != "sid=a1" {
			t.Errorf("the handshake was sent %q", a.Header.Get("X-Cookie"))
		}
		if _, a := upgrade(t, w, via, "websocket", "", "Origin: https://evil.test", "Sec-Fetch-Site: same-origin"); a.Header.Get("X-Cookie") != "" {
			t.Errorf("a foreign page's handshake was sent %q", a.Header.Get("X-Cookie"))
		}
	})
}

func TestBothEndsOfAWebSocketLearnOfTheEnd(t *testing.T) {
	t.Parallel()
	over := make(chan error, 1)
	w := world.New(t, world.Options{Script: socket(func(c *world.Conn) {
		switch what, _ := c.R.ReadString('\n'); what {
		case "close\n":
		case "half-close\n":
			c.Send("last words")
			c.CloseWrite()
			_, err := c.R.ReadByte()
			over <- err
		case "reset\n":
			c.Reset()
		case "wait\n":
			_, err := c.R.ReadByte()
			over <- err
		}
	})})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		t.Run("the origin closes", func(t *testing.T) {
			c, _ := upgrade(t, w, via, "websocket", "")
			c.Send("close\n")
			c.WantEnd()
		})
		t.Run("the origin dies", func(t *testing.T) {
			c, _ := upgrade(t, w, via, "websocket", "")
			c.Send("reset\n")
			c.WantEnd()
		})
		t.Run("the client closes", func(t *testing.T) {
			c, _ := upgrade(t, w, via, "websocket", "")
			c.Send("wait\n")
			c.Close()
			<-over
		})
		t.Run("the client dies", func(t *testing.T) {
			c, _ := upgrade(t, w, via, "websocket", "")
			c.Send("wait\n")
			c.Reset()
			<-over
		})
		t.Run("half by half", func(t *testing.T) {
			c, _ := upgrade(t, w, via, "websocket", "")
			c.Send("half-close\n")
			c.Want("last words")
			c.WantEnd()
			c.CloseWrite()
			if err := <-over; !errors.Is(err, io.EOF) {
				t.Errorf("the origin read %v, want the end", err)
			}
		})
	})
	world.Eventually(t, "the origin's connections close", func() bool { return w.Origin.Open() == 0 })
}

func TestAWebSocketMayBeQuietForLong(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: socket(echo), Timeouts: proxy.Timeouts{
		Header: 250 * time.Millisecond, ResponseHead: 250 * time.Millisecond, Idle: 250 * time.Millisecond, Tunnel: 1500 * time.Millisecond,
	}})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		c, _ := upgrade(t, w, via, "websocket", "")
		for range 2 {
			time.Sleep(300 * time.Millisecond) // over all limits but its own
			c.Send("ping")
			c.Want("ping")
		}
		c.WantEnd()
	})
}
