package proxy

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
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
}

// rest says why a login of the session is known to be not yet worth a try; nil:
// it is.
func (rs *recipes) rest(key session.Key) *login.RestError {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	if f := rs.failed[key]; f != nil && time.Now().Before(f.Until) {
		return f
	}
	return nil
}

// underWay says whether a login of the session is that began when its jar had
// this version, or later. An older one may have set the cookies that are in
// question now.
func (rs *recipes) underWay(key session.Key, version int64) bool {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	run := rs.runs[key]
	return run != nil && run.seen >= version
}

func newRecipes() *recipes {
	r := &recipes{runs: map[session.Key]*recipeRun{}, failed: map[session.Key]*login.RestError{}}
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

	err   error
	moved bool // it was not tried, since the session has moved on: it may be alive
	steps []login.Step
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
		run.err = rs.ctx.Err()
		close(run.done)
		return run
	}
	rs.runs[key] = run
	rs.wg.Go(func() {
		run.err = p.runRecipe(rs.ctx, run)
		rs.mu.Lock()
		delete(rs.runs, key)
		if rest, ok := errors.AsType[*login.RestError](run.err); ok {
			// Whose clock is ahead of Redis' asks no more often than this.
			if soon := time.Now().Add(time.Second); rest.Until.Before(soon) {
				rest.Until = soon
			}
			rs.failed[key] = rest
		} else if run.err == nil {
			delete(rs.failed, key)
		}
		rs.mu.Unlock()
		close(run.done)
	})
	return run
}

var (
	// rests are the pauses after a login that the site has refused. After as
	// many as there are, none is tried for the last one: sites lock accounts.
	rests = []time.Duration{10 * time.Second, 30 * time.Second, 90 * time.Second, 5 * time.Minute, 24 * time.Hour}

	// hindrances are those after one that was merely hindered. Clients wait,
	// and most of what hinders is soon over.
	hindrances = []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute}
)

// idleRest is the pause after a login that was not begun.
const idleRest = 5 * time.Second

// restAfter is the pause after a login that came to nothing for such a cause,
// after as many as turn knows.
func restAfter(cause login.Cause, turn *login.Turn) time.Duration {
	d := idleRest
	switch cause {
	case login.Refused:
		d = rests[min(turn.Failures, len(rests)-1)]
	case login.Hindered:
		d = hindrances[min(turn.Hindered, len(hindrances)-1)]
	}
	return d - d/10 + rand.N(d/5) //nolint:gosec // only lest proxies come at once
}

// wonTime is the time in which login.MaxWon logins may succeed: where they do
// not last, more would not help. Those after the first wonAtOnce share what is
// left of it, lest a session be there for a minute and then for none.
const (
	wonTime   = 10 * time.Minute
	wonAtOnce = login.MaxWon / 2
)

// recipeWait is how long a recipe waits for another's, which is bounded itself.
const recipeWait = 3 * time.Minute

// runRecipe waits for the session's turn and logs in, unless somebody else has.
func (p *Proxy) runRecipe(ctx context.Context, run *recipeRun) error {
	l, ok := run.site.login.Recipe.Login(run.key)
	if !ok {
		return fmt.Errorf("no account is declared for the session %s", run.key.ID)
	}
	if !run.force { // before the kept answer of an earlier login is given
		p.turns.Void(ctx, run.key, run.seen)
	}
	turn, answer, err := p.turns.Begin(ctx, login.Order{Login: l, Wait: recipeWait, Force: run.force})
	switch {
	case err != nil:
		return err
	case turn == nil: // another proxy has
		p.awaitNews(ctx, run.key, answer.Version)
		return nil
	}
	t := &recipeTurn{Turn: turn, p: p, run: run}
	defer t.end(ctx, login.Result{Why: "it was broken off", Cause: login.Idle})
	if err := t.lasts(ctx); err != nil && !run.force {
		return err
	}
	base, err := p.jar(ctx, run.key)
	switch {
	case err != nil:
		t.end(ctx, login.Result{Why: "the session store does not answer", Cause: login.Idle})
		return err
	case !run.force && base.Login() > run.seen: // a client, or a worker, was first
		t.end(ctx, login.Result{Answer: &login.Answer{Version: base.Version()}})
		return nil
	case !run.force && base.Renewed() > run.seen:
		t.end(ctx, login.Result{Why: "the session has moved on", Cause: login.Idle})
		run.moved = true
		return nil
	}
	err = t.logIn(ctx, base)
	switch {
	case err == nil:
		run.site.counts.login("recipe_in")
	case ctx.Err() != nil: // the proxy stops; no fault of the recipe's
		t.end(ctx, login.Result{Why: "the proxy was stopped", Cause: login.Idle})
	}
	return err
}

// recipeTurn is a recipe that has its turn.
type recipeTurn struct {
	*login.Turn
	p   *Proxy
	run *recipeRun
}

func (t *recipeTurn) end(ctx context.Context, r login.Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeLimit)
	defer cancel()
	t.End(ctx, r)
}

// rest ends the turn with a pause, and returns the error that says so.
func (t *recipeTurn) rest(ctx context.Context, cause login.Cause, why string, pause time.Duration) error {
	t.end(ctx, login.Result{Why: why, Cause: cause, Rest: pause})
	failures := t.Failures
	if cause == login.Refused {
		failures++
	}
	return &login.RestError{Failures: failures, Until: time.Now().Add(pause), Why: why, Cause: cause}
}

// lasts returns an error where a session's logins do not last.
func (t *recipeTurn) lasts(ctx context.Context) error {
	won := len(t.Won)
	if won < wonAtOnce || t.run.force {
		return nil
	}
	first, last := t.Won[0], t.Won[won-1]
	next := last.Add(first.Add(wonTime).Sub(last) / time.Duration(login.MaxWon+1-won))
	pause := time.Until(next)
	if pause <= 0 {
		return nil
	}
	why := fmt.Sprintf("the last %d succeeded within %v, and did not last", won, time.Since(first).Round(time.Second))
	return t.rest(ctx, login.Idle, why, pause)
}

// logIn leases an upstream and follows the recipe.
func (t *recipeTurn) logIn(ctx context.Context, base *session.Jar) error {
	site, id := t.run.site, t.run.key.ID
	lease, ref := t.run.lease(ctx)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case ref != nil: // no site locks an account for it
		pause := restAfter(login.Idle, t.Turn)
		t.p.log.Warn("recipe: no upstream to log in by", "site", site.Name, "session", id, "next_in", pause.Round(time.Second).String(), "err", ref.cause)
		return t.rest(ctx, login.Idle, ref.public, pause)
	case lease != nil:
		defer lease.Done()
	}
	err := t.follow(ctx, lease, base)
	if err == nil || ctx.Err() != nil {
		return err
	}
	cause, pause := login.CauseOf(err)
	pause = max(pause, restAfter(cause, t.Turn))
	site.counts.login("recipe_failed")
	t.p.log.Warn("recipe: login failed", "site", site.Name, "session", id, "failures", t.Failures, "refused", cause == login.Refused,
		"next_in", pause.Round(time.Second).String(), "err", err)
	return t.rest(ctx, cause, err.Error(), pause)
}

// follow goes through the steps in a jar of its own, and gives the session what
// came of them all at once: nobody sees half a login, and one that fails changes
// nothing.
func (t *recipeTurn) follow(ctx context.Context, lease *upstream.Lease, base *session.Jar) error {
	p, run, s := t.p, t.run, t.run.site
	start := base
	if t.Failures%2 == 1 {
		// One of the session's cookies may be what the site stumbles over.
		start = emptyJar
	}
	way := p.recipeWay(run, lease)
	jar, tried, err := s.login.Run(ctx, run.key.ID, start, way)
	if cause, _ := login.CauseOf(err); err != nil && !tried && start != emptyJar && cause == login.Refused {
		start = emptyJar // no password was sent yet
		jar, _, err = s.login.Run(ctx, run.key.ID, start, way)
	}
	if err != nil {
		return err
	}
	if !t.Last(ctx) {
		return login.HinderedError{Err: errors.New("its turn was over, and another has logged in")}
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
		return login.HinderedError{Err: errors.New("the session store did not take the login's cookies")}
	}
	for i, o := range outcomes {
		s.counts.capture(o, u.Cookies[i].Expired(p.store.Now()))
	}
	p.note(ctx, run.key, login.Judgment{Verdict: login.In, Rule: "recipe"}, next.Version(), next.Login())
	t.end(ctx, login.Result{Answer: &login.Answer{Version: next.Version()}, Count: wonTime})
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

// awaitNews waits until this proxy knows of another's change, whose version it
// was told: the news is on its way. It gives up where that has taken too long,
// or the store is away.
func (p *Proxy) awaitNews(ctx context.Context, key session.Key, version int64) {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(newsLimit); ; {
		jar, err := p.jar(ctx, key)
		if err != nil || jar.Version() >= version || time.Now().After(end) {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// newsLimit is longer than a half-open link to Redis goes unnoticed.
const newsLimit = 2 * time.Second

// jar returns a session's jar, an empty one where it is absent.
func (p *Proxy) jar(ctx context.Context, key session.Key) (*session.Jar, error) {
	jar, err := p.store.Load(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return emptyJar, nil
	}
	return jar, err
}
