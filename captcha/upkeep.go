package captcha

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Times of the upkeep.
const (
	lookPeriod = time.Second     // for tokens that others pushed, while some wait
	carePeriod = 3 * time.Second // for all that is known
	refillTime = 10 * time.Second
)

// Keep says which keys are to have a stock while they are needed, in place of
// those it said before.
func (p *Pool) Keep(asks []Ask) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		l.kept = false
	}
	for _, a := range asks {
		if _, test, _ := testToken(a.SiteKey); !test && a.Check() == nil && a.Stock > 0 {
			l := p.line(a.Key())
			l.ask, l.kept = a, true
		}
	}
}

// upkeep runs the threads, and looks after each key that is known.
func (p *Pool) upkeep() {
	p.wg.Go(func() { p.threads.run(p.ctx) })
	tick := time.NewTicker(lookPeriod)
	defer tick.Stop()
	var cared time.Time
	for {
		select {
		case <-p.ctx.Done():
			return
		case now := <-tick.C:
			all := now.Sub(cared) >= carePeriod
			if all {
				cared = now
			}
			for _, k := range p.known(now) {
				p.care(k, all)
			}
		}
	}
}

// known are the keys that matter, and forgets the others.
func (p *Pool) known(now time.Time) []Key {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []Key
	for k, l := range p.lines {
		if !l.kept && len(l.waiting)+len(l.flights) == 0 && now.Sub(l.asked) > NeedTime {
			delete(p.lines, k)
			continue
		}
		keys = append(keys, k)
	}
	return keys
}

// care gives tokens that others put into the store to those who wait, and,
// where all is set, sees to the list and the stock of a key.
func (p *Pool) care(k Key, all bool) {
	p.mu.Lock()
	waiting := len(p.line(k).waiting)
	p.mu.Unlock()
	for range waiting {
		t, err := p.pop(p.ctx, k)
		if err != nil {
			break
		}
		if !p.serve(k, t, t.source()) {
			p.Return(p.ctx, k, t)
			break
		}
	}
	if !all {
		return
	}
	state, err := p.look(p.ctx, k)
	if err != nil {
		if p.ctx.Err() == nil {
			p.log.Warn("look after captcha tokens", "key", k.String(), "err", err)
		}
		return
	}
	p.mu.Lock()
	l := p.line(k)
	l.ready = state.Ready
	missing := 0
	if state.Needed && p.solver != nil && len(l.waiting) == 0 && time.Now().After(l.rest) {
		missing = l.ask.Stock - state.Ready - l.live()
	}
	stocking := slices.ContainsFunc(l.flights, func(f *flight) bool { return f.purpose == ForStock })
	p.mu.Unlock()
	// Who refills stays the one while its solves are under way.
	if (missing > 0 || stocking) && p.mayRefill(k) && missing > 0 {
		p.refill(k, missing)
	}
}

func (p *Pool) mayRefill(k Key) bool {
	may := false
	ok, err := p.try(p.ctx, func(ctx context.Context) (err error) {
		may, err = p.store.Refill(ctx, k, p.proxy, refillTime)
		return err
	})
	return ok && err == nil && may
}

// refill begins solves for a stock, on threads that nobody else wants now.
func (p *Pool) refill(k Key, n int) {
	n = min(n, p.threads.idle())
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.line(k)
	for range n {
		if len(l.waiting) == 0 {
			p.begin(k, l.ask, ForStock)
		}
	}
}

// Ready is how many tokens were ready when last looked at, of all keys.
func (p *Pool) Ready() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, l := range p.lines {
		n += l.ready
	}
	return n
}

// Status is what an operator is shown of one key.
type Status struct {
	State
	Type    Type // "" where no client asked for it here
	Waiting int  // clients of this proxy
	Solving int  // solves of this proxy
}

// List returns the keys of a site that have tokens or that this proxy knows,
// in order, and how much of the site's budget is spent in this hour.
func (p *Pool) List(ctx context.Context, site string) ([]Status, int, error) {
	keys, err := p.store.Keys(ctx, site)
	if err != nil {
		return nil, 0, err
	}
	spent, err := p.store.Spent(ctx, site)
	if err != nil {
		return nil, 0, err
	}
	p.mu.Lock()
	for k := range p.lines {
		if k.Site == site && !slices.Contains(keys, k) {
			keys = append(keys, k)
		}
	}
	p.mu.Unlock()
	slices.SortFunc(keys, func(a, b Key) int {
		return cmp.Or(cmp.Compare(a.SiteKey, b.SiteKey), cmp.Compare(a.Action, b.Action))
	})
	var all []Status
	for _, k := range keys {
		state, err := p.store.Look(ctx, k)
		if err != nil {
			return nil, 0, err
		}
		s := Status{State: state}
		p.mu.Lock()
		if l := p.lines[k]; l != nil {
			s.Type, s.Waiting, s.Solving = l.ask.Type, len(l.waiting), len(l.flights)
		}
		p.mu.Unlock()
		all = append(all, s)
	}
	return all, spent, nil
}

// Flush forgets the tokens of a key, and says how many they were.
func (p *Pool) Flush(ctx context.Context, k Key) (int, error) {
	here, err := p.spare.Flush(ctx, k)
	if err != nil {
		return 0, err
	}
	n, err := p.store.Flush(ctx, k)
	return n + here, err
}
