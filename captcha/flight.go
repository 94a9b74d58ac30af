package captcha

import (
	"context"
	"errors"
	"slices"
	"time"
)

// flight is one solve under way. It belongs to its key and to no waiter: its
// token goes to whoever then has waited longest.
type flight struct {
	pool    *Pool
	key     Key
	ask     Ask
	solver  Solver
	purpose Purpose
	turn    int
	cancel  context.CancelFunc

	// Guarded by the pool's mu.
	opened bool // it had a thread, so there may be a task to pay for
	off    bool // it was called off before
	spent  int
}

// begin starts a solve. It is called with mu held.
func (p *Pool) begin(key Key, a Ask, purpose Purpose) {
	if p.ctx.Err() != nil {
		return
	}
	p.turn++
	f := &flight{pool: p, key: key, ask: a, solver: p.solver, purpose: purpose, turn: p.turn}
	ctx, cancel := context.WithCancel(p.ctx)
	f.cancel = cancel
	l := p.line(key)
	l.flights = append(l.flights, f)
	p.wg.Go(func() {
		defer cancel()
		f.fly(ctx)
	})
}

// trim calls off solves for forms that nobody waits for any more and that hold
// no thread: nothing is paid for yet.
func (l *line) trim() {
	surplus := l.live() - len(l.waiting)
	for _, f := range slices.Backward(l.flights) {
		if surplus <= 0 {
			return
		}
		if f.purpose == ForForm && !f.opened && !f.off {
			f.off = true
			f.cancel()
			surplus--
		}
	}
}

// live is how many solves are under way that were not called off.
func (l *line) live() int {
	n := 0
	for _, f := range l.flights {
		if !f.off {
			n++
		}
	}
	return n
}

func (f *flight) fly(ctx context.Context) {
	p, began := f.pool, time.Now()
	got, err := f.solver.Solve(ctx, f.ask.Task, f.open)
	if err == nil {
		err = CheckToken(got.Token)
	}
	t := Token{Value: got.Token, Expires: got.Issued.Add(f.ask.Type.Life()), Prefetched: f.purpose == ForPage}
	if err == nil && !time.Now().Before(t.Expires) {
		err = errTooOld
	}
	s := Solve{Key: f.key, Type: f.ask.Type, Purpose: f.purpose, Took: time.Since(began), Outcome: OutcomeOf(err), Err: err}
	served, off := f.land(t, err, &s)
	if off {
		return
	}
	p.solved(s)
	if err == nil && !served {
		if err := p.keep(context.WithoutCancel(ctx), f.key, t, Store.Push); err != nil {
			p.log.Warn("a solved token was not kept", "key", f.key.String(), "err", err)
		}
	}
}

// land takes a solve that ended out of its line, and gives its token to whoever
// has waited longest. A failure is for who came last, where more wait than are
// being solved for.
func (f *flight) land(t Token, err error, s *Solve) (served, off bool) {
	p := f.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Spent = f.spent
	l := p.line(f.key)
	l.flights = slices.DeleteFunc(l.flights, func(o *flight) bool { return o == f })
	if f.off {
		return false, true
	}
	if err == nil {
		source := Solved
		if t.Prefetched {
			source = Prefetched
		}
		return l.serve(t, source), false
	}
	l.rest = time.Now().Add(restTime)
	for len(l.waiting) > l.live() {
		last := len(l.waiting) - 1
		l.waiting[last].answer <- answer{err: err}
		l.waiting = l.waiting[:last]
	}
	return false, false
}

// open is the solver's [Opener]: first the budget, since there is no use in
// waiting for a thread that may not be used, then the thread.
func (f *flight) open(ctx context.Context) (Slot, error) {
	p := f.pool
	spent, err := p.spend(ctx, f.key.Site, f.ask.PerHour)
	if err != nil {
		return nil, err
	}
	t, err := p.threads.take(ctx, f.turn)
	if err == nil {
		p.mu.Lock()
		off := f.off
		f.spent, f.opened = spent, !off
		p.mu.Unlock()
		if off {
			p.threads.release(t)
			err = context.Canceled
		}
	}
	if err != nil {
		p.refund(context.WithoutCancel(ctx), f.key.Site)
		return nil, err
	}
	return &slot{f, t}, nil
}

// slot is a thread in a solver's hands.
type slot struct {
	f *flight
	t *thread
}

func (s *slot) Busy() { s.f.pool.threads.busy() }
func (s *slot) Done() { s.f.pool.threads.release(s.t) }
func (s *slot) Refused() {
	s.f.pool.threads.release(s.t)
	s.f.pool.refund(context.WithoutCancel(s.f.pool.ctx), s.f.key.Site)
}
func (s *slot) Hold(until time.Time) { s.f.pool.threads.hold(s.t, until) }

// restTime is how long the stock of a key is not refilled after a solve failed.
const restTime = time.Minute

// isOutage tells a store that is away from one that answers.
func isOutage(err error) bool {
	var over *BudgetError
	switch {
	case err == nil, errors.Is(err, ErrEmpty), errors.Is(err, ErrSpent), errors.Is(err, ErrNoList), errors.As(err, &over):
		return false
	}
	return true
}
