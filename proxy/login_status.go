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
	for _, s := range p.rules.Load().sites {
		if s.Key != key.Site || s.login == nil || !s.hasAccount(key.ID) {
			continue
		}
		run := p.recipes.start(p, s, key, 0, true)
		select {
		case <-run.done:
			return run.steps, plainFailure(run.err)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, login.ErrNoRecipe
}

// plainFailure is a run's error without the pause that follows, which one by
// hand does not wait for.
func plainFailure(err error) error {
	if rest, ok := errors.AsType[*login.RestError](err); ok {
		return errors.New(rest.Why)
	}
	return err
}

// LoginStatus says what this proxy has last seen of a session's login.
func (p *Proxy) LoginStatus(ctx context.Context, key session.Key) login.Status {
	jar, err := p.jar(ctx, key)
	if err != nil {
		return login.Status{}
	}
	status := login.Status{Shown: p.verdicts.Show(key, jar)}
	p.recipes.mu.Lock()
	defer p.recipes.mu.Unlock()
	status.Failed = p.recipes.failed[key]
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
