package proxy_test

import (
	"crypto/tls"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
)

// impatient is a proxy that soon gives up clients that say nothing.
var impatient = proxy.Timeouts{
	Handshake: 2 * time.Second, // enough for a machine that is busy with other tests
	Header:    2 * time.Second,
	Idle:      2 * time.Second,
	Sniff:     20 * time.Millisecond,
	Tunnel:    2 * time.Second,
}

func helloWorld(t *testing.T) *world.World {
	return world.New(t, world.Options{
		Handler:  handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method+" "+r.URL.Path) }),
		Timeouts: impatient,
	})
}

// clientHello is the first record of a real client.
func clientHello(t *testing.T) string {
	t.Helper()
	a, b := net.Pipe()
	go tls.Client(a, &tls.Config{ServerName: world.Host}).Handshake()
	defer a.Close()
	record := make([]byte, 16<<10)
	n, err := b.Read(record)
	if err != nil {
		t.Fatal(err)
	}
	return string(record[:n])
}

func wantInnocent(t *testing.T, w *world.World) {
	t.Helper()
	for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2} {
		if a := w.Get(t, via, "/innocent"); a.Text != "GET /innocent" {
			t.Errorf("another client by %s was answered with %d %q", via.Name, a.StatusCode, a.Text)
		}
	}
}

// Whatever comes, the connection ends by itself, and in words where words can
// be read.
func TestGarbageEnds(t *testing.T) {
	t.Parallel()
	w := helloWorld(t)
	hello := clientHello(t)
	noise := make([]byte, 4000)
	for i, r := 0, rand.New(rand.NewPCG(1, 2)); i < len(noise); i++ {
		noise[i] = byte(r.Uint32())
	}
	random := string(noise)
	dial := func(t *testing.T) *world.Conn { return w.Dial(t) }
	connect := func(addr string) func(*testing.T) *world.Conn {
		return func(t *testing.T) *world.Conn { return w.Connect(t, addr) }
	}
	tunnel := connect(world.Host + ":443")
	overTLS := func(t *testing.T) *world.Conn { return w.Raw(t, world.TunnelH1) }
	for _, tt := range []struct {
		name, bytes string
		dial        func(*testing.T) *world.Conn
		status      string // of the answer; "": there is none that could be read
	}{
		{"noise", random, dial, "400"},
		{"noise without a line end", strings.ReplaceAll(random, "\n", ""), dial, "408"},
		{"an empty line", "\r\n", dial, "400"},
		{"one letter", "G", dial, "408"},
		{"half a request", "GET http://shop.test/ HTTP/1.1\r\nHost: sh", dial, "408"},
		{"TLS where none is spoken", hello, dial, "4"},
		{"SOCKS", "\x05\x01\x00", dial, "408"},
		{"the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", dial, "400"},
		{"a path", "GET / HTTP/1.1\r\nHost: shop.test\r\nConnection: close\r\n\r\n", dial, "400"},
		{"half a CONNECT", "CONNECT shop.test:443 HTTP/1.1\r\n", dial, "408"},
		{"CONNECT to port 0", "CONNECT shop.test:0 HTTP/1.1\r\n\r\n", dial, "400"},
		{"CONNECT with chunks", "CONNECT shop.test:443 HTTP/1.1\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", dial, "400"},
		{"an expectation that nobody knows", "POST http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\nExpect: 200-ok\r\n\r\n", dial, "417"},
		{"nothing", "", dial, ""},

		{"nothing in a tunnel", "", tunnel, ""},
		{"noise in a tunnel for TLS", random, tunnel, ""},
		{"noise in a tunnel for HTTP", random, connect(world.Host + ":80"), "400"}, // the origin's own words
		{"noise in a tunnel to an address", random, connect(w.Origin.Addr("443")), ""},
		{"half a ClientHello", hello[:len(hello)/2], tunnel, ""},
		{"half a ClientHello to an address", hello[:len(hello)/2], connect(w.Origin.Addr("443")), ""},
		{"a ClientHello, and silence", hello, tunnel, ""},
		{"a ClientHello, and noise", hello + random, tunnel, ""},
		{"a record that is no ClientHello", "\x16\x03\x01\x40\x00" + random, tunnel, ""},
		{"a long record", "\x16\x03\x01\xff\xff" + random, tunnel, ""},

		{"noise over TLS", random, overTLS, "400"},
		{"half a request over TLS", "GET / HTTP/1.1\r\nHost: sh", overTLS, "408"},
		{"nothing over TLS", "", overTLS, ""},
		{"half a request in a tunnel", "GET / HTTP/1.1\r\nHost: sh", connect(world.Host + ":80"), "408"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.dial(t)
			go io.WriteString(c.Conn, tt.bytes)
			b, _ := io.ReadAll(c.R) // a reset is an end, too
			text := string(b)
			if i := strings.Index(text, "HTTP/1.1 "); tt.status != "" && (i < 0 || !strings.HasPrefix(text[i+len("HTTP/1.1 "):], tt.status)) {
				t.Errorf("answered with %q, want %s", text, tt.status)
			}
			if tt.status == "" && strings.Contains(text, "HTTP/1") {
				t.Errorf("answered with %q", text)
			}
			wantInnocent(t, w)
		})
	}
}

// Many clients read only when they have sent all.
func TestAHeadOf32MiBGetsItsAnswer(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.Method+" "+r.URL.Path) })})
	for name, field := range map[string]string{
		"in one field":           "X: " + strings.Repeat("x", 32<<20),
		"in ten thousand fields": strings.TrimSuffix(strings.Repeat("X-Name: value\r\n", 10_000), "\r\n"),
		"in one name":            strings.Repeat("x", 1<<20) + ": y",
	} {
		for _, via := range []world.Way{world.Plain, world.TunnelH1} {
			t.Run(name+" by "+via.Name, func(t *testing.T) {
				t.Parallel()
				c := w.Raw(t, via)
				c.Send(world.Head("GET", via, "/", field))
				a := nextAnswer(t, c, "GET")
				if a == nil || a.StatusCode != 431 {
					t.Fatalf("answered with %+v, want 431", a)
				}
				wantOwnAnswer(t, a)
				c.WantEnd()
				if a := w.Get(t, via, "/innocent"); a.Text != "GET /innocent" {
					t.Errorf("another client was answered with %d %q", a.StatusCode, a.Text)
				}
			})
		}
	}
}

// Clients that hold their connections open hold up nobody else.
func TestTwoHundredStuckClientsStopNobody(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stuck" {
			w.(http.Flusher).Flush()
			select {
			case <-stuck:
			case <-r.Context().Done():
			}
			return
		}
		io.WriteString(w, r.Method+" "+r.URL.Path)
	})})
	hello := clientHello(t)
	says := []string{
		"",
		"GET http://shop.test/ HTTP/1.1\r\nHo",
		"CONNECT shop.test:443 HTTP/1.1\r\n\r\n",
		"CONNECT shop.test:443 HTTP/1.1\r\n\r\n" + hello[:100],
		"CONNECT shop.test:80 HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n",
		"POST http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 10\r\n\r\nhalf",
		"POST http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nh",
		"GET http://shop.test/stuck HTTP/1.1\r\nHost: shop.test\r\n\r\n",
	}
	for i := range 200 {
		w.Dial(t).Send(says[i%len(says)]) // closed with the test
	}
	began := time.Now()
	for range 5 {
		wantInnocent(t, w)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("fifteen requests of another client took %v", took)
	}
	close(stuck)
}

// A client that speaks plain HTTP to an HTTPS proxy is told.
func TestPlainHTTPToASecurePort(t *testing.T) {
	t.Parallel()
	w := helloWorld(t)
	addr := w.Listen(config.Listen{Auth: config.AuthNone, TLS: true})
	for _, request := range []string{
		"CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\n\r\n",
		"GET http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n\r\n",
		"POST http://shop.test/ HTTP/1.1\r\nHost: shop.test\r\nContent-Length: 5\r\n\r\nhello",
	} {
		c := w.DialTo(t, addr)
		c.Send(request)
		wantRefusal(t, c.Answer("GET"), 400, "http_request_error", "tls_wanted")
		c.WantEnd()
	}
}

// A request that never became one is recorded all the same.
func TestGarbageIsRecorded(t *testing.T) {
	t.Parallel()
	w := helloWorld(t)
	for _, via := range []world.Way{world.Plain, world.TunnelH1} {
		c := w.Raw(t, via)
		c.Send("GET " + via.Target("/") + " HTTP/1.1\r\n\r\n")
		a := nextAnswer(t, c, "GET")
		wantRefusal(t, a, 400, "http_request_error", "malformed")
		w.WantRecord(t, "exchange", "mode", via.Mode(), "outcome", "refused", "refused", "malformed", "status", 400, "id", a.Header.Get("X-Exchange-Id"))
		c = w.Raw(t, via)
		c.Send(world.Head("POST", via, "/", "Content-Length: 5", "Transfer-Encoding: chunked"))
		a = nextAnswer(t, c, "POST")
		wantRefusal(t, a, 400, "http_request_error", "ambiguous")
		w.WantRecord(t, "exchange", "mode", via.Mode(), "refused", "ambiguous", "method", "POST", "id", a.Header.Get("X-Exchange-Id"))
	}
}
