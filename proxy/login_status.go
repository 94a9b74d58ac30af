package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// LogIn logs in to a session by its recipe, now, whatever failed before, and
// returns its steps until the end or the one that failed. Its error is
// [login.ErrNoRecipe] where there is none.
func (p *Proxy) LogIn(ctx context.Context, key session.Key) ([]login.Step, error) {
	s := p.rules.Load().ofKey(key.Site)
	if s == nil || s.login == nil || !s.hasAccount(key.ID) {
		return nil, login.ErrNoRecipe
	}
	run := p.recipes.start(p, s, key, 0, true)
	select {
	case <-run.done:
		return run.steps, plainFailure(run.err)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// plainFailure is a run's error without the pause that follows, which one by
// hand does not wait for.
func plainFailure(err error) error {
	if rest, ok := errors.AsType[*login.RestError](err); ok {
		return errors.New(rest.Why)
	}
	return err
}

// LoginStatus says what the proxies have last seen of a session's login: this
// one, or one that shares its Locks and has seen it later.
func (p *Proxy) LoginStatus(ctx context.Context, key session.Key) login.Status {
	s := p.rules.Load().ofKey(key.Site)
	if s == nil || s.login == nil {
		return login.Status{}
	}
	jar, err := p.jar(ctx, key)
	if err != nil {
		return login.Status{}
	}
	status := login.Status{Shown: p.verdicts.Show(key, jar)}
	p.recipes.mu.Lock()
	status.Failed = p.recipes.failed[key]
	p.recipes.mu.Unlock()
	of := login.Login{Key: key}
	if s.hasAccount(key.ID) {
		of, _ = s.login.Recipe.Login(key)
	}
	all := p.turns.Status(ctx, of)
	if all.Version >= max(jar.Login(), jar.Floor()) && (all.Version > status.Version || status.Verdict == login.Unknown) {
		status.Shown = all.Shown
	}
	if all.Failed != nil && (status.Failed == nil || status.Failed.Until.Before(all.Failed.Until)) {
		status.Failed = all.Failed
	}
	return status
}

// ExplainLogin says in sentences what u is to the site's login, and how the
// session stands; "" where no login is declared.
func (p *Proxy) ExplainLogin(ctx context.Context, u *url.URL, id string) string {
	t, ref := plainTarget(u)
	if ref != nil {
		return ""
	}
	s := p.rules.Load().site(t.host, t.port)
	if s == nil || s.login == nil || id == session.NoneID {
		return ""
	}
	text := ""
	switch {
	case s.login.Matches(http.MethodPost, t.host, cookiePath(&http.Request{URL: u})):
		text = "A POST there is the site's login: one goes out at a time. "
	case s.login.Page(u):
		text = "This is a page to log in at: what it shows tells nothing of the session. "
	}
	switch status := p.LoginStatus(ctx, session.Key{Site: s.Key, ID: id}); {
	case status.Verdict == login.Unknown:
		return text + "Whether the session is logged in has not been seen since its last login."
	default:
		return text + fmt.Sprintf("The session was last seen logged %s, %s ago, as %s showed.", status.Verdict, time.Since(status.Time).Round(time.Second), status.Rule)
	}
}
