package shop

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"testing"
)

func TestServerSpeaks(t *testing.T) {
	t.Parallel()
	s := start(t)
	for _, tt := range []struct {
		name  string
		http2 bool
		proto string
	}{
		{"HTTP/1.1", false, "HTTP/1.1"},
		{"HTTP/2", true, "HTTP/2.0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := newVisitor(t, s)
			v.c.Transport.(*http.Transport).ForceAttemptHTTP2 = tt.http2
			if got := v.get("/"); got.Proto != tt.proto {
				t.Errorf("the shop spoke %s, want %s", got.Proto, tt.proto)
			}
		})
	}
}

func TestCertificate(t *testing.T) {
	t.Parallel()
	s, other := start(t), start(t)
	for _, tt := range []struct {
		name, host string
		ca         []byte
		trusted    bool
	}{
		{"our authority vouches for the host", "shop.test", s.CAPEM(), true},
		{"for no other host", "other.test", s.CAPEM(), false},
		{"for no subdomain", "www.shop.test", s.CAPEM(), false},
		{"another shop's authority vouches for nothing here", "shop.test", other.CAPEM(), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			roots := x509.NewCertPool()
			roots.AppendCertsFromPEM(tt.ca)
			dialer := tls.Dialer{Config: &tls.Config{RootCAs: roots, ServerName: tt.host}}
			conn, err := dialer.DialContext(t.Context(), "tcp", s.Addr())
			if (err == nil) != tt.trusted {
				t.Errorf("handshake: %v, want trusted: %t", err, tt.trusted)
			}
			if err == nil {
				conn.Close()
			}
		})
	}
}

// TestServerEnds: an open stream and a spare connection do not keep it.
func TestServerEnds(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		http2 bool
		end   func(s *Server, cancel context.CancelFunc)
	}{
		{"by Close, over HTTP/1.1", false, func(s *Server, _ context.CancelFunc) { s.Close() }},
		{"by Close, over HTTP/2", true, func(s *Server, _ context.CancelFunc) { s.Close() }},
		{"by its context", true, func(_ *Server, cancel context.CancelFunc) { cancel() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			s, err := Start(ctx, options)
			if err != nil {
				t.Fatal(err)
			}
			v := newVisitor(t, s)
			v.c.Transport.(*http.Transport).ForceAttemptHTTP2 = tt.http2
			v.login("alice", "wonder land", "")
			stream, err := v.c.Do(v.request(http.MethodGet, "/events", ""))
			if err != nil {
				t.Fatal(err)
			}
			defer stream.Body.Close()
			lines := bufio.NewScanner(stream.Body)
			if !lines.Scan() {
				t.Fatalf("the stream ended before its first event: %v", lines.Err())
			}
			spare, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer spare.Close()

			tt.end(s, cancel)
			for lines.Scan() { // returns when the stream ends
			}
			if err := s.Close(); err != nil {
				t.Errorf("Close() = %v, want nil", err)
			}
			if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr()); err == nil {
				conn.Close()
				t.Error("the port is open after the end")
			}
		})
	}
}
