package upstream

import (
	"context"
	"errors"
	"time"
)

const (
	// askTime bounds one call of the ledger.
	askTime = time.Second
	// askEvery is how often a process asks again for those that wait: all of
	// them in one call. What it gives back itself it does not wait for.
	askEvery = 100 * time.Millisecond
	// maxAsks bounds one call. Those behind stand in the queue later.
	maxAsks = 64
)

// seekLeases asks the ledger for those that wait, until ctx ends.
func (p *Pool) seekLeases(ctx context.Context) {
	select {
	case <-p.declared: // before, it would answer that the pool is empty
	case <-ctx.Done():
		return
	}
	again := time.NewTimer(askEvery)
	defer again.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-p.seek:
		case <-again.C:
		}
		owners, asks, left := p.asks()
		if len(left) > 0 {
			c, cancel := context.WithTimeout(ctx, askTime)
			if err := p.ledger.Leave(c, p.name, left); err != nil {
				p.log.Debug("leave the queue for a lease", "err", err) // its place is lost by itself
			}
			cancel()
		}
		if len(asks) > 0 {
			c, cancel := context.WithTimeout(ctx, askTime)
			at := now()
			answers, err := p.ledger.Acquire(c, p.name, asks)
			cancel()
			p.answered(at, owners, answers, err)
			again.Reset(askEvery)
		}
	}
}

// asks returns the owners that are waited for, first come first, and an ask for
// each.
func (p *Pool) asks() (owners []Owner, asks []Ask, left []string) {
	strict := p.conf.Load().Strict
	p.mu.Lock()
	defer p.mu.Unlock()
	left, p.left = p.left, nil
	for w := range p.queue.all() {
		owners = append(owners, w.owner)
		asks = append(asks, Ask{Owner: w.owner.String(), Token: p.token(), Not: p.lastOf(w.owner), Strict: strict})
		if len(asks) == maxAsks {
			break
		}
	}
	return owners, asks, left
}

// lastOf returns the token of the owner's newest lease that it has no use for.
// The ledger may not know of that yet.
func (p *Pool) lastOf(o Owner) (token string) {
	since := time.Duration(-1)
	for t, l := range p.held {
		if l.owner == o && l.since > since && (l.retired.Load() || l.uses.Load() < 0) {
			token, since = t, l.since
		}
	}
	if token != "" {
		return token
	}
	b := p.predecessor()
	if b == nil {
		return ""
	}
	defer b.mu.Unlock()
	return b.lastOf(o)
}

// answered hands out what the ledger gave, and tells the others why not. at is
// when it was asked: a lease can't have begun before.
func (p *Pool) answered(at time.Duration, owners []Owner, answers []Answer, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expireOverdue() // they may be among what was given
	asked := map[*waiter]bool{}
	for i, owner := range owners {
		w := p.queue.of(owner) // nil: they have gone meanwhile
		asked[w] = true
		switch {
		case err != nil:
			w.tell("", 0, err)
			continue
		case answers[i].Token == "":
			w.tell(answers[i].Why, answers[i].After, nil)
			continue
		}
		l, err := p.install(at, owner, answers[i])
		switch {
		case err != nil:
			w.tell("", 0, err)
		case p.owned[owner] != l && w == nil:
			l.retired.Store(true)
			p.wake()
		default:
			p.owned[owner] = l
			p.queue.serve(w)
		}
	}
	behind := Answer{Why: Full} // there were too many others for one call
	if n := len(answers); n > 0 && answers[n-1].Token == "" {
		behind = answers[n-1]
	}
	if was := p.settling; err == nil {
		if p.settling = behind.Why == Settling; p.settling && !was {
			p.log.Warn("no new leases for a while: the store is new or was away, and may not know all that are held", "for", behind.After)
		}
	}
	for w := range p.queue.all() {
		if !asked[w] {
			w.tell(behind.Why, behind.After, err)
		}
	}
}

// errSilent says that the ledger has not answered in all the time of a wait.
var errSilent = errors.New("the ledger has not answered yet")

// install makes a lease of what the ledger gave. The caller holds p.mu.
func (p *Pool) install(at time.Duration, owner Owner, a Answer) (*Lease, error) {
	deadline := int64(at + p.ledger.LeaseTime() - p.margin())
	if l := p.held[a.Token]; l != nil {
		if l.retired.Load() || l.uses.Load() < 0 {
			return nil, errReturned
		}
		l.deadline.Store(deadline)
		return l, nil
	}
	if p.gaveBack(a.Token) {
		return nil, errReturned
	}
	if p.closed {
		p.returned[a.Token] = &returned{Return: Return{Token: a.Token}, at: at}
		return nil, ErrClosed
	}
	u, err := Parse(a.URL)
	if err != nil {
		return nil, err
	}
	x := p.exits[u]
	if x == nil {
		x = newExit(newDialer(u, p.shared.Dial, p.conf.Load().Roots, p.shared.Limits))
		p.exits[u] = x
	}
	x.leases++
	x.failures.Store(int32(a.Failures))
	x.rest(a.Rests)
	l := &Lease{pool: p, exit: x, owner: owner, token: a.Token, since: at}
	l.deadline.Store(deadline)
	l.used.Store(int64(now()))
	p.held[a.Token] = l
	return l, nil
}

// margin is how much earlier than the ledger a process takes a lease for
// expired: clocks may run apart.
func (p *Pool) margin() time.Duration { return p.ledger.LeaseTime() / 10 }
