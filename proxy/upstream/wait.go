package upstream

import (
	"context"
	"time"
)

// Patience is what one request has waited for leases: its zero value, not yet.
// What the pool's configuration lets a request wait is for all its leases.
type Patience struct{ spent time.Duration }

// wait stands in the queue.
func (p *Pool) wait(ctx context.Context, o Owner, request *Patience) (*Lease, error) {
	limit := time.NewTimer(p.conf.Load().Wait - request.spent)
	defer limit.Stop()
	began := now()
	defer func() {
		took := now() - began
		request.spent += took
		p.shared.Waited(p.name, took)
	}()
	for {
		p.mu.Lock()
		if p.closed {
			p.mu.Unlock()
			return nil, ErrClosed
		}
		w := p.queue.join(o)
		p.mu.Unlock()
		notify(p.seek)
		select {
		case <-w.ready:
			if l, err := p.take(o); l != nil || err != nil {
				return l, err
			}
			continue // it was lost again already; the limit stands
		case <-ctx.Done():
			p.leave(w)
			return nil, context.Cause(ctx)
		case <-limit.C:
			p.hear(ctx, w)
		}
		p.leave(w)
		if l, err := p.take(o); l != nil || err != nil {
			return l, err // in the same moment
		}
		return nil, p.exhausted(w)
	}
}

// hear has a request whose time is over hear the ledger's answer yet: however
// short it may wait, it gets what is free.
func (p *Pool) hear(ctx context.Context, w *waiter) {
	limit := time.NewTimer(askTime)
	defer limit.Stop()
	select {
	case <-w.told:
	case <-w.ready:
	case <-limit.C:
	case <-ctx.Done():
	}
}

// leave takes a request out of the queue.
func (p *Pool) leave(w *waiter) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.queue.leave(w) {
		p.left = append(p.left, w.owner.String())
		notify(p.seek)
	}
}

// exhausted is the error of a request that waited in vain.
func (p *Pool) exhausted(w *waiter) error {
	p.mu.RLock()
	defer p.mu.RUnlock()
	switch {
	case w.err != nil:
		return &Unavailable{w.err}
	case w.why == "":
		return &Unavailable{errSilent}
	}
	return &Exhausted{Pool: p.name, Why: w.why, After: w.after}
}
