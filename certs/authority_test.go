package certs

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAuth(t testing.TB, permitted ...string) *Authority {
	t.Helper()
	a, err := Open(t.TempDir(), permitted)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// trusting is the settings of a client that trusts what a hands out, and nothing else.
func trusting(a *Authority, name string) *tls.Config {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(a.PEM())
	return &tls.Config{RootCAs: roots, ServerName: name, NextProtos: []string{"h2", "http/1.1"}}
}

// handshake connects client to server over loopback, and reads the byte that
// the server says first, so that TLS 1.3's tickets arrive.
func handshake(ctx context.Context, server, client *tls.Config) (tls.ConnectionState, error) {
	l, err := tls.Listen("tcp", "127.0.0.1:0", server)
	if err != nil {
		return tls.ConnectionState{}, err
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer l.Close()
	wg.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		conn.Write([]byte{1})
	})
	conn, err := (&tls.Dialer{Config: client}).DialContext(ctx, "tcp", l.Addr().String())
	if err != nil {
		return tls.ConnectionState{}, err
	}
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil {
		return tls.ConnectionState{}, err
	}
	return conn.(*tls.Conn).ConnectionState(), nil
}

func bySNI(hello *tls.ClientHelloInfo) string { return hello.ServerName }

func TestHandshake(t *testing.T) {
	t.Parallel()
	long := strings.Repeat(strings.Repeat("a", 60)+".", 4) + "test"
	for _, tt := range []struct{ name, host string }{
		{"a name", "shop.test"},
		{"a single label", "localhost"},
		{"an IDN's A-label", "xn--bcher-kva.test"},
		{"a name with an underscore", "my_shop.test"},
		{"a name too long for a common name", long},
		{"an IPv4 address", "192.0.2.1"},
		{"an IPv6 address", "2001:db8::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := newAuth(t)
			server := serverConfig(a, func(*tls.ClientHelloInfo) string { return tt.host })
			for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
				client := trusting(a, tt.host)
				client.MaxVersion = version
				state, err := handshake(t.Context(), server, client)
				if err != nil {
					t.Fatalf("%s, %s: %v", tt.host, tls.VersionName(version), err)
				}
				if state.Version != version || state.NegotiatedProtocol != "h2" {
					t.Errorf("spoke %s with %q, want %s with h2", tls.VersionName(state.Version), state.NegotiatedProtocol, tls.VersionName(version))
				}
			}
			_, err := handshake(t.Context(), server, trusting(a, "other.test"))
			if _, ok := errors.AsType[x509.HostnameError](err); !ok {
				t.Errorf("a client that wants other.test is shown %s: %v, want a host name error", tt.host, err)
			}
			if got := a.Signed(); got != 1 {
				t.Errorf("signed %d leaves for one host", got)
			}
		})
	}
}

func TestHandshakeWithoutALeafIsAnAlert(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	_, err := handshake(t.Context(), serverConfig(a, bySNI), trusting(a, "192.0.2.1")) // an address is no SNI
	if remote, ok := errors.AsType[*net.OpError](err); !ok || remote.Op != "remote error" {
		t.Errorf("client without SNI: %v, want a TLS alert", err)
	}
}

func TestResumption(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		t.Run(tls.VersionName(version), func(t *testing.T) {
			t.Parallel()
			a := newAuth(t)
			server := serverConfig(a, bySNI)
			client := trusting(a, "shop.test")
			client.MaxVersion = version
			client.ClientSessionCache = tls.NewLRUClientSessionCache(1)
			for i, want := range []bool{false, true, true} {
				state, err := handshake(t.Context(), server, client)
				if err != nil {
					t.Fatal(err)
				}
				if state.DidResume != want {
					t.Errorf("handshake %d: resumed %t, want %t", i+1, state.DidResume, want)
				}
			}
		})
	}
}

func TestWhatIsGivenOut(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	block, rest := pem.Decode(a.PEM())
	if block == nil || block.Type != "CERTIFICATE" || len(rest) != 0 {
		t.Fatalf("PEM is not one certificate:\n%s", a.PEM())
	}
	if !bytes.Equal(block.Bytes, a.DER()) {
		t.Error("PEM and DER differ")
	}
	ca, err := x509.ParseCertificate(a.DER())
	if err != nil {
		t.Fatal(err)
	}
	if !a.Expires().Equal(ca.NotAfter) {
		t.Errorf("Expires() = %v, the certificate says %v", a.Expires(), ca.NotAfter)
	}
	got, err := hex.DecodeString(strings.ReplaceAll(a.Fingerprint(), ":", ""))
	if sum := sha256.Sum256(a.DER()); err != nil || !bytes.Equal(got, sum[:]) {
		t.Errorf("Fingerprint() = %s, want %X", a.Fingerprint(), sum)
	}
	if len(a.Fingerprint()) != 32*3-1 || a.Fingerprint() != strings.ToUpper(a.Fingerprint()) {
		t.Errorf("Fingerprint() = %s, want 32 upper-case pairs", a.Fingerprint())
	}
}

// serverConfig is a server of a's leaves, made as the proxy makes its own.
func serverConfig(a *Authority, name func(*tls.ClientHelloInfo) string) *tls.Config {
	return &tls.Config{
		NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			return a.Leaf(hello.Context(), name(hello))
		},
	}
}

func TestSecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var got [][]byte
	for _, d := range []string{dir, dir, t.TempDir()} {
		a, err := Open(d, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, use := range []string{"one", "two"} {
			s, err := a.Secret(use)
			if err != nil || len(s) != 32 {
				t.Fatalf("%x, %v", s, err)
			}
			got = append(got, s)
		}
	}
	if !bytes.Equal(got[0], got[2]) || !bytes.Equal(got[1], got[3]) {
		t.Error("one CA has two secrets for one use")
	}
	if bytes.Equal(got[0], got[1]) || bytes.Equal(got[0], got[4]) {
		t.Error("two uses, or two CAs, have one secret")
	}
}
