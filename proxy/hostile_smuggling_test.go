package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// smuggled is a request that servers have been known to read in two ways. On
// the same connection another request follows at once, the marker.
type smuggled struct {
	name   string
	raw    string // {/} stands for the request's own target, {/evil} for another
	status int    // 200: the origin's answer; else the proxy's own
	body   string // that the origin sees, where it sees the request
	cut    bool   // the client ends its side in the middle of the body
}

// Whatever a client sends, an origin sees what the client plainly meant: one
// request, ended by one of the two framings, or none. Each answer belongs to
// its request, and a client that shares the origin's connections notices
// nothing.
func TestNoRequestIsSmuggled(t *testing.T) {
	t.Parallel()
	for _, reading := range world.Readings {
		for _, via := range []world.Way{world.Plain, world.TunnelH1} {
			if via.Tunnel && !reading.Strict() {
				continue // the road is the same from here
			}
			t.Run(reading.Name+" by "+via.Name, func(t *testing.T) {
				t.Parallel()
				origin := world.NewWitness(reading)
				w := world.New(t, world.Options{Script: origin.Script})
				meant := map[string]string{} // target → what the origin may see
				for i, s := range corpus {
					t.Run(s.name, func(t *testing.T) { s.send(t, w, via, reading, i, meant) })
				}
				for _, seen := range origin.Seen() {
					if want, ok := meant[seen.Target]; !ok {
						t.Errorf("the origin saw %q, which nobody sent", seen.Head)
					} else if want != seen.String() && !(want == "" && seen.Broken) {
						t.Errorf("the origin saw %q and the body %q, want %q", seen.Head, seen.Body, want)
					}
					for _, name := range []string{"Upgrade", "HTTP2-Settings", "TE"} {
						if v := seen.Field(name); v != nil {
							t.Errorf("the origin of %s saw %s: %q", seen.Target, name, v)
						}
					}
				}
				for _, fault := range origin.Faults() {
					t.Errorf("the origin was sent: %s", fault)
				}
			})
		}
	}
}

// send plays one row, and notes in meant what the origin may see of it.
func (s smuggled) send(t *testing.T, w *world.World, via world.Way, reading world.Reading, i int, meant map[string]string) {
	own, marker, innocent := fmt.Sprintf("/own-%d", i), fmt.Sprintf("/marker-%d", i), fmt.Sprintf("/innocent-%d", i)
	method, _, _ := strings.Cut(s.raw, " ")
	want := method + " " + own
	if s.body != "" && !(reading.NoBodyOnGet && (method == "GET" || method == "HEAD" || method == "DELETE")) {
		want += " " + s.body
	}
	if s.status != http.StatusOK {
		want = "" // or the beginning of it
	}
	meant[own], meant[marker], meant[innocent] = want, "GET "+marker, "GET "+innocent

	c := w.Raw(t, via)
	c.Send(strings.NewReplacer("{/}", via.Target(own), "{/evil}", via.Target("/evil")).Replace(s.raw))
	if s.cut {
		c.CloseWrite()
	} else {
		c.Send(world.Head("GET", via, marker))
	}
	a := nextAnswer(t, c, method)
	switch {
	case a == nil:
		t.Fatal("the connection was closed without an answer")
	case a.StatusCode != s.status:
		t.Errorf("answered with %d %q, want %d", a.StatusCode, a.Text, s.status)
	case s.status != http.StatusOK:
		wantOwnAnswer(t, a)
	case method != "HEAD" && a.Text != want:
		t.Errorf("answered with %q, want %q", a.Text, want)
	}
	// Where a request made no sense, nothing after it does.
	// An origin that answers before it was sent the body ends it, too.
	early := reading.NoBodyOnGet && s.body != ""
	over := s.cut || s.status == 400 || s.status == 431 || s.status == 501 || s.status == 505
	switch next := nextAnswer(t, c, "GET"); {
	case over && next != nil:
		t.Errorf("the connection went on with %d %q", next.StatusCode, next.Text)
	case next == nil && early:
	case !over && (next == nil || next.Text != "GET "+marker):
		t.Errorf("the request behind it was answered with %+v", next)
	}
	if a := w.Get(t, via, innocent); a.Text != "GET "+innocent {
		t.Errorf("another client's request was answered with %d %q", a.StatusCode, a.Text)
	}
}

// wantOwnAnswer asserts that an answer is the proxy's own and says why.
func wantOwnAnswer(t *testing.T, a *world.Answer) {
	t.Helper()
	if !strings.HasPrefix(a.Header.Get("Proxy-Status"), "sessionproxy; error=") || a.Header.Get("X-Exchange-Id") == "" {
		t.Errorf("the answer's head is %d %v", a.StatusCode, a.Header)
	}
	if !strings.HasPrefix(a.Text, "sessionproxy: ") {
		t.Errorf("refused in the words %q", a.Text)
	}
}

// nextAnswer reads the next final response, or nil where the connection has
// ended instead.
func nextAnswer(t *testing.T, c *world.Conn, method string) *world.Answer {
	t.Helper()
	for {
		if _, err := c.R.Peek(1); err != nil {
			return nil
		}
		if a := c.Answer(method); a.StatusCode >= 200 {
			if a.Err != nil {
				t.Errorf("the answer %d %q broke off: %v", a.StatusCode, a.Text, a.Err)
			}
			return a
		}
	}
}

// A head that comes in pieces is the same head.
func TestNoRequestIsSmuggledInPieces(t *testing.T) {
	t.Parallel()
	origin := world.NewWitness(world.Readings[0])
	w := world.New(t, world.Options{Script: origin.Script})
	for _, s := range corpus {
		if s.cut || len(s.raw) > 1000 {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			c := w.Dial(t)
			raw := strings.NewReplacer("{/}", world.Plain.Target("/"), "{/evil}", world.Plain.Target("/evil")).Replace(s.raw)
			for i := range raw {
				if _, err := c.Write([]byte{raw[i]}); err != nil {
					break // it has had its answer
				}
			}
			io.WriteString(c, world.Head("GET", world.Plain, "/marker"))
			method, _, _ := strings.Cut(s.raw, " ")
			if a := nextAnswer(t, c, method); a == nil || a.StatusCode != s.status {
				t.Errorf("answered with %+v, want %d", a, s.status)
			}
		})
	}
	for _, seen := range origin.Seen() {
		if seen.Target == "/evil" {
			t.Errorf("the origin saw %q", seen.Head)
		}
	}
}
