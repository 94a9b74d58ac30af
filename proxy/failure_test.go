package proxy_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/session"
)

// wantRefusal asserts one of the proxy's own answers: RFC 9209 says what went
// wrong, a sentence says it to people.
func wantRefusal(t *testing.T, a *world.Answer, status int, kind, code string) {
	t.Helper()
	if a.StatusCode != status {
		t.Errorf("status %d, want %d: %s", a.StatusCode, status, a.Text)
	}
	want := "sessionproxy; error=" + kind + `; details="` + code + ": "
	if got := a.Header.Get("Proxy-Status"); !strings.HasPrefix(got, want) {
		t.Errorf("Proxy-Status %s, want %s…", got, want)
	}
	if a.Header.Get("X-Exchange-Id") == "" {
		t.Error("no X-Exchange-Id")
	}
	if !strings.HasPrefix(a.Text, "sessionproxy: ") || strings.Contains(a.Text, "127.0.0.1:") || strings.Contains(a.Text, ".go") {
		t.Errorf("the sentence for people is %q", a.Text)
	}
}

// closedPort is an address where nothing listens.
func closedPort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// at sends the site's ports somewhere else.
func at(addr string) func(*config.Config) {
	return func(c *config.Config) {
		c.Sites[0].Origin.Resolve = map[string]string{
			"shop.test:80": addr, "shop.test:443": addr, "shop.test:8443": addr,
		}
	}
}

func TestADialThatFailsIsA502(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Config: at(closedPort(t))})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		wantRefusal(t, w.Get(t, via, "/"), 502, "connection_refused", "origin_refused")
		a := world.Do(t, w.Client(via), world.Request(t, "POST", via.URL("/"), strings.NewReader("a form")))
		wantRefusal(t, a, 502, "connection_refused", "origin_refused")
		w.WantRecord(t, "exchange", "mode", via.Mode(), "method", "POST", "status", 502, "outcome", "failed", "refused", "origin_refused", "id", a.Header.Get("X-Exchange-Id"))
	})
}

func TestOriginsThatFailAtTLS(t *testing.T) {
	t.Parallel()
	plain := world.Serve(t, func(c *world.Conn) {
		c.R.ReadByte()
		c.Send("HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	refuses := world.Serve(t, func(c *world.Conn) {
		tls.Server(c.Conn, &tls.Config{}).Handshake() // it has no certificate
	})
	silent := world.Serve(t, func(c *world.Conn) { io.Copy(io.Discard, c.Conn) })
	gone := world.Serve(t, func(c *world.Conn) { c.R.ReadByte() })
	other := world.New(t, world.Options{}) // its origin's CA is another
	for _, tt := range []struct {
		name, addr string
		status     int
		kind, code string
	}{
		{"a certificate of an unknown authority", other.Origin.Addr("443"), 502, "tls_certificate_error", "origin_certificate"},
		{"no TLS at all", plain, 502, "tls_protocol_error", "origin_tls"},
		{"a refused handshake", refuses, 502, "tls_alert_received", "origin_tls"},
		{"a connection that is closed at once", gone, 502, "connection_terminated", "origin_closed"},
		{"a handshake that gets no answer", silent, 504, "connection_timeout", "connect_timeout"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := world.New(t, world.Options{Config: at(tt.addr), Timeouts: proxy.Timeouts{Handshake: 2 * time.Second}})
			for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
				t.Run(via.Name, func(t *testing.T) { wantRefusal(t, w.Get(t, via, "/"), tt.status, tt.kind, tt.code) })
			}
		})
	}
}

func TestInsecureOriginsAreTheOperatorsWord(t *testing.T) {
	t.Parallel()
	other := world.New(t, world.Options{})
	w := world.New(t, world.Options{Config: func(c *config.Config) {
		at(other.Origin.Addr("443"))(c)
		c.Sites[0].Origin.Insecure = true
	}})
	if a := w.Get(t, world.TunnelH1, "/"); a.StatusCode != 404 {
		t.Errorf("status %d, want the origin's 404", a.StatusCode)
	}
}

func TestAnswersThatAreNoHTTPAreA502(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, bytes, kind, code string }{
		{"nothing", "", "connection_terminated", "origin_closed"},
		{"half a head", "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n", "connection_terminated", "origin_closed"},
		{"another protocol", "SSH-2.0-OpenSSH_9.9\r\n\r\n", "http_protocol_error", "origin_protocol"},
		{"a head without end", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 300<<10) + "\r\n\r\n", "http_protocol_error", "origin_protocol"},
		{"a control character in a cookie", "HTTP/1.1 200 OK\r\nSet-Cookie: a=\x01\r\nContent-Length: 0\r\n\r\n", "http_protocol_error", "origin_protocol"},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", "http_protocol_error", "origin_protocol"},
		{"a 407, which a client would take for the proxy's", "HTTP/1.1 407 X\r\nProxy-Authenticate: Basic realm=x\r\nContent-Length: 0\r\n\r\n", "http_protocol_error", "origin_407"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Script: answer(tt.bytes)})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				a := w.Get(t, via, "/")
				wantRefusal(t, a, 502, tt.kind, tt.code)
				if a.Header.Get("Proxy-Authenticate") != "" {
					t.Error("Proxy-Authenticate was passed on")
				}
			})
		})
	}
}

func TestAStreamThatTheOriginResetsIsA502(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: handler(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		wantRefusal(t, w.Get(t, via, "/"), 502, "connection_terminated", "origin_closed")
	})
}

func TestAnOriginThatIsSilentIsA504(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{
		Script:   func(c *world.Conn) { io.Copy(io.Discard, c.R) },
		Timeouts: proxy.Timeouts{ResponseHead: 200 * time.Millisecond},
	})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		wantRefusal(t, w.Get(t, via, "/"), 504, "http_response_timeout", "response_timeout")
	})
	if n := w.Origin.Open(); n != 0 {
		world.Eventually(t, "the silent connections close", func() bool { return w.Origin.Open() == 0 })
	}
}

func TestAnUploadThatMakesProgressIsNotCut(t *testing.T) {
	t.Parallel()
	const limit = 600 * time.Millisecond
	w := world.New(t, world.Options{
		Handler:  handler(func(w http.ResponseWriter, r *http.Request) { io.Copy(w, r.Body) }),
		Timeouts: proxy.Timeouts{ResponseHead: limit},
	})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		t.Parallel()
		pr, pw := io.Pipe()
		go func() {
			tick := time.NewTicker(limit / 5)
			defer tick.Stop()
			for range 7 { // more than the limit in all
				<-tick.C
				pw.Write([]byte("x"))
			}
			pw.Close()
		}()
		a := world.Do(t, w.Client(via), world.Request(t, "POST", via.URL("/"), pr))
		if a.StatusCode != 200 || a.Text != "xxxxxxx" {
			t.Errorf("got %d %q, %v", a.StatusCode, a.Text, a.Err)
		}
	})
}

// A broken body must not look whole.
func TestTruncatedBodiesLookTruncated(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, bytes string }{
		{"within a length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"},
		{"before the first byte", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n"},
		{"between chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"},
		{"within a chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf"},
		{"in a bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\nzz\r\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Script: answer(tt.bytes)})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				a := w.Get(t, via, "/")
				if a.StatusCode != 200 || a.Err == nil || !strings.Contains(tt.bytes, a.Text) {
					t.Errorf("got %d %q, %v; want what came, and an error", a.StatusCode, a.Text, a.Err)
				}
				if via.H2 && !strings.Contains(a.Err.Error(), "stream error") {
					t.Errorf("the stream ended with %v, want a reset", a.Err)
				}
				w.WantRecord(t, "exchange", "mode", via.Mode(), "outcome", "broken", "status", 200)
			})
		})
	}
}

func TestAClientThatGoesAwayCancelsItsRequest(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer bool // the origin has begun to
	}{{"before the answer", false}, {"within it", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			arrived, cancelled := make(chan bool), make(chan bool, 1)
			w := world.New(t, world.Options{Handler: handler(func(w http.ResponseWriter, r *http.Request) {
				if tt.answer {
					w.(http.Flusher).Flush()
				}
				arrived <- true
				select {
				case <-r.Context().Done():
					cancelled <- true
				case <-time.After(5 * time.Second):
					cancelled <- false
				}
			})})
			onEach(t, world.Ways, func(t *testing.T, via world.Way) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				done := make(chan struct{})
				go func() {
					defer close(done)
					resp, err := w.Client(via).Do(world.Request(t, "GET", via.URL("/"), nil).WithContext(ctx))
					if err == nil {
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				}()
				<-arrived
				cancel()
				<-done
				if !<-cancelled {
					t.Error("the origin still works for a client that is gone")
				}
				w.WantRecord(t, "exchange", "mode", via.Mode(), "outcome", "client_gone")
			})
		})
	}
}

func TestRefusalsComeInTheFormThatTheClientReads(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Config: at(closedPort(t))})
	for _, tt := range []struct{ accept, mediaType, contains string }{
		{"*/*", "text/plain; charset=utf-8", "sessionproxy: shop.test refused the connection.\n"},
		{"text/html,application/xhtml+xml,*/*;q=0.8", "text/html; charset=utf-8", "<p>shop.test refused the connection.</p>"},
		{"application/json", "application/problem+json", `"detail":"shop.test refused the connection."`},
	} {
		onEach(t, world.Ways, func(t *testing.T, via world.Way) {
			a := w.Get(t, via, "/", "Accept", tt.accept)
			if a.StatusCode != 502 || a.Header.Get("Content-Type") != tt.mediaType || !strings.Contains(a.Text, tt.contains) {
				t.Errorf("%d %s %q", a.StatusCode, a.Header.Get("Content-Type"), a.Text)
			}
			if a.ContentLength != int64(len(a.Text)) || a.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("length %d for %d bytes, Cache-Control %q", a.ContentLength, len(a.Text), a.Header.Get("Cache-Control"))
			}
			if head := world.Do(t, w.Client(via), world.Request(t, "HEAD", via.URL("/"), nil, "Accept", tt.accept)); head.StatusCode != 502 || head.Text != "" {
				t.Errorf("HEAD: %d %q", head.StatusCode, head.Text)
			}
		})
	}
}

// panicking is a store with a fault.
type panicking struct{ session.Store }

func (panicking) Load(context.Context, session.Key) (*session.Jar, error) { panic("no jar today") }

func TestAPanicEndsOneExchangeOnly(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Store: func(s session.Store) session.Store { return panicking{s} }, Faulty: true})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for range 2 {
			wantRefusal(t, w.Get(t, via, "/"), 500, "proxy_internal_error", "internal")
		}
	})
	w.WantRecord(t, "panic", "value", "no jar today")
	w.WantRecord(t, "exchange", "mode", "h2", "status", 500, "outcome", "failed")
}

// failing is a store that is out of order.
type failing struct{ session.Store }

var errStore = errors.New("disk on fire")

func (failing) Load(context.Context, session.Key) (*session.Jar, error) { return nil, errStore }
func (failing) Apply(context.Context, session.Key, session.Update, session.Life) (*session.Jar, []session.Outcome, error) {
	return nil, nil, errStore
}

func TestAnOutageOfTheStoreStopsNoRequest(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{
		Handler: handler(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Set-Cookie", "sid=2")
			io.WriteString(w, r.Header.Get("Cookie"))
		}),
		Store: func(s session.Store) session.Store { return failing{s} },
	})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		a := w.Get(t, via, "/", "Cookie", "sid=1")
		if a.Text != "sid=1" || a.Header.Get("Set-Cookie") != "sid=2" {
			t.Errorf("got %d %q and Set-Cookie %q; want the client's own cookies both ways", a.StatusCode, a.Text, a.Header.Get("Set-Cookie"))
		}
	})
	w.WantRecord(t, "store", "op", "load", "err", errStore)
	w.WantRecord(t, "store", "op", "apply", "err", errStore)
}

func TestARequiredStoreThatIsAwayStopsDeclaredSites(t *testing.T) {
	t.Parallel()
	var up atomic.Bool
	w := world.New(t, world.Options{Handler: hello, StoreUp: up.Load})
	for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2} {
		a := world.Do(t, w.Client(via), world.Request(t, http.MethodGet, via.URL("/"), nil))
		wantRefusal(t, a, http.StatusServiceUnavailable, "proxy_internal_error", "store_unavailable")
	}
	up.Store(true)
	a := world.Do(t, w.Client(world.TunnelH1), world.Request(t, http.MethodGet, world.TunnelH1.URL("/"), nil))
	if a.StatusCode != http.StatusOK {
		t.Errorf("with the store there: %d %q", a.StatusCode, a.Text)
	}
}
