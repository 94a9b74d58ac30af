package proxy_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// Large forms wait on disk, and there is room for so many. Whatever becomes of
// one, its room is the next one's.
func TestFormsThatWaitHaveOneBound(t *testing.T) {
	t.Parallel()
	const size, room = 3 << 20, 5 << 20 // for one of them
	large := "g-recaptcha-response=&a=" + strings.Repeat("x", size)
	widget := config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"}
	form := func(t *testing.T, via world.Way, path string) *http.Request {
		return world.Request(t, http.MethodPost, via.URL(path), strings.NewReader(large), "Content-Type", urlencoded)
	}
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			forward := widget
			forward.Path, forward.OnFailure = "/forward", config.Forward
			w := newFormWorldOf(t, world.Options{SpoolMax: room}, nil, forward, widget)
			w.solver.hold = make(chan struct{})
			ctx, cancel := context.WithCancel(t.Context())
			first := make(chan error)
			go func() {
				resp, err := w.Client(via).Do(form(t, via, "/").WithContext(ctx))
				if err == nil {
					resp.Body.Close()
				}
				first <- err
			}()
			world.Eventually(t, "a form waits for its token", func() bool { return len(w.solver.seen()) == 1 })

			a := world.Do(t, w.Client(via), form(t, via, "/"))
			if a.StatusCode != http.StatusServiceUnavailable || !strings.Contains(a.Text, "spool.max_mib") ||
				!strings.Contains(a.Header.Get("Proxy-Status"), "spool_full") || a.Header.Get("Retry-After") == "" {
				t.Errorf("one more: %s: %s", a.Status, a.Text)
			}
			if g := w.post(t, via, "/forward", urlencoded, large); string(g.body) != large {
				t.Errorf("one more that is forwarded came as %d bytes, want %d as they were", len(g.body), len(large))
			}

			cancel() // the client leaves
			if err := <-first; err == nil {
				t.Error("the first form was answered")
			}
			world.Eventually(t, "the proxy knows that the client left", func() bool {
				return count(t, w.Proxy, "sessionproxy_captcha_fills_total", "outcome", "client_gone") == 1
			})
			close(w.solver.hold)
			for range 3 {
				var a *world.Answer
				world.Eventually(t, "there is room again", func() bool {
					a = world.Do(t, w.Client(via), form(t, via, "/"))
					return a.StatusCode == http.StatusOK
				})
				if g := <-w.posts; len(g.body) <= len(large) {
					t.Errorf("the next form left without a token")
				}
			}
		})
	}
}

// A form whose client leaves while it is read gives its room back, and no solve
// was begun for it.
func TestAFormThatBreaksOffTakesNoRoom(t *testing.T) {
	t.Parallel()
	for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2} {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := newFormWorldOf(t, world.Options{SpoolMax: 5 << 20}, nil, config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/"})
			begin, end := io.Pipe()
			ctx, cancel := context.WithCancel(t.Context())
			r := world.Request(t, http.MethodPost, via.URL("/"), begin, "Content-Type", urlencoded).WithContext(ctx)
			left := make(chan error)
			go func() {
				resp, err := w.Client(via).Do(r)
				if err == nil {
					resp.Body.Close()
				}
				left <- err
			}()
			if _, err := io.WriteString(end, "g-recaptcha-response=&a="+strings.Repeat("x", 3<<20)); err != nil {
				t.Fatal(err)
			}
			cancel()
			_ = end.CloseWithError(context.Canceled) // its client waits for it
			if err := <-left; err == nil {
				t.Error("half a form was answered")
			}
			body := "g-recaptcha-response=&a=" + strings.Repeat("x", 3<<20)
			world.Eventually(t, "its room is free", func() bool {
				a := world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL("/"), strings.NewReader(body), "Content-Type", urlencoded))
				return a.StatusCode == http.StatusOK
			})
			<-w.posts
			if n := len(w.solver.seen()); n != 1 {
				t.Errorf("%d solves, want that of the whole form alone", n)
			}
		})
	}
}

// A request without a body may be an empty form, if it says so.
func TestAFormThatIsEmpty(t *testing.T) {
	t.Parallel()
	rule := func(when config.When) config.Captcha {
		return config.Captcha{Type: "recaptcha_v2", SiteKey: "6Lv2", Page: "https://shop.test/", When: when}
	}
	const filled = "g-recaptcha-response=TOKEN"
	for _, tt := range []struct {
		name, kind string // kind "": the request has no Content-Type
		when       config.When
		chunked    bool
		want       string
	}{
		{"missing adds the field", urlencoded, config.WhenMissing, false, filled},
		{"so does always", urlencoded, config.WhenAlways, false, filled},
		{"with parameters, too", urlencoded + "; charset=UTF-8", config.WhenMissing, false, filled},
		{"of unknown length, too", urlencoded, config.WhenMissing, true, filled},
		{"empty does not", urlencoded, config.WhenEmpty, false, ""},
		{"what does not say that it is a form is none", "", config.WhenMissing, false, ""},
		{"nothing is no JSON", "application/json", config.WhenMissing, false, ""},
		{"nothing is no multipart form", "multipart/form-data; boundary=a", config.WhenAlways, false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newFormWorld(t, nil, rule(tt.when))
			for _, via := range world.Ways {
				var body io.Reader = http.NoBody
				if tt.chunked {
					body = io.MultiReader() // nobody knows its length
				}
				var fields []string
				if tt.kind != "" {
					fields = []string{"Content-Type", tt.kind}
				}
				a := world.Do(t, w.Client(via), world.Request(t, http.MethodPost, via.URL("/"), body, fields...))
				if a.StatusCode != http.StatusOK {
					t.Fatalf("%s: %s: %s", via.Name, a.Status, a.Text)
				}
				g := <-w.posts
				token, ok := strings.CutPrefix(string(g.body), "g-recaptcha-response=")
				if ok != (tt.want != "") || !ok && len(g.body) > 0 {
					t.Errorf("%s: the site saw %q, want %q", via.Name, g.body, tt.want)
				}
				if !tt.chunked && g.length != int64(len(g.body)) {
					t.Errorf("%s: %d bytes of announced %d", via.Name, len(g.body), g.length)
				}
				if v := w.verifier.Check("s-v2", token); ok && !v.Success {
					t.Errorf("%s: the site's verifier says %v", via.Name, v.ErrorCodes)
				}
			}
		})
	}
}
