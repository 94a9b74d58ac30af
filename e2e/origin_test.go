package e2e_test

import (
	"crypto/tls"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/certs"
)

// origin is one handler on two ports: one in clear, one with TLS for whatever
// name the client asks for.
type origin struct {
	plain, tls string // host:port
	ca         string // the file that a site's origin.ca names
}

func newOrigin(t *testing.T, h http.Handler) *origin {
	t.Helper()
	ca, err := certs.Open(t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	quiet := log.New(io.Discard, "", 0) // browsers close connections early
	plain := httptest.NewUnstartedServer(h)
	plain.Config.ErrorLog = quiet
	plain.Start()
	t.Cleanup(plain.Close)
	secure := httptest.NewUnstartedServer(h)
	secure.Config.ErrorLog = quiet
	secure.EnableHTTP2 = true
	secure.TLS = &tls.Config{GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
		return ca.Leaf(hello.Context(), hello.ServerName)
	}}
	secure.StartTLS()
	t.Cleanup(secure.Close)

	o := &origin{
		plain: strings.TrimPrefix(plain.URL, "http://"),
		tls:   strings.TrimPrefix(secure.URL, "https://"),
		ca:    filepath.Join(t.TempDir(), "origin-ca.pem"),
	}
	write(t, o.ca, ca.PEM())
	return o
}
