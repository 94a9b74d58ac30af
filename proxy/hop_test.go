package proxy_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// mirror answers with the header fields that it saw.
var mirror = handler(func(w http.ResponseWriter, r *http.Request) {
	r.Header["Host"] = []string{r.Host}
	json.NewEncoder(w).Encode(r.Header)
})

// seen is what mirror saw.
func seen(t *testing.T, a *world.Answer) http.Header {
	t.Helper()
	var h http.Header
	if err := json.Unmarshal([]byte(a.Text), &h); err != nil {
		t.Fatalf("%d %q: %v", a.StatusCode, a.Text, err)
	}
	return h
}

func TestTheOriginSeesTheClientsFieldsAndNoOthers(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: mirror})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		c.Send(world.Head("GET", via, "/"))
		got := seen(t, c.Answer("GET"))
		if len(got) != 1 || got.Get("Host") != world.Host {
			t.Errorf("a request without fields arrived with %v", got)
		}
		c.Send(world.Head("GET", via, "/",
			"X-Twice: a", "X-Twice: b", "X-Empty:", "X-Long: "+strings.Repeat("y", 4000), "User-Agent: one/1", "accept: */*"))
		got = seen(t, c.Answer("GET"))
		if !slices.Equal(got["X-Twice"], []string{"a", "b"}) || !slices.Equal(got["X-Empty"], []string{""}) ||
			len(got.Get("X-Long")) != 4000 || got.Get("User-Agent") != "one/1" || got.Get("Accept") != "*/*" || len(got) != 6 {
			t.Errorf("arrived: %v", got)
		}
	})
	onEach(t, []world.Way{world.TunnelH2, world.TunnelH2H1}, func(t *testing.T, via world.Way) {
		got := seen(t, w.Get(t, via, "/", "User-Agent", "", "X-Twice", "a", "X-Twice", "b"))
		if !slices.Equal(got["X-Twice"], []string{"a", "b"}) || len(got) != 2 {
			t.Errorf("arrived: %v", got)
		}
	})
}

// RFC 9110 section 7.6.1.
func TestFieldsOfTheHopStayOnIt(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: mirror})
	onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
		c := w.Raw(t, via)
		c.Send(world.Head("GET", via, "/",
			"Connection: keep-alive, X-Hop, ,x-other-hop", "Keep-Alive: timeout=5", "X-Hop: 1", "X-Other-Hop: 1", "X-End: 1",
			"TE: trailers, deflate;q=0.5", "Proxy-Connection: keep-alive", "Proxy-Authorization: Basic eDp5", "Proxy-Anything: 1",
			"X-Proxy-Session: s1", "Upgrade: h2c"))
		got := seen(t, c.Answer("GET"))
		if want := (http.Header{"Host": {world.Host}, "X-End": {"1"}, "Te": {"trailers"}}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("arrived: %v, want %v", got, want)
		}
	})
	onEach(t, []world.Way{world.TunnelH2, world.TunnelH2H1}, func(t *testing.T, via world.Way) {
		got := seen(t, w.Get(t, via, "/", "User-Agent", "", "Proxy-Authorization", "Basic eDp5", "Proxy-Anything", "1", "X-Proxy-Session", "s1", "Te", "trailers"))
		if want := (http.Header{"Host": {got.Get("Host")}, "Te": {"trailers"}}); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("arrived: %v, want %v", got, want)
		}
	})
}

// nghttp2 and browsers refuse Keep-Alive, Upgrade and their kin in HTTP/2.
func TestAnswersLeaveTheirHopBehind(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Script: always("HTTP/1.1 200 OK\r\nConnection: keep-alive, X-Hop\r\nKeep-Alive: timeout=5\r\nX-Hop: 1\r\n" +
		"Upgrade: h2c\r\nProxy-Connection: keep-alive\r\nProxy-Authenticate: Basic realm=x\r\nProxy-Authentication-Info: nextnonce=x\r\nAlt-Svc: h3=\":443\"\r\nX-End: 1\r\nContent-Length: 5\r\n\r\nhello")})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for range 2 {
			a := w.Get(t, via, "/")
			for _, name := range []string{"Connection", "Keep-Alive", "X-Hop", "Upgrade", "Proxy-Connection", "Proxy-Authenticate", "Proxy-Authentication-Info", "Alt-Svc"} {
				if v := a.Header[name]; v != nil {
					t.Errorf("%s: %q was passed on", name, v)
				}
			}
			if a.Text != "hello" || a.Header.Get("X-End") != "1" {
				t.Errorf("got %d %q %v", a.StatusCode, a.Text, a.Header)
			}
		}
	})
}

// The client's wish to close its connection is not the origin's concern: new
// connections there cost twice the CPU.
func TestAClientsCloseLeavesTheOriginsConnectionOpen(t *testing.T) {
	t.Parallel()
	for _, via := range world.H1Ways {
		t.Run(via.Name, func(t *testing.T) {
			w := world.New(t, world.Options{Handler: mirror})
			for range 3 {
				c := w.Raw(t, via)
				c.Send(world.Head("GET", via, "/", "Connection: close"))
				if a := c.Answer("GET"); seen(t, a)["Connection"] != nil || !a.Close {
					t.Errorf("Connection: close became %v to the origin and close=%t to the client", seen(t, a)["Connection"], a.Close)
				}
				c.WantEnd()
			}
			if n := w.Origin.Accepted(); n != 1 {
				t.Errorf("three clients took %d connections to the origin, want 1", n)
			}
		})
	}
}

func TestClientsShareConnectionsToTheOrigin(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })})
	for _, name := range []string{"ana", "ben"} {
		a := w.GetAs(t, world.TunnelH2, world.User{Name: name}, "/")
		if a.Text != "HTTP/2.0" {
			t.Errorf("the origin saw %s, want HTTP/2.0", a.Text)
		}
	}
	if n := w.Origin.Accepted(); n != 1 {
		t.Errorf("two HTTP/2 clients took %d connections to the origin, want 1", n)
	}
}

// Each side sees the protocol that it would see without the proxy, where the
// other side has it.
func TestProtocolsOnBothSides(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Proto) })})
	for _, tt := range []struct {
		via            world.Way
		client, origin string
	}{
		{world.Plain, "HTTP/1.1", "HTTP/1.1"},
		{world.TunnelH1, "HTTP/1.1", "HTTP/1.1"},
		{world.TunnelH2, "HTTP/2.0", "HTTP/2.0"},
		{world.TunnelH2H1, "HTTP/2.0", "HTTP/1.1"},
	} {
		t.Run(tt.via.Name, func(t *testing.T) {
			if a := w.Get(t, tt.via, "/"); a.Proto != tt.client || a.Text != tt.origin {
				t.Errorf("client %s, origin %s; want %s, %s", a.Proto, a.Text, tt.client, tt.origin)
			}
		})
	}
}

func TestTheOperatorsFieldsAreSet(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: mirror, Config: func(c *config.Config) {
		c.Sites[0].Headers = map[string]string{"User-Agent": "profile/1", "X-Secret": "s3"}
	}})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		got := seen(t, w.Get(t, via, "/", "User-Agent", "curl/8", "X-Secret", "guess", "X-Secret", "again"))
		if !slices.Equal(got["User-Agent"], []string{"profile/1"}) || !slices.Equal(got["X-Secret"], []string{"s3"}) {
			t.Errorf("arrived: %v", got)
		}
	})
}

// RFC 9110 section 7.6.2.
func TestMaxForwardsCountsTheProxy(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		io.WriteString(w, r.Header.Get("Max-Forwards"))
	})})
	for _, tt := range []struct {
		name, method, value string
		status              int
		text                string // that the origin saw
		forwarded           int64
	}{
		{"the last hop answers", "OPTIONS", "0", 200, "", 0},
		{"one hop is used up", "OPTIONS", "1", 200, "0", 1},
		{"of many, too", "OPTIONS", "10", 200, "9", 1},
		{"what is no number counts nothing", "OPTIONS", "-1", 200, "-1", 1},
		{"other methods are not counted", "GET", "0", 200, "0", 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				before := asked.Load()
				a := world.Do(t, w.Client(via), world.Request(t, tt.method, via.URL("/"), nil, "Max-Forwards", tt.value))
				if n := asked.Load() - before; a.StatusCode != tt.status || n != tt.forwarded || n > 0 && a.Text != tt.text {
					t.Errorf("answered %d %q, forwarded %d times; want %d %q, %d", a.StatusCode, a.Text, n, tt.status, tt.text, tt.forwarded)
				}
			})
		})
	}
	t.Run("TRACE ends here, at a host of no site too", func(t *testing.T) {
		c := w.Dial(t)
		c.Send("TRACE http://" + w.Origin.Addr("80") + "/ HTTP/1.1\r\nHost: x\r\nMax-Forwards: 0\r\n\r\n")
		if a := c.Answer("TRACE"); a.StatusCode != 405 {
			t.Errorf("answered %d %q, want 405", a.StatusCode, a.Text)
		}
	})
}
