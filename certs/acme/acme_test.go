package acme_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/certs/acme"
	"github.com/sessionproxy/sessionproxy/certs/acme/filestorage"
	"github.com/sessionproxy/sessionproxy/internal/pebbletest"
)

// certmagic keeps one goroutine an authority, to pace itself, as long as the
// process lives.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/caddyserver/certmagic.(*RingBufferRateLimiter).permit"))
}

// patience is longer than a busy machine takes.
const patience = time.Minute

// hosts numbers the names: challenges under way are known by their name alone in
// one process.
var hosts atomic.Int32

// server is where the authority looks, and clients: it asks the manager that is
// in force, as a proxy does.
type server struct {
	name      string
	tls, http string
	httpAddr  net.Addr
	manager   atomic.Pointer[acme.Manager]
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{name: fmt.Sprintf("proxy%d.test", hosts.Add(1))}
	challenges := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.manager.Load().ServeHTTP(w, r) }))
	t.Cleanup(challenges.Close)
	s.httpAddr = challenges.Listener.Addr()
	s.http = s.httpAddr.String()
	ln, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		NextProtos:         []string{"http/1.1"},
		GetCertificate:     func(h *tls.ClientHelloInfo) (*tls.Certificate, error) { return s.manager.Load().GetCertificate(h) },
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) { return s.manager.Load().Challenge(h), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	s.tls = ln.Addr().String()
	web := &http.Server{Handler: http.NotFoundHandler(), ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)}
	go web.Serve(ln)
	t.Cleanup(func() { web.Close() })
	return s
}

// open starts a manager of the name of s that answers there.
func open(t *testing.T, s *server, p *pebbletest.Pebble, storage certmagic.Storage) *acme.Manager {
	t.Helper()
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(p.CA)
	if err != nil {
		t.Fatal(err)
	}
	roots.AppendCertsFromPEM(pem)
	m, err := acme.Open(acme.Options{
		Names: []string{s.name}, Directory: p.Directory, Email: "ops@proxy.test", Roots: roots,
		Storage: storage, HTTP: s.httpAddr, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	s.manager.Store(m)
	m.Start()
	return m
}

func bolt(t *testing.T) *filestorage.Storage {
	t.Helper()
	s, err := filestorage.Open(filepath.Join(t.TempDir(), "acme.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s: not in time", what)
		}
	}
}

// shown is the certificate that a client which asks for name is shown, and
// verifies for the server's own.
func shown(t *testing.T, s *server, p *pebbletest.Pebble, name string) *x509.Certificate {
	t.Helper()
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(p.Root())
	conn, err := tls.Dial("tcp", s.tls, &tls.Config{ServerName: name, InsecureSkipVerify: true})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	chain := conn.ConnectionState().PeerCertificates
	between := x509.NewCertPool()
	for _, c := range chain[1:] {
		between.AddCert(c)
	}
	if _, err := chain[0].Verify(x509.VerifyOptions{DNSName: s.name, Roots: roots, Intermediates: between}); err != nil {
		t.Error(err)
	}
	return chain[0]
}

// Each of the two challenges will do: one of the ports may be out of reach.
func TestEitherChallengeWillDo(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"http-01", "tls-alpn-01"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			o := pebbletest.Options{HTTP: s.http}
			if way == "tls-alpn-01" {
				o = pebbletest.Options{TLS: s.tls}
			}
			p := pebbletest.Start(t, o)
			m := open(t, s, p, bolt(t))
			eventually(t, "a certificate", m.Complete)
			if left := time.Until(m.Expiry(s.name)); left < 89*24*time.Hour || left > 91*24*time.Hour {
				t.Errorf("it lives for %v, want 90 days", left)
			}
			for _, name := range []string{s.name, strings.ToUpper(s.name), "", "other.test"} {
				shown(t, s, p, name)
			}
		})
	}
}

// A certificate that is due is renewed by itself, once for all that share the
// storage, and clients notice nothing.
func TestRenewal(t *testing.T) {
	t.Parallel()
	a, b := newServer(t), newServer(t)
	b.name = a.name
	p := pebbletest.Start(t, pebbletest.Options{HTTP: a.http, TLS: b.tls, Life: 12 * time.Second})
	storage := bolt(t)
	first := open(t, a, p, storage)
	second := open(t, b, p, storage)
	eventually(t, "certificates", func() bool { return first.Complete() && second.Complete() })
	old := shown(t, a, p, a.name).SerialNumber
	renewed := func(s *server) func() bool {
		return func() bool { return shown(t, s, p, s.name).SerialNumber.Cmp(old) != 0 }
	}
	eventually(t, "renewal", renewed(a))
	eventually(t, "the other takes what was renewed", renewed(b))
	if first.Failures()+second.Failures() > 0 {
		t.Errorf("%d and %d failures", first.Failures(), second.Failures())
	}
}

// What was stored by halves, by a proxy that was killed, is fetched anew.
func TestAPairThatDoesNotFitIsFetchedAnew(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTP: s.http, TLS: s.tls})
	storage := bolt(t)
	m := open(t, s, p, storage)
	eventually(t, "a certificate", m.Complete)
	old := shown(t, s, p, s.name)
	m.Close()
	all, err := storage.List(t.Context(), "certificates", true)
	if err != nil {
		t.Fatal(err)
	}
	const otherKey = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIGjM5GWvYjq+K1yZ0a4uyLKBXIKbTTVrV3YJjGm7xO2Q\n-----END PRIVATE KEY-----\n"
	for _, key := range all {
		if strings.HasSuffix(key, ".key") {
			if err := storage.Store(t.Context(), key, []byte(otherKey)); err != nil {
				t.Fatal(err)
			}
		}
	}
	m = open(t, s, p, storage)
	if m.Complete() {
		t.Error("a pair that does not fit was taken")
	}
	eventually(t, "another certificate", m.Complete)
	if shown(t, s, p, s.name).Equal(old) {
		t.Error("it is the old one")
	}
}

// Without the authority, or without the storage, nobody is served and nothing
// falls over.
func TestTroubleIsNobodysEnd(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	gone := &pebbletest.Pebble{Directory: "https://127.0.0.1:9/dir", CA: filepath.Join(t.TempDir(), "ca.pem")}
	if err := os.WriteFile(gone.CA, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	m := open(t, s, gone, bolt(t))
	eventually(t, "a failure", func() bool { return m.Failures() > 0 })
	if m.Complete() || !m.Expiry(s.name).IsZero() {
		t.Error("there is a certificate, of nobody")
	}
	if _, err := tls.Dial("tcp", s.tls, &tls.Config{ServerName: s.name}); err == nil || !strings.Contains(err.Error(), "internal error") {
		t.Errorf("%v, want an alert", err)
	}

	storage := bolt(t)
	storage.Close()
	_, err := acme.Open(acme.Options{Names: []string{s.name}, Directory: gone.Directory, Storage: storage, HTTP: s.httpAddr, Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		t.Error("a storage that is closed: no error")
	}
}

// Who looks for another name is no authority of ours, and the storage is not
// asked.
func TestLooksAtOtherNames(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	p := pebbletest.Start(t, pebbletest.Options{HTTP: s.http, TLS: s.tls})
	m := open(t, s, p, bolt(t))
	eventually(t, "a certificate", m.Complete)
	for _, name := range []string{"other.test", ""} {
		if c := m.Challenge(&tls.ClientHelloInfo{ServerName: name, SupportedProtos: []string{"acme-tls/1"}}); c != nil {
			t.Errorf("a look at %q is answered", name)
		}
	}
	if c := m.Challenge(&tls.ClientHelloInfo{ServerName: s.name, SupportedProtos: []string{"http/1.1", "acme-tls/1"}}); c != nil {
		t.Error("what offers HTTP too is a look")
	}
	if _, err := tls.Dial("tcp", s.tls, &tls.Config{ServerName: s.name, NextProtos: []string{"acme-tls/1"}, InsecureSkipVerify: true}); err == nil {
		t.Error("a look without a challenge is answered")
	}
	for _, host := range []string{s.name, "other.test", "127.0.0.1"} {
		r, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+s.http+"/.well-known/acme-challenge/token", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != 404 || string(body) != "404 page not found\n" {
			t.Errorf("%s: %s %q, %v", host, resp.Status, body, err)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}
