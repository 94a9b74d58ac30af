package admin

import (
	"bufio"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// What no *http.Request of a test shows: how net/http reads the wire.
func TestOnTheWire(t *testing.T) {
	t.Parallel()
	ts := httptest.NewUnstartedServer(nil)
	o := testOptions(t)
	o.Addr = ts.Listener.Addr().String()
	ts.Config = Server(New(o), slog.New(slog.DiscardHandler))
	ts.Start()
	t.Cleanup(ts.Close)

	auth := "Authorization: Bearer " + testToken + "\r\n"
	for _, tt := range []struct {
		name, request string
		want          int
	}{
		{"HTTP/1.1 with our address", "GET /api/v1/version HTTP/1.1\r\nHost: ADDR\r\n" + auth, 200},
		{"HTTP/1.0 with a Host", "GET /api/v1/version HTTP/1.0\r\nHost: ADDR\r\n" + auth, 200},
		{"HTTP/1.0 without a Host", "GET /api/v1/version HTTP/1.0\r\n" + auth, 421},
		{"an open file without a Host", "GET /ca.pem HTTP/1.0\r\n", 421},
		{"a rebound name", "GET /ca.pem HTTP/1.1\r\nHost: evil.test\r\n", 421},
		{"our URL in the request line", "GET http://ADDR/ca.pem HTTP/1.1\r\nHost: ADDR\r\n", 200},
		{"a foreign URL behind our Host", "GET http://evil.test/ca.pem HTTP/1.1\r\nHost: ADDR\r\n", 421},
		{"taken for a proxy", "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test:443\r\n" + auth, 421},
		{"asked to tunnel to itself", "CONNECT ADDR HTTP/1.1\r\nHost: ADDR\r\n", 401},
		{"OPTIONS * is no way around", "OPTIONS * HTTP/1.1\r\nHost: evil.test\r\n", 421},
		{"OPTIONS * without the token", "OPTIONS * HTTP/1.1\r\nHost: ADDR\r\n", 401},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, err := net.Dial("tcp", o.Addr)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			fmt.Fprint(c, strings.ReplaceAll(tt.request, "ADDR", o.Addr)+"Connection: close\r\n\r\n")
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if resp.StatusCode != tt.want {
				t.Errorf("status %d, want %d", resp.StatusCode, tt.want)
			}
			wantHardened(t, resp.Header)
		})
	}
}

// Nobody holds a connection by being slow, and no head fills the memory.
func TestServerHasLimits(t *testing.T) {
	t.Parallel()
	s := Server(http.NotFoundHandler(), slog.New(slog.DiscardHandler))
	if s.ReadHeaderTimeout <= 0 || s.ReadTimeout <= 0 || s.WriteTimeout <= 0 || s.IdleTimeout <= 0 || s.MaxHeaderBytes <= 0 {
		t.Errorf("a limit is missing: %+v", s)
	}

	ts := httptest.NewUnstartedServer(nil)
	ts.Config = s
	ts.Start()
	t.Cleanup(ts.Close)
	r, err := http.NewRequestWithContext(t.Context(), "GET", ts.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Cookie", strings.Repeat("x", 80<<10))
	resp, err := ts.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("a head of 80 KiB: %d, want 431", resp.StatusCode)
	}
}
