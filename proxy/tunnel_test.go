package proxy_test

import (
	"bytes"
	"crypto/sha256"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
)

// ssh is a protocol in which both sides speak at once, smtp one in which the
// server does, and irc one in which the client does.
func ssh(c *world.Conn) {
	c.Send("SSH-2.0-server\r\n")
	c.Want("SSH-2.0-client\r\n")
	c.Send("bye")
}

func smtp(c *world.Conn) {
	c.Send("220 mail ready\r\n")
	c.Want("HELO me\r\n")
	c.Send("250 hello me\r\n")
	c.WantEnd()
}

func irc(c *world.Conn) {
	c.Want("NICK ana\r\n")
	c.Send("001 ana\r\n")
	c.WantEnd()
}

// talk is the client's side of it.
type talk func(c *world.Conn)

var (
	talkSSH = talk(func(c *world.Conn) {
		c.Send("SSH-2.0-client\r\n")
		c.Want("SSH-2.0-server\r\nbye")
		c.WantEnd()
		c.Close()
	})
	talkSMTP = talk(func(c *world.Conn) {
		c.Want("220 mail ready\r\n")
		c.Send("HELO me\r\n")
		c.Want("250 hello me\r\n")
		c.CloseWrite()
		c.WantEnd()
	})
	talkIRC = talk(func(c *world.Conn) {
		c.Send("NICK ana\r\n")
		c.Want("001 ana\r\n")
		c.CloseWrite()
		c.WantEnd()
	})
)

func TestWhatIsNoHTTPIsTunnelled(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		server func(*world.Conn)
		client talk
	}{{"ssh", ssh, talkSSH}, {"smtp", smtp, talkSMTP}, {"irc", irc, talkIRC}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			addr := world.Serve(t, tt.server)
			w := world.New(t, world.Options{
				Config: func(c *config.Config) { c.Sites[0].Origin.Resolve = map[string]string{"shop.test:22": addr} },
			})
			t.Run("on a declared host", func(t *testing.T) {
				tt.client(w.Connect(t, "shop.test:22"))
				w.WantRecord(t, "exchange", "mode", "tunnel", "host", world.Host, "port", "22", "outcome", "ok")
			})
			t.Run("on another host", func(t *testing.T) {
				tt.client(w.Connect(t, addr))
				w.WantRecord(t, "exchange", "mode", "tunnel", "host", "127.0.0.1", "outcome", "ok")
				_, port, _ := net.SplitHostPort(addr)
				tt.client(w.Connect(t, "localhost:"+port))
			})
		})
	}
}

// A client that thinks for longer than servers do is still intercepted.
func TestASlowClientIsIntercepted(t *testing.T) {
	t.Parallel()
	silent := world.Serve(t, func(c *world.Conn) { io.Copy(io.Discard, c.R) })
	for _, tt := range []struct {
		name    string
		resolve map[string]string
		status  int
	}{
		{"before a server that answers", nil, 200},
		{"before a server that waits", map[string]string{"shop.test:9443": silent}, 504},
		{"before no server", map[string]string{"shop.test:9443": closedPort(t)}, 502},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{
				Handler:  hello,
				Config:   func(c *config.Config) { c.Sites[0].Origin.Resolve = tt.resolve },
				Timeouts: proxy.Timeouts{Sniff: time.Millisecond, Handshake: 2 * time.Second},
			})
			c := w.Connect(t, "shop.test:9443")
			time.Sleep(50 * time.Millisecond) // thinking
			tc := c.TLS(world.Host)
			tc.Send("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
			if a := tc.Answer("GET"); a.StatusCode != tt.status {
				t.Errorf("%d %s, want %d", a.StatusCode, a.Text, tt.status)
			}
			w.WantRecord(t, "exchange", "mode", "h1", "host", world.Host, "port", "9443", "status", tt.status)
		})
	}
}

// A request in pieces is a request.
func TestARequestInPiecesIsIntercepted(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	c := w.Connect(t, "shop.test:80")
	for _, piece := range []string{"G", "ET", " ", "/ HTT", "P/1.1\r\nHost: sho", "p.test\r\n\r\n"} {
		c.Send(piece)
		time.Sleep(5 * time.Millisecond) // in a packet of its own
	}
	if a := c.Answer("GET"); a.StatusCode != 200 {
		t.Errorf("%d %s", a.StatusCode, a.Text)
	}
	w.WantRecord(t, "exchange", "mode", "h1", "host", world.Host)
}

// What a client sends in one packet with its CONNECT is not lost.
func TestBytesSentAheadAreKept(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	for _, target := range []string{"shop.test:80", w.Origin.Addr("80")} {
		c := w.Dial(t)
		c.Send("CONNECT " + target + " HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		c.Answer("CONNECT")
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "hello shop.test" {
			t.Errorf("%s: %d %s", target, a.StatusCode, a.Text)
		}
	}
}

// Nobody may hold a connection by saying nothing.
func TestSilentTunnelsEnd(t *testing.T) {
	t.Parallel()
	silent := world.Serve(t, func(c *world.Conn) { io.Copy(io.Discard, c.R) })
	w := world.New(t, world.Options{
		Config: func(c *config.Config) { c.Sites[0].Origin.Resolve = map[string]string{"shop.test:22": silent} },
		Timeouts: proxy.Timeouts{
			Sniff: 50 * time.Millisecond, Header: 500 * time.Millisecond, Idle: 500 * time.Millisecond,
			Handshake: time.Second, Tunnel: 500 * time.Millisecond,
		},
	})
	for name, hold := range map[string]func(t *testing.T) *world.Conn{
		"before any byte":                func(t *testing.T) *world.Conn { return w.Connect(t, "shop.test:443") },
		"on another port":                func(t *testing.T) *world.Conn { return w.Connect(t, "shop.test:22") },
		"in a blind tunnel":              func(t *testing.T) *world.Conn { return w.Connect(t, silent) },
		"within the hello":               func(t *testing.T) *world.Conn { c := w.Connect(t, "shop.test:443"); c.Send("\x16\x03\x01"); return c },
		"within the hello to an address": func(t *testing.T) *world.Conn { c := w.Connect(t, silent); c.Send("\x16\x03\x01"); return c },
		"after the handshake":            func(t *testing.T) *world.Conn { return w.Connect(t, "shop.test:443").TLS(world.Host) },
		"after the handshake, with HTTP/2": func(t *testing.T) *world.Conn {
			c := w.Connect(t, "shop.test:443").TLS(world.Host, "h2")
			c.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00") // and its SETTINGS
			return c
		},
		"within a head": func(t *testing.T) *world.Conn {
			c := w.Connect(t, "shop.test:443").TLS(world.Host)
			c.Send("GET / HTTP/1.1\r\nHost: ")
			return c
		},
		"before the CONNECT": func(t *testing.T) *world.Conn { return w.Dial(t) },
		"within the CONNECT": func(t *testing.T) *world.Conn { c := w.Dial(t); c.Send("CONNECT shop.t"); return c },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := hold(t)
			if _, err := io.Copy(io.Discard, c.R); err != nil && strings.Contains(err.Error(), "timeout") {
				t.Error("it is still open")
			}
		})
	}
}

func TestBlindTunnelsPassBothHalves(t *testing.T) {
	t.Parallel()
	big := bytes.Repeat([]byte("tunnel"), 1<<20/6)
	sum := func(b []byte) string { s := sha256.Sum256(b); return string(s[:]) }
	addr := world.Serve(t, func(c *world.Conn) {
		up := c.Rest() // to the client's half-close
		c.Send(sum([]byte(up)))
		c.Send(string(big))
		c.CloseWrite()
	})
	w := world.New(t, world.Options{})
	c := w.Connect(t, addr)
	c.Send(string(big))
	c.CloseWrite()
	c.Want(sum(big))
	if down := c.Rest(); down != string(big) {
		t.Errorf("%d bytes came back, want %d", len(down), len(big))
	}
	w.WantRecord(t, "exchange", "mode", "tunnel", "outcome", "ok", "sent", len(big), "bytes", len(big)+sha256.Size)
}

func TestAServersHalfCloseLeavesTheClientsHalfOpen(t *testing.T) {
	t.Parallel()
	got := make(chan string, 1)
	addr := world.Serve(t, func(c *world.Conn) {
		c.Send("that is all from me")
		c.CloseWrite()
		got <- c.Rest()
	})
	w := world.New(t, world.Options{Timeouts: proxy.Timeouts{Sniff: 50 * time.Millisecond}})
	c := w.Connect(t, addr)
	if down := c.Rest(); down != "that is all from me" {
		t.Errorf("read %q", down)
	}
	c.Send("and from me")
	c.CloseWrite()
	if up := <-got; up != "and from me" {
		t.Errorf("the server read %q", up)
	}
}

// A side that dies takes the other with it.
// A client that closes as it may, as TLS clients do, while the server still says
// goodbye has broken nothing.
func TestAGoodbyeThatNobodyHearsBreaksNoTunnel(t *testing.T) {
	t.Parallel()
	closed := make(chan struct{})
	addr := world.Serve(t, func(c *world.Conn) {
		c.Want("NICK ana\r\n")
		c.WantEnd()
		<-closed
		c.Send("goodbye")
	})
	w := world.New(t, world.Options{})
	c := w.Connect(t, addr)
	c.Send("NICK ana\r\n")
	c.Close()
	close(closed)
	w.WantRecord(t, "exchange", "mode", "tunnel", "outcome", "ok", "bytes", 7)
}

func TestATunnelEndsWithEitherSide(t *testing.T) {
	t.Parallel()
	ended := make(chan bool, 1)
	addr := world.Serve(t, func(c *world.Conn) {
		line, _ := c.R.ReadString('\n')
		if line == "die\n" {
			c.Reset()
			return
		}
		io.Copy(io.Discard, c.R)
		ended <- true
	})
	w := world.New(t, world.Options{})
	c := w.Connect(t, addr)
	c.Send("die\n")
	c.WantEnd()
	c = w.Connect(t, addr)
	c.Send("live\n")
	c.Reset()
	<-ended
}

func TestATunnelThatCannotBeDialledIsRefusedAtItsCONNECT(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	a := w.Dial(t).Connect(closedPort(t))
	if a.Status != "502 Bad Gateway (origin_refused)" {
		t.Errorf("status %q", a.Status)
	}
	if got := a.Header.Get("Proxy-Status"); !strings.HasPrefix(got, `sessionproxy; error=connection_refused; details="origin_refused: `) {
		t.Errorf("Proxy-Status %s", got)
	}
	if a.Text == "" {
		t.Error("no sentence")
	}
}

func TestUndeclaredHostsCanBeRefused(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: func(c *config.Config) { c.Undeclared = config.Refuse }})
	a := w.Dial(t).Connect("other.test:443")
	wantRefusal(t, a, 403, "http_request_denied", "undeclared_host")
	plain := world.Do(t, w.Client(world.Plain), world.Request(t, "GET", "http://other.test/", nil))
	wantRefusal(t, plain, 403, "http_request_denied", "undeclared_host")
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		if a := w.Get(t, via, "/"); a.StatusCode != 200 {
			t.Errorf("a declared host: %d", a.StatusCode)
		}
	})
}

// The name of a hello decides for an address: whoever is not declared is left
// alone, TLS and all.
func TestAnAddressWithAnUndeclaredNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	for name, hosts := range map[string]string{"an address of no site": "192.0.2.1", "a declared address": "127.0.0.1"} {
		t.Run(name, func(t *testing.T) {
			other := world.New(t, world.Options{Handler: hello})
			_, port, _ := net.SplitHostPort(other.Origin.Addr("8443"))
			w := world.New(t, world.Options{Handler: hello, Config: func(c *config.Config) {
				s := world.Site("address", hosts)
				s.Origin.Resolve = map[string]string{hosts + ":" + port: "127.0.0.1:" + port}
				c.Sites = append(c.Sites, s)
			}})
			c, err := w.Connect(t, "127.0.0.1:"+port).TryTLS(other.Origin.TLS("other.test"))
			if err != nil {
				t.Fatalf("it did not reach the server itself: %v", err)
			}
			c.Send("GET / HTTP/1.1\r\nHost: other.test\r\n\r\n")
			if a := c.Answer("GET"); a.Text != "hello other.test" {
				t.Errorf("%d %s", a.StatusCode, a.Text)
			}
		})
	}
}
