package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server answers each request on each connection with what script writes.
type server struct {
	addr  string
	conns atomic.Int64
}

func serve(t testing.TB, script func(conn net.Conn, n int, head string)) *server {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{addr: ln.Addr().String()}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			s.conns.Add(1)
			mu.Lock()
			open = append(open, conn)
			mu.Unlock()
			wg.Go(func() {
				defer conn.Close()
				r := bufio.NewReader(conn)
				for n := 1; ; n++ {
					var head strings.Builder
					for !strings.HasSuffix(head.String(), "\r\n\r\n") {
						line, err := r.ReadString('\n')
						if err != nil {
							return
						}
						head.WriteString(line)
					}
					script(conn, n, head.String())
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return s
}

// answering is a server that writes the same bytes for each request, and then
// closes the connection if hangUp.
func answering(t testing.TB, answer string, hangUp bool) *server {
	return serve(t, func(conn net.Conn, _ int, _ string) {
		io.WriteString(conn, answer)
		if hangUp {
			conn.Close()
		}
	})
}

func newTransport(t testing.TB) *Transport {
	rest := &http.Transport{
		DialContext:            (&net.Dialer{}).DialContext,
		DisableCompression:     true,
		ResponseHeaderTimeout:  5 * time.Second,
		MaxIdleConnsPerHost:    4,
		IdleConnTimeout:        time.Minute,
		MaxResponseHeaderBytes: 64 << 10,
	}
	tr := New(rest)
	t.Cleanup(tr.CloseIdleConnections)
	return tr
}

func request(t testing.TB, ctx context.Context, method, url string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header["User-Agent"] = []string{""}
	return r
}

// result is a whole response, or that there was none.
type result struct {
	Err     bool
	Status  int
	Header  http.Header
	Body    string
	Cut     bool
	Trailer http.Header
	Length  int64
}

func fetch(rt http.RoundTripper, r *http.Request) result {
	resp, err := rt.RoundTrip(r)
	if err != nil {
		return result{Err: true}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return result{Status: resp.StatusCode, Header: resp.Header, Body: string(b), Cut: err != nil, Trailer: resp.Trailer, Length: resp.ContentLength}
}

// responses are what origins send, well or badly.
var responses = map[string]string{
	"length":                         "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\nX-A: 2\r\n\r\nhello",
	"length of nothing":              "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
	"chunked":                        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"chunked with extensions":        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5;a=b\r\nhello\r\n0\r\n\r\n",
	"trailers":                       "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n",
	"trailers, unannounced":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 9\r\n\r\n",
	"until closed":                   "HTTP/1.1 200 OK\r\n\r\nhello",
	"HTTP/1.0":                       "HTTP/1.0 200 OK\r\n\r\nhello",
	"HTTP/1.0 with length":           "HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
	"connection close":               "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
	"204":                            "HTTP/1.1 204 No Content\r\n\r\n",
	"204 with a length":              "HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n",
	"304 with a length":              "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n",
	"early hints first":              "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"100 unasked":                    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok",
	"body cut off":                   "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello",
	"chunk cut off":                  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhello",
	"chunks without an end":          "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
	"negative chunk":                 "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nhello\r\n0\r\n\r\n",
	"head cut off":                   "HTTP/1.1 200 OK\r\nContent-Le",
	"nothing":                        "",
	"no HTTP":                        "SSH-2.0-OpenSSH_9.2\r\n",
	"HTTP/2 in text":                 "HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
	"status of two digits":           "HTTP/1.1 20 OK\r\nContent-Length: 0\r\n\r\n",
	"negative status":                "HTTP/1.1 -20 OK\r\nContent-Length: 0\r\n\r\n",
	"two lengths":                    "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\nhello!",
	"the same length twice":          "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"length that is no number":       "HTTP/1.1 200 OK\r\nContent-Length: +5\r\n\r\nhello",
	"length and chunked":             "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"encoding that nobody knows":     "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhello",
	"folded field":                   "HTTP/1.1 200 OK\r\nX-A: 1\r\n 2\r\nContent-Length: 0\r\n\r\n",
	"field with a space in its name": "HTTP/1.1 200 OK\r\nX A: 1\r\nContent-Length: 0\r\n\r\n",
	"field with a NUL":               "HTTP/1.1 200 OK\r\nX-A: 1\x002\r\nContent-Length: 0\r\n\r\n",
	"bare line feeds":                "HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
	"raw bytes in a cookie":          "HTTP/1.1 200 OK\r\nSet-Cookie: a=\"caf\xe9\"; Path=/\r\nContent-Length: 0\r\n\r\n",
}

// net/http's Transport is the oracle: who reads a response through either
// reads the same.
func TestResponsesReadAsByNetHTTP(t *testing.T) {
	for name, answer := range responses {
		for _, method := range []string{"GET", "HEAD", "POST"} {
			t.Run(method+" "+name, func(t *testing.T) {
				t.Parallel()
				s := answering(t, answer, true)
				tr := newTransport(t)
				want := fetch(tr.rest, request(t, t.Context(), method, "http://"+s.addr+"/"))
				got := fetch(tr, request(t, t.Context(), method, "http://"+s.addr+"/"))
				if !reflect.DeepEqual(got, want) {
					t.Errorf("got  %v\nwant %v", got, want)
				}
			})
		}
	}
}

func TestRequestsAreWrittenAsByNetHTTP(t *testing.T) {
	for _, tt := range []struct {
		name, method, url string
		change            func(*http.Request)
	}{
		{"plain GET", "GET", "/a/b?c=d", nil},
		{"fields in order, values as they are", "GET", "/", func(r *http.Request) {
			r.Header["B"], r.Header["A"], r.Header["Cookie"] = []string{"2", "1"}, []string{" x "}, []string{`a="b,c"; d`}
		}},
		{"host of its own", "GET", "/", func(r *http.Request) { r.Host = "shop.test:8443" }},
		{"user agent", "GET", "/", func(r *http.Request) { r.Header.Set("User-Agent", "legacy/1.0") }},
		{"opaque path", "GET", "/", func(r *http.Request) { r.URL.Opaque = `/a|b"c` }},
		{"options of the server", "OPTIONS", "/", func(r *http.Request) { r.URL.Path = "*" }},
		{"POST of nothing", "POST", "/", nil},
		{"DELETE", "DELETE", "/x", nil},
		{"HEAD", "HEAD", "/x", nil},
		{"method of its own", "PURGE", "/x", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var heads []string
			var mu sync.Mutex
			s := serve(t, func(conn net.Conn, _ int, head string) {
				mu.Lock()
				heads = append(heads, head)
				mu.Unlock()
				io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
			})
			tr := newTransport(t)
			for _, rt := range []http.RoundTripper{tr.rest, tr} {
				r := request(t, t.Context(), tt.method, "http://"+s.addr+tt.url)
				if tt.change != nil {
					tt.change(r)
				}
				if got := fetch(rt, r); got.Status != 204 {
					t.Fatalf("got %v, want 204", got)
				}
			}
			// net/http trims values; ours come from net/http's reader, which has.
			if want := strings.ReplaceAll(heads[0], "A: x\r\n", "A:  x \r\n"); heads[1] != want {
				t.Errorf("wrote\n%q\nwant\n%q", heads[1], want)
			}
		})
	}
}

func TestALineBreakInAFieldEndsTheField(t *testing.T) {
	r := request(t, t.Context(), "GET", "http://shop.test/")
	r.Header["X"] = []string{"1\r\nHost: evil", "2\nY: 3", "4\x005"}
	want := "GET / HTTP/1.1\r\nHost: shop.test\r\nX: 1\r\nX: 2\r\nX: 4\r\n\r\n"
	if got := string(appendHead(nil, r)); got != want {
		t.Errorf("wrote %q, want %q", got, want)
	}
}

func TestConnections(t *testing.T) {
	const whole = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
	chunked := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"
	for _, tt := range []struct {
		name, answer string
		read         bool
		want         int64 // connections for two requests
	}{
		{"is used again after a body with a length", whole, true, 1},
		{"is used again after chunks", chunked, true, 1},
		{"is used again after 204", "HTTP/1.1 204 No Content\r\n\r\n", true, 1},
		{"is not, where the body was not read", "HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + strings.Repeat("x", 200000), false, 2},
		{"is not, where the server says close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok", true, 2},
		{"is not, where the server speaks HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok", true, 2},
		{"is not, where more came than was announced", whole + "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", true, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := answering(t, tt.answer, false)
			tr := newTransport(t)
			for range 2 {
				resp, err := tr.RoundTrip(request(t, t.Context(), "GET", "http://"+s.addr+"/"))
				if err != nil {
					t.Fatal(err)
				}
				if tt.read {
					b, err := io.ReadAll(resp.Body)
					if err != nil || string(b) != "ok" && len(b) > 0 {
						t.Errorf("body %q, %v", b, err)
					}
				}
				resp.Body.Close()
			}
			if got := s.conns.Load(); got != tt.want {
				t.Errorf("%d connections, want %d", got, tt.want)
			}
		})
	}
}

// What an origin sends on an idle connection answers nobody's request.
func TestBytesOnAnIdleConnectionAreNoResponse(t *testing.T) {
	sent := make(chan struct{})
	s := serve(t, func(conn net.Conn, n int, head string) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		if strings.HasPrefix(head, "GET /first") {
			go func() {
				<-sent // the first response was read, and the connection pooled
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
				sent <- struct{}{}
			}()
		}
	})
	tr := newTransport(t)
	fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+"/first"))
	sent <- struct{}{}
	<-sent
	if got := fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+"/second")); got.Body != "ok" {
		t.Errorf("the second request was answered %v", got)
	}
}

func TestAConnectionThatTheServerClosed(t *testing.T) {
	for _, tt := range []struct {
		name, method string
		when         string
		wantErr      bool
	}{
		{"while idle: a new one is used", "GET", "idle", false},
		{"while idle: for a POST, too", "POST", "idle", false},
		{"after the request was sent: GET is sent again", "GET", "asked", false},
		{"after the request was sent: POST is not", "POST", "asked", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serve(t, func(conn net.Conn, n int, head string) {
				if n == 2 {
					conn.Close()
					return
				}
				io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
				if tt.when == "idle" && strings.Contains(head, "/first") {
					conn.Close()
				}
			})
			tr := newTransport(t)
			fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+"/first"))
			if tt.when == "idle" {
				waitUntil(t, func() bool { c := tr.pop("http://" + s.addr); defer tr.put(c); return !c.clean() })
			}
			got := fetch(tr, request(t, t.Context(), tt.method, "http://"+s.addr+"/second"))
			if got.Err != tt.wantErr {
				t.Errorf("got %v, want error: %v", got, tt.wantErr)
			}
		})
	}
}

func TestCancelling(t *testing.T) {
	for _, tt := range []struct{ name, answer string }{
		{"before the head closes the connection", ""},
		{"within the body closes the connection", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			gone := make(chan struct{})
			ctx, cancel := context.WithCancelCause(t.Context())
			s := serve(t, func(conn net.Conn, _ int, _ string) {
				io.WriteString(conn, tt.answer)
				if tt.answer == "" {
					cancel(errors.New("enough"))
				}
				conn.Read(make([]byte, 1))
				close(gone)
			})
			tr := newTransport(t)
			resp, err := tr.RoundTrip(request(t, ctx, "GET", "http://"+s.addr+"/"))
			if err == nil {
				if _, err := io.ReadFull(resp.Body, make([]byte, 2)); err != nil {
					t.Fatal(err)
				}
				cancel(errors.New("enough"))
				_, err = io.ReadAll(resp.Body)
				if err == nil || err.Error() != "enough" {
					t.Errorf("the body ends with %v, want the cause", err)
				}
				resp.Body.Close()
			} else if err.Error() != "enough" {
				t.Errorf("round trip: %v, want the cause", err)
			}
			<-gone
		})
	}
}

func TestASilentOriginIsGivenUp(t *testing.T) {
	s := answering(t, "HTTP/1.1 200 OK\r\n", false)
	tr := newTransport(t)
	tr.rest.ResponseHeaderTimeout = 50 * time.Millisecond
	if _, err := tr.RoundTrip(request(t, t.Context(), "GET", "http://"+s.addr+"/")); !errors.Is(err, ErrHeadTimeout) {
		t.Errorf("round trip: %v, want ErrHeadTimeout", err)
	}
}

func TestASlowBodyIsNot(t *testing.T) {
	more := make(chan struct{})
	s := serve(t, func(conn net.Conn, _ int, _ string) {
		io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no")
		<-more
		io.WriteString(conn, "k")
	})
	tr := newTransport(t)
	tr.rest.ResponseHeaderTimeout = 50 * time.Millisecond
	resp, err := tr.RoundTrip(request(t, t.Context(), "GET", "http://"+s.addr+"/"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	time.AfterFunc(150*time.Millisecond, func() { close(more) })
	if b, err := io.ReadAll(resp.Body); err != nil || string(b) != "ok" {
		t.Errorf("body %q, %v", b, err)
	}
}

func TestAHeadIsBounded(t *testing.T) {
	for name, answer := range map[string]string{
		"in length":                "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 128<<10) + "\r\n\r\n",
		"in informational answers": strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000),
	} {
		t.Run(name, func(t *testing.T) {
			s := answering(t, answer, true)
			if got := fetch(newTransport(t), request(t, t.Context(), "GET", "http://"+s.addr+"/")); !got.Err {
				t.Errorf("got %v, want an error", got)
			}
		})
	}
}

func TestInformationalResponsesAreTold(t *testing.T) {
	s := answering(t, responses["early hints first"], true)
	var told []string
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
		told = append(told, fmt.Sprint(code, h["Link"]))
		return nil
	}})
	fetch(newTransport(t), request(t, ctx, "GET", "http://"+s.addr+"/"))
	if want := []string{"103 [</a>]"}; !reflect.DeepEqual(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
}

func TestIdleConnectionsAreClosedInTime(t *testing.T) {
	closed := make(chan struct{})
	s := serve(t, func(conn net.Conn, _ int, _ string) {
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
		conn.Read(make([]byte, 1))
		close(closed)
	})
	tr := newTransport(t)
	tr.rest.IdleConnTimeout = 20 * time.Millisecond
	fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+"/"))
	<-closed
}

func TestManyAtOnceGetTheirOwnAnswers(t *testing.T) {
	s := serve(t, func(conn net.Conn, _ int, head string) {
		path := strings.Fields(head)[1]
		fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(path), path)
	})
	tr := newTransport(t)
	var wg sync.WaitGroup
	for n := range 16 {
		wg.Go(func() {
			for i := range 50 {
				path := fmt.Sprintf("/%d/%d", n, i)
				if got := fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+path)); got.Body != path {
					t.Errorf("%s was answered %v", path, got)
					return
				}
			}
		})
	}
	wg.Wait()
}

func waitUntil(t *testing.T, done func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); !done(); {
		if time.Now().After(end) {
			t.Fatal("not in time")
		}
		time.Sleep(time.Millisecond)
	}
}

// FuzzResponse compares with net/http's Transport on any bytes.
func FuzzResponse(f *testing.F) {
	for _, answer := range responses {
		f.Add([]byte(answer), false)
	}
	f.Fuzz(func(t *testing.T, answer []byte, head bool) {
		if bytes.Contains(answer, []byte(" 101")) {
			return // 101 belongs to upgrades, which are not sent here
		}
		method := "GET"
		if head {
			method = "HEAD"
		}
		s := answering(t, string(answer), true)
		tr := newTransport(t)
		want := fetch(tr.rest, request(t, t.Context(), method, "http://"+s.addr+"/"))
		got := fetch(tr, request(t, t.Context(), method, "http://"+s.addr+"/"))
		if !want.Err && want.Status < 200 {
			want = result{Err: true} // net/http takes 0xx for a final status, and gives up on 1xx later
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%q\ngot  %v\nwant %v", answer, got, want)
		}
	})
}

// A hung origin is asked once, however many idle connections there are.
func TestASilentOriginIsAskedOnce(t *testing.T) {
	var asked atomic.Int64
	s := serve(t, func(conn net.Conn, n int, head string) {
		if strings.HasPrefix(head, "GET /hung") {
			asked.Add(1)
			return
		}
		io.WriteString(conn, "HTTP/1.1 204 No Content\r\n\r\n")
	})
	tr := newTransport(t)
	tr.rest.ResponseHeaderTimeout = 100 * time.Millisecond
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+"/")) })
	}
	wg.Wait()
	if got := fetch(tr, request(t, t.Context(), "GET", "http://"+s.addr+"/hung")); !got.Err || asked.Load() != 1 {
		t.Errorf("got %v, asked %d times; want an error after one", got, asked.Load())
	}
}
