package world_test

import (
	"io"
	"net/http"
	"testing"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestEachWayReachesTheOrigin(t *testing.T) {
	w := world.New(t, world.Options{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Host)
	})})
	second := w.AddProxy()
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			for _, p := range []*world.Proxy{w.Proxy, second} {
				a := p.Get(t, via, "/")
				if a.StatusCode != http.StatusOK || via.URL("/") != a.Request.URL.String() || a.Text != a.Request.URL.Host {
					t.Errorf("%s: %d %q", via.URL("/"), a.StatusCode, a.Text)
				}
				p.WantRecord(t, "exchange", "mode", via.Mode(), "host", world.Host, "status", http.StatusOK)
			}
		})
	}
	for _, via := range world.H1Ways {
		t.Run(via.Name+" by hand", func(t *testing.T) {
			c := w.Raw(t, via)
			c.Send(world.Head(http.MethodGet, via, "/"))
			if a := c.Answer(http.MethodGet); a.Text != world.Host {
				t.Errorf("%d %q", a.StatusCode, a.Text)
			}
		})
	}
	if w.Origin.Accepted() == 0 {
		t.Error("the origin counts no connections")
	}
}

func TestAScriptWritesItsBytesByHand(t *testing.T) {
	w := world.New(t, world.Options{Script: func(c *world.Conn) {
		if r := c.Request(); r.URL.Path != "/hello" {
			t.Errorf("the script reads %s", r.URL)
		}
		c.Send("HTTP/1.1 299 By Hand\r\nContent-Length: 5\r\n\r\nhello")
	}})
	for _, via := range world.Ways {
		if a := w.Get(t, via, "/hello"); a.StatusCode != 299 || a.Text != "hello" {
			t.Errorf("%s: %d %q", via.Name, a.StatusCode, a.Text)
		}
	}
}
