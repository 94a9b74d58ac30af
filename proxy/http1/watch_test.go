package http1

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

// A connection is pooled after a response and nothing but it.
func TestAWatchedConnectionEndsWithASurplus(t *testing.T) {
	t.Parallel()
	const (
		ok   = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
		evil = "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"
	)
	for _, tt := range []struct {
		name, method, answer string
		body                 string
		conns                int64 // that ten requests take
	}{
		{"one answer", "GET", ok, "ok", 1},
		{"an answer in chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n", "ok", 1},
		{"an answer behind another's hint", "GET", "HTTP/1.1 103 Early Hints\r\n\r\n" + ok, "ok", 1},
		{"a length without a body", "HEAD", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n", "", 1},
		{"no content", "GET", "HTTP/1.1 204 No Content\r\n\r\n", "", 1},
		{"two answers", "GET", ok + evil, "ok", 10},
		{"two answers, one of them long", "GET", "HTTP/1.1 200 OK\r\nContent-Length: 65536\r\n\r\n" + strings.Repeat("x", 1<<16) + evil, strings.Repeat("x", 1<<16), 10},
		{"two answers, one in chunks", "GET", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + evil, "ok", 10},
		{"two answers, the length of one in a second line", "GET", "HTTP/1.1 200 OK\r\nContent-Length:\r\n 2\r\n\r\nok" + evil, "ok", 10},
		{"HEAD with a body", "HEAD", evil, "", 10},
		{"304 with a body", "GET", "HTTP/1.1 304 Not Modified\r\nContent-Length: 2\r\n\r\nok", "", 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := answering(t, tt.answer, false)
			tr := &http.Transport{DialContext: watching((&net.Dialer{}).DialContext)}
			defer tr.CloseIdleConnections()
			for range 10 {
				if got := fetch(tr, request(t, t.Context(), tt.method, "http://"+s.addr)); got.Body != tt.body || got.Cut || got.Err {
					t.Fatalf("got %d and %.80q, cut: %v, err: %v", got.Status, got.Body, got.Cut, got.Err)
				}
			}
			if n := s.conns.Load(); n != tt.conns {
				t.Errorf("ten requests took %d connections, want %d", n, tt.conns)
			}
		})
	}
}

// After a 101 the connection is not HTTP's.
func TestAWatchedConnectionSwitchesProtocols(t *testing.T) {
	t.Parallel()
	s := serve(t, func(conn net.Conn, _ int, _ string) {
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nahead")
		io.Copy(conn, conn)
	})
	tr := &http.Transport{DialContext: watching((&net.Dialer{}).DialContext)}
	r := request(t, t.Context(), "GET", "http://"+s.addr)
	r.Header["Connection"], r.Header["Upgrade"] = []string{"Upgrade"}, []string{"x"}
	resp, err := tr.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if _, err := io.WriteString(resp.Body.(io.Writer), " and back"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, len("ahead and back"))
	if _, err := io.ReadFull(resp.Body, got); string(got) != "ahead and back" {
		t.Errorf("read %q, %v", got, err)
	}
}
