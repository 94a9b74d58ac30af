package proxy_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// A request without a body is repeated where an idle connection turns out to be
// dead. One that holds a token is not: the origin may have seen it.
func TestATokenInAQueryIsNotRepeated(t *testing.T) {
	t.Parallel()
	for _, via := range []world.Way{world.Plain, world.TunnelH1, world.TunnelH2H1} {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			seen := map[string]int{} // targets
			s := &solver{verifier: captchatest.NewVerifier(widgets...)}
			pool := captcha.New(captcha.Options{Store: captcha.NewMemory(), Service: captcha.Service{Solver: s, Threads: 10}})
			t.Cleanup(pool.Close)
			w := world.New(t, world.Options{
				Tokens: pool,
				Faulty: true,
				Config: func(c *config.Config) {
					c.Sites[0].Captcha = []config.Captcha{{Type: "recaptcha_v2", Method: http.MethodGet, SiteKey: "6Lv2", Page: "https://shop.test/", Budget: config.CaptchaBudget{PerHour: 20}}}
				},
				// It takes one more request on each connection, and is gone.
				Script: func(c *world.Conn) {
					for range 2 {
						r, err := http.ReadRequest(c.R)
						if err != nil {
							return
						}
						mu.Lock()
						seen[r.RequestURI]++
						last := seen[r.RequestURI] > 1 || !strings.HasPrefix(r.RequestURI, "/first")
						mu.Unlock()
						if last {
							return
						}
						c.Send("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
					}
				},
			})
			get := func(path string) *world.Answer { return w.Get(t, via, path) }
			if a := get("/first"); a.Text != "ok" {
				t.Fatalf("%s %s", a.Status, a.Text)
			}
			if a := get("/search?g-recaptcha-response="); a.StatusCode != http.StatusBadGateway {
				t.Errorf("%s %s", a.Status, a.Text)
			}
			mu.Lock()
			defer mu.Unlock()
			tokens := 0
			for target, n := range seen {
				if !strings.Contains(target, "03AF") {
					continue
				}
				if tokens++; n > 1 {
					t.Errorf("the site saw one token %d times", n)
				}
			}
			if tokens != 1 {
				t.Errorf("the site saw %d tokens: %v", tokens, fmt.Sprint(seen))
			}
		})
	}
}
