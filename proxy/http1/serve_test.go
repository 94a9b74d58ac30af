package http1

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// served is a Server on loopback, and what became of its connections.
type served struct {
	*Server
	addr   string
	unread chan []byte // of connections that it gave back for a request
	states atomic.Int64
}

func serveConns(t *testing.T, idle time.Duration, handler http.HandlerFunc) *served {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{
		Server: &Server{Handler: handler, Idle: idle, Log: log.New(io.Discard, "", 0)},
		addr:   ln.Addr().String(), unread: make(chan []byte, 1),
	}
	t.Cleanup(func() { ln.Close(); s.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			go func() {
				unread, again := s.Serve(context.Background(), conn, func(http.ConnState) { s.states.Add(1) })
				if again {
					s.unread <- unread
				}
				conn.Close()
			}()
		}
	}()
	return s
}

func dialServed(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn, bufio.NewReader(conn)
}

// Each handler is served by net/http too: clients see the same.
func TestResponsesAreNetHTTPs(t *testing.T) {
	t.Parallel()
	date := func(w http.ResponseWriter) { w.Header()["Date"] = []string{"Tue, 01 Dec 2026 12:00:00 GMT"} }
	long := strings.Repeat("sessions", 4000)
	for name, handler := range map[string]http.HandlerFunc{
		"nothing":      func(w http.ResponseWriter, _ *http.Request) {},
		"a short body": func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") },
		"a long body":  func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, long) },
		"a body with length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{"2"}
			io.WriteString(w, "ok")
		},
		"a long body with length": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{fmt.Sprint(len(long))}
			for i := range 8 {
				io.WriteString(w, long[i*4000:(i+1)*4000])
			}
		},
		"a body that is too short": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{"3"}
			io.WriteString(w, "ok")
		},
		"a body that is too long": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Length"] = []string{"1"}
			io.WriteString(w, "ok")
		},
		"chunks": func(w http.ResponseWriter, _ *http.Request) {
			for range 3 {
				io.WriteString(w, "ok")
				w.(http.Flusher).Flush()
			}
		},
		"only a head, at once": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush() },
		"no content":           func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(204); io.WriteString(w, "no") },
		"not modified":         func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(304); io.WriteString(w, "no") },
		"an odd status":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(799) },
		"two heads":            func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404); w.WriteHeader(200) },
		"hints first": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Link"] = []string{"</a>"}
			w.WriteHeader(103)
			delete(w.Header(), "Link")
			io.WriteString(w, "ok")
		},
		"fields in need of care": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["X-Break"] = []string{" a\r\nSet-Cookie: evil=1 "}
			w.Header()["Bad Name"] = []string{"x"}
			w.Header()["Set-Cookie"] = []string{"a=b", "c=d"}
		},
		"the last on its connection": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Connection"] = []string{"close"}
			io.WriteString(w, "ok")
		},
		"trailers": func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Trailer"] = []string{"X-Sum, Content-Length"}
			io.WriteString(w, "ok")
			w.Header()["X-Sum"] = []string{"1"}
		},
		"trailers that nobody announced": func(w http.ResponseWriter, _ *http.Request) {
			io.WriteString(w, "ok")
			w.(http.Flusher).Flush()
			w.Header()[http.TrailerPrefix+"X-Sum"] = []string{"1"}
		},
		"a panic":                func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"a panic behind a flush": func(w http.ResponseWriter, _ *http.Request) { w.(http.Flusher).Flush(); panic("oh") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			whole := func(w http.ResponseWriter, r *http.Request) {
				date(w)
				w.Header()["Content-Type"] = nil // net/http would guess one; whoever is relayed says it
				handler(w, r)
			}
			ours := serveConns(t, time.Minute, whole)
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			theirs := &http.Server{Handler: http.HandlerFunc(whole), ErrorLog: log.New(io.Discard, "", 0)}
			go theirs.Serve(ln)
			t.Cleanup(func() { theirs.Close() })
			for _, method := range []string{"GET", "HEAD"} {
				got, want := twice(t, ours.addr, method), twice(t, ln.Addr().String(), method)
				if got != want {
					t.Errorf("%s is answered\n%q\nwant\n%q", method, got, want)
				}
			}
		})
	}
}

// twice makes two requests on one connection, and returns all that is told of
// the responses: what a client reads of them, in the order of net/http's fields.
func twice(t *testing.T, addr, method string) string {
	conn, br := dialServed(t, addr)
	var told strings.Builder
	for range 2 {
		fmt.Fprintf(conn, "%s / HTTP/1.1\r\nHost: x\r\n\r\n", method)
		for {
			resp, err := http.ReadResponse(br, &http.Request{Method: method})
			if err != nil {
				told.WriteString("no response")
				return told.String()
			}
			body, err := io.ReadAll(resp.Body)
			fmt.Fprintf(&told, "%s length %d close %v %v trailer %v body %q whole %v\n",
				resp.Status, resp.ContentLength, resp.Close, resp.Header, resp.Trailer, body, err == nil)
			if resp.StatusCode >= 200 {
				break
			}
		}
	}
	return told.String()
}

func TestServingManyRequestsThenOneThatIsNotPlain(t *testing.T) {
	t.Parallel()
	s := serveConns(t, time.Minute, func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.URL.Path) })
	conn, br := dialServed(t, s.addr)
	const post = "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
	var all bytes.Buffer
	for i := range 5 { // pipelined
		fmt.Fprintf(&all, "GET /%d HTTP/1.1\r\nHost: x\r\n\r\n", i)
	}
	all.WriteString(post)
	conn.Write(all.Bytes())
	for i := range 5 {
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if body, err := io.ReadAll(resp.Body); string(body) != fmt.Sprintf("/%d", i) || err != nil {
			t.Errorf("body %d is %q, %v", i, body, err)
		}
	}
	if got := <-s.unread; string(got) != post {
		t.Errorf("given back with %q unread, want %q", got, post)
	}
}

// A request ends with its client, also while nothing is written.
func TestAClientThatLeavesEndsItsRequest(t *testing.T) {
	t.Parallel()
	gone := make(chan struct{})
	s := serveConns(t, time.Minute, func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
		close(gone)
	})
	conn, _ := dialServed(t, s.addr)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	conn.Close()
	<-gone
}

// A client that is looked after may send its next request meanwhile.
func TestTheNextRequestComesWhileOneTakesLong(t *testing.T) {
	t.Parallel()
	var s *served
	sent := make(chan struct{})
	s = serveConns(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			<-sent
			time.Sleep(2 * patience)
		}
		io.WriteString(w, r.URL.Path)
	})
	conn, br := dialServed(t, s.addr)
	for range 2 {
		io.WriteString(conn, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
		time.Sleep(2 * patience) // it is looked after now
		io.WriteString(conn, "GET /next HTTP/1.1\r\nHost: x\r\n\r\n")
		sent <- struct{}{}
		for _, want := range []string{"/slow", "/next"} {
			resp, err := http.ReadResponse(br, nil)
			if err != nil {
				t.Fatal(err)
			}
			if body, err := io.ReadAll(resp.Body); string(body) != want || err != nil {
				t.Errorf("body %q, %v; want %q", body, err, want)
			}
		}
	}
}

func TestShutdownFinishesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	begun, finish := make(chan struct{}), make(chan struct{})
	s := serveConns(t, time.Minute, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(begun)
			<-finish
		}
		io.WriteString(w, "ok")
	})
	idle, idleReader := dialServed(t, s.addr)
	io.WriteString(idle, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	resp, err := http.ReadResponse(idleReader, nil)
	if err != nil {
		t.Fatal(err)
	}
	io.ReadAll(resp.Body)
	busy, busyReader := dialServed(t, s.addr)
	io.WriteString(busy, "GET /slow HTTP/1.1\r\nHost: x\r\n\r\n")
	<-begun

	down := make(chan error, 1)
	go func() { down <- s.Shutdown(context.Background()) }()
	if _, err := idleReader.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("the idle connection: %v, want its end", err)
	}
	select {
	case err := <-down:
		t.Fatalf("down with a request under way: %v", err)
	default:
	}
	close(finish)
	resp, err = http.ReadResponse(busyReader, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !resp.Close {
		t.Error("the last answer does not say that it is the last")
	}
	if err := <-down; err != nil {
		t.Error(err)
	}
	late, lateReader := dialServed(t, s.addr)
	io.WriteString(late, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if _, err := lateReader.ReadByte(); err == nil {
		t.Error("served after Shutdown")
	}
}

func TestAnIdleConnectionEnds(t *testing.T) {
	t.Parallel()
	s := serveConns(t, 100*time.Millisecond, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
	_, br := dialServed(t, s.addr)
	if _, err := br.ReadByte(); !errors.Is(err, io.EOF) {
		t.Errorf("read: %v, want the end", err)
	}
}

// What a handler writes of a long body goes out as it is: a write is a TLS
// record, and a system call.
func TestALongBodyIsNotCutUp(t *testing.T) {
	t.Parallel()
	client, server := net.Pipe()
	defer client.Close()
	go io.Copy(io.Discard, client)
	counted := &countedWrites{Conn: server}
	s := &Server{Idle: time.Minute, Handler: func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Length"] = []string{fmt.Sprint(8 << 14)}
		for range 8 {
			w.Write(make([]byte, 1<<14))
			w.(http.Flusher).Flush()
		}
		client.Close()
	}}
	go io.WriteString(client, "GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	s.Serve(context.Background(), counted, func(http.ConnState) {})
	if got := counted.n.Load(); got != 9 { // the head with the body's beginning, the rest of that, and seven more
		t.Errorf("eight parts of a body in %d writes, want 9", got)
	}
}

type countedWrites struct {
	net.Conn
	n atomic.Int64
}

func (c *countedWrites) Write(b []byte) (int, error) {
	c.n.Add(1)
	return c.Conn.Write(b)
}
