package proxy_test

import (
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// hashed declares the tests' clients by hashes of their passwords.
func hashed(c *config.Config) {
	clients(c)
	c.Clients[0].Password = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$6Crvd0pUWwUX9JdfBSpZ7dOnM78DdrdhAOj1hvHMiF8" // argon2id of s3cret, as cheap as can be
	c.Clients[1].Password = "$2y$04$wToOGZjMX9AmUJt8VsaMJ.lPJDOjIsuv68PliqobvaocNL12Maete"                        // htpasswd -nbB -C 4 viewer pa:ss
}

func TestClientsWithHashedPasswords(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: hashed, Listen: asking})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		for _, user := range []world.User{crawler, viewer} {
			if a := w.GetAs(t, via, user, "/"); a.StatusCode != 200 {
				t.Errorf("%s: %d %s", user.Name, a.StatusCode, a.Text)
			}
		}
	})
	for _, wrong := range []string{credentials("crawler", "S3cret"), credentials("viewer", "s3cret"), credentials("crawler", ""), credentials("stranger", "s3cret")} {
		wantRefusal(t, w.Dial(t).Connect("shop.test:443", wrong), 407, "http_request_denied", "credentials")
	}
	if got := count(t, w.Proxy, "sessionproxy_auth_failures_total", "reason", "password"); got != 4 {
		t.Errorf("%v wrong passwords are counted, want 4", got)
	}
	w.Change(t, func(c *config.Config) {
		hashed(c)
		c.Clients[0].Password = "$argon2id$v=19$m=64,t=1,p=1$c29tZXNhbHQ$0/GG35KEfxbOWhBkNfyUUQ3Mgtc1UK+5ai0aepQ9+7M" // of changed
	})
	wantRefusal(t, w.Dial(t).Connect("shop.test:443", credentials("crawler", "s3cret")), 407, "http_request_denied", "credentials")
}

func TestGuessingIsRefused(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: clients, Listen: asking})
	if a := w.GetAs(t, world.TunnelH1, crawler, "/"); a.StatusCode != 200 {
		t.Fatal(a.StatusCode)
	}
	var last *world.Answer
	answers := make(chan *world.Answer)
	for i := range 50 {
		go func() { answers <- w.Dial(t).Connect("shop.test:443", credentials("crawler", fmt.Sprint("guess", i))) }()
	}
	for range 50 {
		if a := <-answers; a.StatusCode == 429 {
			last = a
		} else if a.StatusCode != 407 {
			t.Errorf("%s", a.Status)
		}
	}
	if last == nil {
		t.Fatal("50 guesses at once are all looked at")
	}
	wantRefusal(t, last, 429, "http_request_denied", "too_many_failures")
	if last.Header.Get("Retry-After") == "" {
		t.Error("nobody is told when to try again")
	}
	if a := w.Dial(t).Connect("shop.test:443", credentials("crawler", "s3cret")); a.StatusCode != 200 {
		t.Errorf("a client beside the guesser: %s", a.Status)
	}
	w.Audit.WantRecord(t, "client_login", "outcome", "refused", "reason", "too_many_failures", "from", "127.0.0.1")
	if got := count(t, w.Proxy, "sessionproxy_auth_failures_total"); got != 50 {
		t.Errorf("%v failures are counted, want 50", got)
	}
}
