package admin

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

func TestLogIn(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	steps := []login.Step{{Method: "GET", URL: "https://shop.test/login", Status: 200, Took: []string{"csrf"}, Time: 1500 * time.Microsecond}}
	o.LogIn = func(_ context.Context, key session.Key) ([]login.Step, error) {
		switch key {
		case session.Key{Site: "shop.test", ID: "default"}:
			return steps, nil
		case session.Key{Site: "shop.test", ID: "locked"}:
			return steps, errors.New("step 2: no")
		}
		return nil, login.ErrNoRecipe
	}
	api := New(o)
	for _, tt := range []struct{ name, session, failed string }{
		{"a login that succeeds", "default", ""},
		{"one that fails shows its steps too", "locked", "step 2: no"},
	} {
		got := decode[SessionLoggedIn](t, ask(api, "POST", "/api/v1/sessions/shop/"+tt.session+"/login"))
		if got.Error != tt.failed || len(got.Steps) != 1 || got.Steps[0].Milliseconds != 1 || got.Steps[0].Took[0] != "csrf" || got.Session != tt.session || got.Site != "shop" {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	wantProblem(t, ask(api, "POST", "/api/v1/sessions/shop/qa1/login"), 404, "no_recipe")
}

// Also a session that has no cookies, since its recipe fails.
func TestSessionsShowTheirLogin(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Store = newStore(t)
	o.Sites = func() []config.Site {
		s := site(t, "shop", "shop.test", "shop.test")
		s.Login = &config.Login{Accounts: []config.Account{{ID: "default"}, {ID: "locked"}, {ID: "fresh"}}}
		return []config.Site{s}
	}
	seen := time.Now()
	o.LoginStatus = func(_ context.Context, key session.Key) login.Status {
		switch key.ID {
		case "default":
			return login.Status{Shown: login.Shown{Judgment: login.Judgment{Verdict: login.Out, Rule: "logged_out.status"}, Time: seen}}
		case "locked":
			return login.Status{Failed: &login.RestError{Failures: 5, Until: seen.Add(time.Hour), Why: "step 2: no"}}
		}
		return login.Status{}
	}
	got := map[string]LoginState{}
	for _, s := range decode[Sessions](t, ask(New(o), "GET", "/api/v1/sessions?site=shop")).Sessions {
		got[s.Session] = s.Login
	}
	want := map[string]LoginState{
		"default": {Verdict: "out", Rule: "logged_out.status", Seen: seen.UTC()},
		"qa1":     {Verdict: "unknown"},
		"locked":  {Verdict: "unknown", Failures: 5, Error: "step 2: no", NextTry: seen.Add(time.Hour).UTC()},
	}
	if len(got) != len(want) {
		t.Errorf("sessions %v, want %v", got, want)
	}
	for id, l := range want {
		g := got[id]
		if g.Verdict != l.Verdict || g.Rule != l.Rule || g.Error != l.Error || g.Failures != l.Failures || !g.Seen.Equal(l.Seen) || !g.NextTry.Equal(l.NextTry) {
			t.Errorf("%s: %+v, want %+v", id, g, l)
		}
	}
}
