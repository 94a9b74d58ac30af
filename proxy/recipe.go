package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// recipes are the proxy's own logins under way, one a session.
type recipes struct {
	wg     sync.WaitGroup
	ctx    context.Context
	cancel context.CancelFunc

	mu   sync.Mutex // guards runs
	runs map[session.Key]*recipeRun
}

func newRecipes() *recipes {
	r := &recipes{runs: map[session.Key]*recipeRun{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	return r
}

// close ends the logins under way, and waits for them.
func (rs *recipes) close() {
	rs.cancel()
	rs.wg.Wait()
}

// recipeRun is one login of the proxy's own.
type recipeRun struct {
	site  *site
	key   session.Key
	seen  int64 // version of the jar that was seen to be logged out
	force bool

	done chan struct{} // closed when what follows is there

	err     error
	resting bool // it was not tried, since others have failed
	steps   []login.Step
}

// start begins the login of a session, or joins the one under way.
func (rs *recipes) start(p *Proxy, s *site, key session.Key, seen int64, force bool) *recipeRun {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if run := rs.runs[key]; run != nil {
		return run
	}
	run := &recipeRun{site: s, key: key, seen: seen, force: force, done: make(chan struct{})}
	if rs.ctx.Err() != nil {
		run.err, run.resting = rs.ctx.Err(), true
		close(run.done)
		return run
	}
	rs.runs[key] = run
	rs.wg.Go(func() {
		run.err = p.runRecipe(rs.ctx, run)
		rs.mu.Lock()
		delete(rs.runs, key)
		rs.mu.Unlock()
		close(run.done)
	})
	return run
}

// The pauses after a login that failed, and after as many as have pauses none
// is tried for the last one: sites lock accounts.
var rests = []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second, 5 * time.Minute, 24 * time.Hour}

func restAfter(failures int) time.Duration {
	d := rests[min(failures, len(rests)-1)]
	return d - d/10 + rand.N(d/5) // so that proxies do not come at once
}

// recipeWait is how long a recipe waits for another's, which is bounded itself.
const recipeWait = 2 * time.Minute

// runRecipe waits for the session's turn and logs in, unless somebody else has.
func (p *Proxy) runRecipe(ctx context.Context, run *recipeRun) error {
	l, ok := run.site.login.Recipe.Login(run.key)
	if !ok {
		return fmt.Errorf("no account is declared for the session %s", run.key.ID)
	}
	turn, _, err := p.turns.Begin(ctx, login.Order{Login: l, Wait: recipeWait, Force: run.force})
	switch {
	case err != nil:
		_, run.resting = errors.AsType[*login.RestError](err)
		return err
	case turn == nil:
		return nil // another proxy did
	}
	end := func(r login.Result) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
		defer cancel()
		turn.End(ctx, r)
	}
	defer end(login.Result{Why: "it was broken off"})
	base, err := p.jar(ctx, run.key)
	if err != nil {
		end(login.Result{Why: "the session store does not answer"})
		return err
	}
	if !run.force && base.Login() > run.seen {
		end(login.Result{Answer: &login.Answer{Version: base.Version()}}) // a client, or a worker, was first
		return nil
	}
	err = p.followRecipe(ctx, run, turn, base, end)
	outcome := "recipe_in"
	if err != nil {
		outcome = "recipe_failed"
		rest := restAfter(turn.Failures)
		end(login.Result{Why: err.Error(), Rest: rest})
		p.log.Warn("recipe: login failed", "site", run.site.Name, "session", run.key.ID, "failures", turn.Failures+1, "next_in", rest.Round(time.Second).String(), "err", err)
	}
	run.site.counts.login(outcome)
	return err
}

// followRecipe goes through the steps in a jar of its own, and gives the
// session what came of them all at once: nobody sees half a login, and one
// that fails changes nothing.
func (p *Proxy) followRecipe(ctx context.Context, run *recipeRun, turn *login.Turn, base *session.Jar, end func(login.Result)) error {
	s := run.site
	start := base
	if turn.Failures%2 == 1 {
		// One of the session's cookies may be what the site stumbles over.
		start = emptyJar
	}
	lease, ref := run.lease(ctx)
	if ref != nil {
		return errors.New(ref.public)
	}
	if lease != nil {
		defer lease.Done()
	}
	jar, err := s.login.Run(ctx, run.key.ID, start, p.recipeWay(run, lease))
	if err != nil {
		return err
	}
	if !turn.Last(ctx) {
		return errors.New("its turn was over, and another has logged in")
	}
	u := session.Update{Base: base.Version(), Writer: session.ByRecipe}
	for _, c := range login.Changes(start, jar) {
		if s.policy.Shared(c.Name) {
			u.Cookies = append(u.Cookies, c)
		}
	}
	if len(u.Cookies) == 0 { // the site keeps the session's name over a login
		u.Cookies = sharedOf(jar, s.policy)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	next, outcomes, err := p.store.Apply(ctx, run.key, u, s.life)
	if err != nil {
		p.storeFailed("apply", err)
		return fmt.Errorf("keep the login's cookies: %w", err)
	}
	for i, o := range outcomes {
		s.counts.capture(o, u.Cookies[i].Expired(time.Now()))
	}
	p.verdicts.Note(run.key, login.Judgment{Verdict: login.In, Rule: "recipe"}, next.Version(), next.Login())
	end(login.Result{Answer: &login.Answer{Version: next.Version()}})
	p.log.Info("recipe: logged in", "site", s.Name, "session", run.key.ID, "steps", len(run.steps))
	return nil
}

func sharedOf(jar *session.Jar, p *session.Policy) []session.Cookie {
	var all []session.Cookie
	for _, c := range jar.Cookies() {
		if p.Shared(c.Name) {
			all = append(all, c)
		}
	}
	return all
}

// lease takes the upstream that the whole login leaves by; nil: directly.
func (run *recipeRun) lease(ctx context.Context) (*upstream.Lease, *refusal) {
	pool := run.site.pool
	if pool == nil {
		return nil, nil
	}
	l, err := pool.Lease(ctx, sessionOwner(run.key))
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
		Report:   func(step login.Step) { run.steps = append(run.steps, step) },
		Declared: func(u *url.URL) bool { _, ok := to(u); return ok },
		Send: func(r *http.Request) (*http.Response, error) {
			t, _ := to(r.URL)
			resp, err := p.sendRecipe(r, s, t, lease)
			if err != nil {
				return nil, errors.New(originFailed(t.host, err).public)
			}
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

// is says whether two rules are of one site: a reload makes new ones.
func (s *site) is(other *site) bool { return s != nil && s.Key == other.Key }

// hasAccount says whether the proxy can log in to a session by itself.
func (s *site) hasAccount(id string) bool {
	if s.login.Recipe == nil {
		return false
	}
	_, ok := s.login.Recipe.Login(session.Key{ID: id})
	return ok
}

// jar returns a session's jar, an empty one where it is absent.
func (p *Proxy) jar(ctx context.Context, key session.Key) (*session.Jar, error) {
	jar, err := p.store.Load(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return emptyJar, nil
	}
	return jar, err
}

// ErrNoRecipe says that the proxy can't log in to a session by itself.
var ErrNoRecipe = errors.New("the proxy has no recipe and account for this session")

// LogIn logs in to a session by its recipe, now, whatever failed before, and
// returns its steps until the end or the one that failed.
func (p *Proxy) LogIn(ctx context.Context, key session.Key) ([]login.Step, error) {
	for _, s := range p.rules.Load().sites {
		if s.Key != key.Site || s.login == nil || !s.hasAccount(key.ID) {
			continue
		}
		run := p.recipes.start(p, s, key, 0, true)
		select {
		case <-run.done:
			return run.steps, run.err
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return nil, ErrNoRecipe
}

// Verdict returns what was last seen of a session.
func (p *Proxy) Verdict(ctx context.Context, key session.Key) login.Shown {
	jar, err := p.jar(ctx, key)
	if err != nil {
		return login.Shown{}
	}
	return p.verdicts.Show(key, jar)
}
