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

	mu     sync.Mutex // guards what follows
	runs   map[session.Key]*recipeRun
	failed map[session.Key]*login.RestError // of sessions that have accounts
	won    map[session.Key][]time.Time      // when the last maxWon logins succeeded
}

// At most so many logins in such a time: where they do not last, more would
// not help.
const (
	maxWon  = 10
	wonTime = 10 * time.Minute
)

// lasts returns an error where a session's logins do not last.
func (rs *recipes) lasts(key session.Key) error {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	won := rs.won[key]
	if len(won) < maxWon || time.Since(won[0]) >= wonTime {
		return nil
	}
	return &login.RestError{Until: won[0].Add(wonTime), Why: fmt.Sprintf("the last %d succeeded within %v, and did not last", maxWon, time.Since(won[0]).Round(time.Second))}
}

// rests says whether a login of the session is known to be not yet worth a try.
func (rs *recipes) rests(key session.Key) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	f := rs.failed[key]
	return f != nil && time.Now().Before(f.Until)
}

func (rs *recipes) hasWon(key session.Key) {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	won := append(rs.won[key], time.Now())
	rs.won[key] = won[max(0, len(won)-maxWon):]
}

func newRecipes() *recipes {
	r := &recipes{runs: map[session.Key]*recipeRun{}, failed: map[session.Key]*login.RestError{}, won: map[session.Key][]time.Time{}}
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
		if rest, ok := errors.AsType[*login.RestError](run.err); ok {
			rs.failed[key] = rest
		} else if run.err == nil {
			delete(rs.failed, key)
		}
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
	return d - d/10 + rand.N(d/5) //nolint:gosec // only lest proxies come at once
}

// recipeWait is how long a recipe waits for another's, which is bounded itself.
const recipeWait = 2 * time.Minute

// runRecipe waits for the session's turn and logs in, unless somebody else has.
func (p *Proxy) runRecipe(ctx context.Context, run *recipeRun) error {
	l, ok := run.site.login.Recipe.Login(run.key)
	if !ok {
		return fmt.Errorf("no account is declared for the session %s", run.key.ID)
	}
	if err := p.recipes.lasts(run.key); err != nil && !run.force {
		run.resting = true
		return err
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
		end(login.Result{Why: "the session store does not answer", Idle: true})
		return err
	}
	if !run.force && base.Login() > run.seen {
		end(login.Result{Answer: &login.Answer{Version: base.Version()}}) // a client, or a worker, was first
		return nil
	}
	lease, ref := run.lease(ctx)
	if ref != nil && ctx.Err() == nil {
		// No site locks an account for it: the next try need not be far.
		rest := restAfter(0)
		end(login.Result{Why: ref.public, Rest: rest, Idle: true})
		run.resting = true
		p.log.Warn("recipe: no upstream to log in by", "site", run.site.Name, "session", run.key.ID, "next_in", rest.Round(time.Second).String(), "err", ref.cause)
		return &login.RestError{Failures: turn.Failures, Until: time.Now().Add(rest), Why: ref.public}
	}
	if lease != nil {
		defer lease.Done()
	}
	err = ctx.Err()
	if err == nil {
		err = p.followRecipe(ctx, run, turn, lease, base, end)
	}
	outcome := "recipe_in"
	switch {
	case err == nil:
	case ctx.Err() != nil: // the proxy stops; no fault of the recipe's
		end(login.Result{Why: "the proxy was stopped", Idle: true})
		return err
	default:
		outcome = "recipe_failed"
		rest := restAfter(turn.Failures)
		end(login.Result{Why: err.Error(), Rest: rest})
		p.log.Warn("recipe: login failed", "site", run.site.Name, "session", run.key.ID, "failures", turn.Failures+1, "next_in", rest.Round(time.Second).String(), "err", err)
		err = &login.RestError{Failures: turn.Failures + 1, Until: time.Now().Add(rest), Why: err.Error()}
	}
	run.site.counts.login(outcome)
	return err
}

// followRecipe goes through the steps in a jar of its own, and gives the
// session what came of them all at once: nobody sees half a login, and one
// that fails changes nothing.
func (p *Proxy) followRecipe(ctx context.Context, run *recipeRun, turn *login.Turn, lease *upstream.Lease, base *session.Jar, end func(login.Result)) error {
	s := run.site
	start := base
	if turn.Failures%2 == 1 {
		// One of the session's cookies may be what the site stumbles over.
		start = emptyJar
	}
	way := p.recipeWay(run, lease)
	jar, tried, err := s.login.Run(ctx, run.key.ID, start, way)
	if err != nil && !tried && start != emptyJar {
		start = emptyJar // no password was sent yet
		jar, _, err = s.login.Run(ctx, run.key.ID, start, way)
	}
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
	p.recipes.hasWon(run.key)
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
