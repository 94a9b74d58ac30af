package proxy

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// lease takes the upstream that the whole login leaves by; nil: directly.
func (run *recipeRun) lease(ctx context.Context) (*upstream.Lease, *refusal) {
	pool := run.site.pool
	if pool == nil {
		return nil, nil
	}
	l, err := pool.Lease(ctx, sessionOwner(run.key), new(upstream.Patience))
	if err != nil {
		return nil, noLease(ctx, pool.Name(), err)
	}
	return l, nil
}

// recipeWay is how a recipe's requests go: as those of the session, by its
// lease, and to hosts of the site alone.
func (p *Proxy) recipeWay(run *recipeRun, lease *upstream.Lease) login.Way {
	s := run.site
	header := make(http.Header, len(s.Headers))
	for name, value := range s.Headers {
		header[http.CanonicalHeaderKey(name)] = []string{value}
	}
	to := func(u *url.URL) (target, bool) {
		t, ref := plainTarget(u)
		return t, ref == nil && p.rules.Load().site(t.host, t.port).is(s)
	}
	return login.Way{
		Header:   header,
		Now:      p.store.Now,
		Report:   func(step login.Step) { run.steps = append(run.steps, step) },
		Declared: func(u *url.URL) bool { _, ok := to(u); return ok },
		Send: func(r *http.Request) (*http.Response, error) {
			t, _ := to(r.URL)
			x := p.recipeStep(r, run, t)
			if err := x.fillStep(r); err != nil {
				return nil, err
			}
			resp, err := p.sendRecipe(r, s, t, lease)
			if err != nil {
				return nil, errors.New(originFailed(t.host, err).public)
			}
			x.learn(r, resp)
			return resp, nil
		},
	}
}

// sendRecipe sends one request of a recipe.
func (p *Proxy) sendRecipe(r *http.Request, s *site, t target, lease *upstream.Lease) (*http.Response, error) {
	route := transportKey{origin: s.origin}
	if lease != nil {
		if err := p.egressName(p.rules.Load(), s.origin, t); err != nil {
			return nil, dialError{err}
		}
		route.exit = lease.Exit()
		route.forward = forwards(route.exit, s.origin, t, false)
	}
	resp, err := p.pool.get(route, t).RoundTrip(r)
	switch {
	case lease == nil:
	case err != nil:
		lease.Failed(r.Context(), t.host, err)
	case resp.StatusCode == http.StatusProxyAuthRequired && route.forward:
		resp.Body.Close()
		return nil, lease.Unauthorized(r.Context(), t.host)
	default:
		lease.Answered(resp.StatusCode)
	}
	return resp, err
}
