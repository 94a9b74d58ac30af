package proxy_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// evilAnswer is a whole response that no client has asked for.
const evilAnswer = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\nSet-Cookie: sid=evil\r\n\r\nevil"

// hostileOrigin answers /own with raw bytes, and keeps the connection for more.
// To all else it answers with the method and the path.
func hostileOrigin(raw string) func(*world.Conn) {
	return func(c *world.Conn) {
		for {
			c.SetDeadline(time.Now().Add(patience))
			r, err := http.ReadRequest(c.R)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			answer := raw
			if r.URL.Path != "/own" {
				text := r.Method + " " + r.URL.Path
				answer = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(text), text)
			}
			if _, err := io.WriteString(c.Conn, answer); err != nil || strings.HasSuffix(answer, closes) {
				return
			}
		}
	}
}

// closes stands at the end of what an origin sends before it hangs up. Clients
// never see it: it is in no framing.
const closes = "\x00"

// What an origin answers concerns the client that asked, and nobody else. It is
// passed on where it can be understood in one way only, visibly broken where
// it breaks off, and a 502 otherwise.
func TestHostileAnswers(t *testing.T) {
	t.Parallel()
	const (
		head    = "HTTP/1.1 200 OK\r\n"
		chunked = head + "Transfer-Encoding: chunked\r\n\r\n"
	)
	for _, tt := range []struct {
		name, method string
		raw          string
		status       int
		text         string // of the body, as far as it comes
		broken       bool   // the client sees that it is not whole
	}{
		// Framing.
		{"a length and chunks", "GET", head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 200, "hello", false},
		{"the same length twice", "GET", head + "Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"two lengths", "GET", head + "Content-Length: 5\r\nContent-Length: 4\r\n\r\nhello", 502, "", false},
		{"a list of lengths", "GET", head + "Content-Length: 5, 4\r\n\r\nhello", 502, "", false},
		{"a negative length", "GET", head + "Content-Length: -5\r\n\r\nhello", 502, "", false},
		{"a length with a sign", "GET", head + "Content-Length: +5\r\n\r\nhello", 502, "", false},
		{"a coding of gzip and chunks", "GET", head + "Transfer-Encoding: gzip, chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", 502, "", false},
		{"chunked twice", "GET", head + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 502, "", false},
		{"a length that is too long", "GET", head + "Content-Length: 50\r\n\r\nhello" + closes, 200, "hello" + closes, true},
		{"a length that is too short", "GET", head + "Content-Length: 5\r\n\r\nhello, world", 200, "hello", false},
		{"another answer behind the body", "GET", head + "Content-Length: 5\r\n\r\nhello" + evilAnswer, 200, "hello", false},
		{"another answer behind the chunks", "GET", chunked + "5\r\nhello\r\n0\r\n\r\n" + evilAnswer, 200, "hello", false},
		{"a negative chunk", "GET", chunked + "5\r\nhello\r\n-1\r\n\r\n", 200, "hello", true},
		{"a chunk in C", "GET", chunked + "5\r\nhello\r\n0x5\r\nhello\r\n", 200, "hello", true},
		{"a chunk that is longer than its size", "GET", chunked + "5\r\nhello, world\r\n0\r\n\r\n", 200, "hello", true},
		{"a chunk that breaks off", "GET", chunked + "50\r\nhello" + closes, 200, "hello" + closes, true},
		{"a chunk of almost 64 bits", "GET", chunked + "fffffffffffffff0\r\nhello" + closes, 200, "hello" + closes, true},
		{"chunks without end", "GET", chunked + "5\r\nhello\r\n" + closes, 200, "hello", true},
		{"a trailer that is no field", "GET", chunked + "5\r\nhello\r\n0\r\nHTTP/1.1 200 OK\r\n\r\n", 200, "hello", true},

		// Answers that have no body.
		{"HEAD with a body", "HEAD", head + "Content-Length: 96\r\n\r\n" + evilAnswer, 200, "", false},
		{"304 with a body", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 96\r\n\r\n" + evilAnswer, 304, "", false},
		{"204 with a body", "GET", "HTTP/1.1 204 No Content\r\nContent-Length: 96\r\n\r\n" + evilAnswer, 204, "", false},
		{"204 with chunks", "GET", "HTTP/1.1 204 No Content\r\nTransfer-Encoding: chunked\r\n\r\n" + evilAnswer, 204, "", false},
		{"103 with a body", "GET", "HTTP/1.1 103 Early Hints\r\nContent-Length: 5\r\n\r\nhello" + head + "\r\n", 502, "", false},

		// Fields.
		{"a fold", "GET", head + "X: a\r\n b\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"a fold before the first field", "GET", head + " Content-Length: 5\r\n\r\nhello", 502, "", false},
		{"a NUL in a value", "GET", head + "X: a\x00b\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"a CR in a value", "GET", head + "X: a\rSet-Cookie: sid=evil\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"a NUL in a cookie", "GET", head + "Set-Cookie: sid=a\x00b\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"a CR in a cookie", "GET", head + "Set-Cookie: sid=a\rb\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"a control character in a cookie", "GET", head + "Set-Cookie: sid=a\x1fb\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"no colon", "GET", head + "Set-Cookie\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"no name", "GET", head + ": x\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"a head of 1 MiB", "GET", head + "X: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", 502, "", false},
		{"a hundred thousand fields", "GET", head + strings.Repeat("X: y\r\n", 100_000) + "\r\n", 502, "", false},
		{"a line without end", "GET", "HTTP/1.1 200 " + strings.Repeat("O", 1<<20), 502, "", false},

		// Statuses.
		{"099", "GET", "HTTP/1.1 099 X\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"000", "GET", "HTTP/1.1 000 X\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"1000", "GET", "HTTP/1.1 1000 X\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"-20", "GET", "HTTP/1.1 -20 X\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"20", "GET", "HTTP/1.1 20 X\r\nContent-Length: 5\r\n\r\nhello", 502, "", false},
		{"999", "GET", "HTTP/1.1 999 X\r\nContent-Length: 5\r\n\r\nhello", 999, "hello", false},
		{"no reason", "GET", "HTTP/1.1 200\r\nContent-Length: 5\r\n\r\nhello", 200, "hello", false},
		{"101 unasked", "GET", "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", 502, "", false},
		{"1xx without end", "GET", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 10_000), 502, "", false},
		{"100 without end", "POST", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000), 502, "", false},
		{"no HTTP", "GET", "<html>hello</html>\r\n\r\n" + closes, 502, "", false},
		{"another protocol", "GET", "ICY 200 OK\r\n\r\n" + closes, 502, "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Script: hostileOrigin(tt.raw)})
			for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2} {
				for _, method := range []string{tt.method, "POST"} { // bodies take a transport of their own
					if method != tt.method && tt.method != "GET" {
						continue
					}
					t.Run(via.Name+" "+method, func(t *testing.T) {
						var body io.Reader
						if method == "POST" {
							body = strings.NewReader("a form")
						}
						a := world.Do(t, w.Client(via), world.Request(t, method, via.URL("/own"), body))
						switch {
						case a.StatusCode != tt.status:
							t.Errorf("status %d, want %d: %.60q", a.StatusCode, tt.status, a.Text)
						case tt.status == 502:
							wantRefusal(t, a, 502, "http_protocol_error", "origin_protocol")
						case a.Text != tt.text, (a.Err != nil) != tt.broken:
							t.Errorf("the body is %q, %v; want %q, broken: %v", a.Text, a.Err, tt.text, tt.broken)
						}
						if len(a.Header["Set-Cookie"]) > 0 || len(a.Trailer["Set-Cookie"]) > 0 {
							t.Errorf("Set-Cookie %q, trailer %v", a.Header["Set-Cookie"], a.Trailer)
						}
						for i := range 3 {
							path := fmt.Sprintf("/innocent-%d", i)
							if a := w.Get(t, via, path); a.Text != "GET "+path {
								t.Errorf("another client was answered with %d %q", a.StatusCode, a.Text)
							}
							a := world.Do(t, w.Client(via), world.Request(t, "POST", via.URL(path), strings.NewReader("a form")))
							if a.Text != "POST "+path {
								t.Errorf("another client's form was answered with %d %q", a.StatusCode, a.Text)
							}
						}
					})
				}
			}
		})
	}
}

// Clients share connections to the origin. One that is answered twice must not
// leave the second answer to the next client.
func TestAnswersNobodyAskedForReachNobody(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
	for _, tt := range []struct{ name, method, raw string }{
		{"two answers", "GET", ok + evilAnswer},
		{"a long answer, and another", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10) + evilAnswer},
		{"a long answer to a form, and another", "POST", "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 64<<10) + evilAnswer},
		{"HEAD with a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 90\r\n\r\n" + evilAnswer},
		{"304 with a body", "GET", "HTTP/1.1 304 Not Modified\r\n\r\n" + evilAnswer},
		{"two answers to a form", "POST", ok + evilAnswer},
		{"304 with a body to a form", "POST", "HTTP/1.1 304 Not Modified\r\n\r\n" + evilAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Script: hostileOrigin(tt.raw)})
			via := world.Plain
			body := func() io.Reader {
				if tt.method == "POST" {
					return strings.NewReader("a form")
				}
				return nil
			}
			var clients sync.WaitGroup
			for n := range 8 {
				clients.Go(func() {
					for i := range 50 {
						method, path := tt.method, "/own"
						if n > 1 {
							path = fmt.Sprintf("/innocent-%d-%d", n, i)
							if method == "HEAD" {
								method = "GET"
							}
						}
						resp, err := w.Client(via).Do(world.Request(t, method, via.URL(path), body()))
						if err != nil {
							t.Errorf("%s: %v", path, err)
							continue
						}
						text, err := io.ReadAll(resp.Body)
						resp.Body.Close()
						if n > 1 && string(text) != method+" "+path {
							t.Errorf("%s was answered with %d %q, %v", path, resp.StatusCode, text, err)
						}
					}
				})
			}
			clients.Wait()
		})
	}
}

// A proxy that does not unpack can't be blown up.
func TestABombStaysPacked(t *testing.T) {
	t.Parallel()
	var bomb bytes.Buffer
	z := gzip.NewWriter(&bomb)
	io.Copy(z, io.LimitReader(zeros{}, 8<<20))
	z.Close()
	w := world.New(t, world.Options{Script: hostileOrigin(fmt.Sprintf(
		"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%s", bomb.Len(), bomb.Bytes()))})
	onEach(t, world.Ways[:4], func(t *testing.T, via world.Way) {
		if a := w.Get(t, via, "/own", "Accept-Encoding", "gzip"); a.Text != bomb.String() {
			t.Errorf("%d bytes came, want the %d that were sent", len(a.Text), bomb.Len())
		}
	})
}

type zeros struct{}

func (zeros) Read(b []byte) (int, error) { clear(b); return len(b), nil }
