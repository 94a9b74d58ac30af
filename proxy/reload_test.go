package proxy_test

import (
	"net/http"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// A tunnel outlives many reloads; the rights of its client do not.
func TestAReloadHoldsInOpenTunnels(t *testing.T) {
	t.Parallel()
	crawlers := []config.Client{{Name: "crawler", Password: "s3cret", Access: config.Write, Deliver: true}}
	for _, tt := range []struct {
		name    string
		clients []config.Client
		want    int
		sent    string
	}{
		{"a client that stays stays", crawlers, 200, "sid=a1"},
		{"a client that is gone is refused", []config.Client{{Name: "other", Password: "x", Access: config.Write, Deliver: true}}, 403, ""},
		{"a client with another password is refused", []config.Client{{Name: "crawler", Password: "new", Access: config.Write, Deliver: true}}, 403, ""},
		{"a client that lost the site is refused", []config.Client{{Name: "crawler", Password: "s3cret", Sites: []string{"other"}, Access: config.Write, Deliver: true}}, 403, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, via := range []world.Way{world.TunnelH1, world.TunnelH2} {
				w := world.New(t, world.Options{Handler: login, Listen: asking, Config: func(c *config.Config) { c.Clients = crawlers }})
				client := w.ClientAs(via, crawler)
				world.Do(t, client, world.Request(t, http.MethodGet, via.URL(set("sid=a1; Path=/")), nil))
				w.Change(t, func(c *config.Config) { c.Clients = tt.clients })
				a := world.Do(t, client, world.Request(t, http.MethodGet, via.URL("/"), nil))
				if a.StatusCode != tt.want {
					t.Errorf("%s: answered %d %q, want %d", via.Name, a.StatusCode, a.Text, tt.want)
				}
				if tt.want == 200 {
					wantCookie(t, a, tt.sent)
				}
			}
		})
	}
}
