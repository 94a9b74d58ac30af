package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// ntlm is an origin that takes a connection for its user's once that user has
// shown who it is on it, as NTLM's do, in the second of two steps.
func ntlm(c *world.Conn) {
	user := ""
	for challenged := false; ; {
		r, err := http.ReadRequest(c.R)
		if err != nil {
			return
		}
		scheme, proof, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if user == "" && scheme != "" && challenged {
			user = proof
		}
		challenged = scheme != ""
		if user == "" {
			c.Send("HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: NTLM\r\nContent-Length: 0\r\n\r\n")
			continue
		}
		c.Send(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(user), user))
	}
}

func TestWhoeverAuthenticatesAConnectionHasItForItself(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"NTLM", "Negotiate", "ntlm"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Script: ntlm})
			onEach(t, world.H1Ways, func(t *testing.T, via world.Way) {
				ana := w.Raw(t, via)
				ask := func(c *world.Conn, want string, fields ...string) {
					t.Helper()
					c.Send(world.Head("GET", via, "/", fields...))
					if a := c.Answer("GET"); a.Text != want {
						t.Errorf("%v: answered %d %q, want %q", fields, a.StatusCode, a.Text, want)
					}
				}
				ask(ana, "")
				shared := w.Origin.Open()
				ask(ana, "", "Authorization: "+scheme+" ana")
				ask(ana, "ana", "Authorization: "+scheme+" ana")
				ask(ana, "ana") // the connection is hers
				ask(w.Raw(t, via), "")
				ana.Close()
				world.Eventually(t, "hers to the origin ends, too", func() bool { return w.Origin.Open() == shared })
				ask(w.Raw(t, via), "")
			})
		})
	}
	t.Run("not in HTTP/2, where no scheme does that", func(t *testing.T) {
		t.Parallel()
		w := world.New(t, world.Options{Script: ntlm})
		for range 3 {
			if a := w.Get(t, world.TunnelH2H1, "/", "Authorization", "NTLM ana"); a.StatusCode != 401 {
				t.Errorf("answered %d %q, want 401", a.StatusCode, a.Text)
			}
		}
	})
}
