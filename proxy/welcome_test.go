package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

func TestTheFirstPageSaysWhoYouAre(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Listen: asking, Config: func(c *config.Config) {
		c.Clients = []config.Client{{Name: "crawler", Password: "s3cret", Access: config.Write}}
	}})
	get := func(via world.Way, user world.User, path string) *world.Answer {
		return world.Do(t, w.ClientAs(via, user), world.Request(t, http.MethodGet, via.URLOf("sessionproxy.internal", path), nil))
	}
	named := world.User{Name: "crawler-worker-7-session-qa1", Password: "s3cret"}
	for _, tt := range []struct {
		name string
		via  world.Way
		user world.User
		want []string
	}{
		{"a client, its worker and session", world.Plain, named, []string{"<code>crawler</code>", "<code>7</code>", "<code>qa1</code>", "trusted.svg"}},
		{"a client that has not named itself is not refused", world.Plain, world.User{}, []string{"this port asks for a user name", "/ca.pem"}},
		{"who came by https trusts the CA", world.TunnelH2, named, []string{"<code>crawler</code>", "yes, it is trusted"}},
	} {
		a := get(tt.via, tt.user, "/")
		for _, want := range tt.want {
			if !strings.Contains(a.Text, want) {
				t.Errorf("%s: %d, the page lacks %q:\n%s", tt.name, a.StatusCode, want, a.Text)
			}
		}
	}
	if a := get(world.Plain, world.User{}, "/ca.pem"); a.Text != string(w.CA) {
		t.Errorf("ca.pem is %q", a.Text)
	}
	if a := get(world.TunnelH1, named, "/trusted.svg"); a.StatusCode != 200 || a.Header.Get("Content-Type") != "image/svg+xml" {
		t.Errorf("the image of trust: %d %v", a.StatusCode, a.Header)
	}
	if a := get(world.Plain, named, "/trusted.svg"); a.StatusCode != 404 {
		t.Errorf("the image of trust came in clear: %d", a.StatusCode)
	}
}
