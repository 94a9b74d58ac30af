package proxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// onEach runs a test for each of the ways.
func onEach(t *testing.T, ways []world.Way, test func(*testing.T, world.Way)) {
	t.Helper()
	for _, via := range ways {
		t.Run(via.Name, func(t *testing.T) { test(t, via) })
	}
}

// handler is an origin in one function.
type handler = http.HandlerFunc

// answer is an origin that reads one request's head, writes s, and closes.
func answer(s string) func(*world.Conn) {
	return func(c *world.Conn) {
		c.Request()
		c.Send(s)
	}
}

// always is an origin that gives each request the same answer.
func always(s string) func(*world.Conn) {
	return func(c *world.Conn) {
		for {
			r, err := http.ReadRequest(c.R)
			if err != nil {
				return
			}
			io.Copy(io.Discard, r.Body)
			c.Send(s)
		}
	}
}

// patience is how long a test waits for what should be there at once.
const patience = 10 * time.Second

// onHint calls hint with the Link of each 103.
func onHint(ctx context.Context, hint func(link string)) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
			if code == http.StatusEarlyHints {
				hint(h.Get("Link"))
			}
			return nil
		},
	})
}

// peer is the certificate that the proxy showed.
func peer(c *world.Conn) *x509.Certificate {
	return c.Conn.(*tls.Conn).ConnectionState().PeerCertificates[0]
}
