package upstream

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errReturned says that the ledger gave a lease that this process had just
// given back. Its owner asks again.
var errReturned = errors.New("the lease has been given back")

// returned is a lease that was given back.
type returned struct {
	Return
	at   time.Duration
	told bool // the ledger knows
}

// tend keeps the leases alive, and gives back those that nobody uses, until ctx
// ends.
func (p *Pool) tend(ctx context.Context) {
	tick := time.NewTicker(p.ledger.LeaseTime() / 30)
	defer tick.Stop()
	declared, first := false, sync.OnceFunc(func() { close(p.declared) })
	for {
		if !declared {
			if declared = p.declare(ctx); declared {
				first()
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-p.redeclare:
			declared = false
		case <-p.sweep:
		case <-tick.C:
		}
		p.review()
		p.giveBack(ctx)
		if p.hurry.Swap(false) || now()-p.renewed >= p.ledger.LeaseTime()/3 {
			p.renew(ctx)
			p.takeTurn(ctx)
		}
	}
}

// declare tells the ledger what the configuration says.
func (p *Pool) declare(ctx context.Context) bool {
	c := p.conf.Load()
	d := Declaration{Capacity: c.Capacity, Discover: c.Discover}
	for _, u := range c.Proxies {
		d.URLs = append(d.URLs, u.URL())
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	if err := p.ledger.Declare(ctx, p.name, d); err != nil {
		p.log.Warn("declare the pool: it is tried again", "err", err)
		return false
	}
	notify(p.seek)
	return true
}

// keepDeadlines ends leases that could not be renewed, until ctx ends. It waits
// for no ledger: another owner may be given the upstream soon.
func (p *Pool) keepDeadlines(ctx context.Context) {
	tick := time.NewTicker(p.ledger.LeaseTime() / 50)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		p.expireOverdue()
		p.mu.Unlock()
	}
}

// expireOverdue ends leases whose deadline has passed. The caller holds p.mu.
func (p *Pool) expireOverdue() {
	at := int64(now())
	for _, l := range p.held {
		if at >= l.deadline.Load() {
			p.log.Warn("a lease has expired: the ledger could not be asked in time", "upstream", l.exit.Upstream(), "owner", l.owner.String())
			p.expire(l)
		}
	}
}

// review ends leases that are over: idle, or retired and no longer in use, as
// old ones are.
func (p *Pool) review() {
	c, at := p.conf.Load(), now()
	p.mu.Lock()
	defer p.mu.Unlock()
	for token, l := range p.held {
		if c.MaxAge > 0 && at-l.since >= c.MaxAge && !l.retired.Load() {
			l.retired.Store(true)
			l.aged.Store(true)
		}
		idle := at-time.Duration(l.used.Load()) >= c.Idle
		if !l.retired.Load() && !idle || !l.end() {
			continue
		}
		p.drop(l)
		p.returned[token] = &returned{Return: Return{Token: token, Forget: l.aged.Load()}, at: at}
	}
}

// expire ends a lease in the middle of whatever is under way on it. One that is
// in use is not given back: the upstream may yet pass on what it was sent. It
// runs out in the ledger, unless its owner asks for it again. The caller holds
// p.mu.
func (p *Pool) expire(l *Lease) {
	l.retired.Store(true)
	if l.end() {
		p.returned[l.token] = &returned{Return: Return{Token: l.token}, at: now()}
	} else {
		l.exit.cut() // others on the same upstream would expire now, too
	}
	p.drop(l)
}

// drop forgets a lease, and its exit with the last one on it. The caller holds
// p.mu.
func (p *Pool) drop(l *Lease) {
	delete(p.held, l.token)
	if p.owned[l.owner] == l {
		delete(p.owned, l.owner)
	}
	if p.drained != nil && len(p.held) == 0 {
		close(p.drained)
	}
	x := l.exit
	if x.leases--; x.leases == 0 {
		delete(p.exits, x.Upstream())
		x.close() // before anybody else is given the upstream
		p.shared.Unused(x)
	}
}

// giveBack tells the ledger of leases that are over. It forgets them when no
// answer can be under way that still has one.
func (p *Pool) giveBack(ctx context.Context) {
	var back []Return
	p.mu.Lock()
	for token, r := range p.returned {
		switch {
		case !r.told:
			back = append(back, r.Return)
		case now()-r.at > 2*askTime:
			delete(p.returned, token)
		}
	}
	p.mu.Unlock()
	if len(back) == 0 {
		return
	}
	c, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	err := p.ledger.Release(c, p.name, back)
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, b := range back {
		r := p.returned[b.Token]
		switch {
		case err == nil:
			r.told, r.at = true, now()
		case now()-r.at > p.ledger.LeaseTime():
			r.told = true // it has expired
		}
	}
	if err == nil {
		notify(p.seek) // for those who wait
	}
}

// renew renews all leases in one call.
func (p *Pool) renew(ctx context.Context) {
	var holds []Hold
	var leases []*Lease
	p.mu.Lock()
	// A ledger that settles would take them back, though others may have had
	// their places since.
	p.expireOverdue()
	for token, l := range p.held {
		holds = append(holds, Hold{Token: token, Owner: l.owner.String(), URL: l.exit.Upstream().URL()})
		leases = append(leases, l)
	}
	p.mu.Unlock()
	c, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	at := now()
	standings, err := p.ledger.Renew(c, p.name, holds)
	if err != nil {
		p.log.Warn("renew leases: it is tried again until they expire", "leases", len(holds), "err", err)
		return
	}
	p.renewed = at
	strict := p.conf.Load().Strict
	for i, l := range leases {
		s := standings[i]
		if s.State == Gone {
			p.mu.Lock()
			if p.held[l.token] == l {
				p.log.Warn("the ledger knows a lease no longer", "upstream", l.exit.Upstream(), "owner", l.owner.String())
				p.expire(l)
			}
			p.mu.Unlock()
			continue
		}
		l.deadline.Store(int64(at + p.ledger.LeaseTime() - p.margin()))
		l.exit.rest(s.Rests)
		switch {
		case s.State == Removed && strict:
			l.strayed.Store(true)
		case s.State == Removed, s.State == Ended:
			p.retire(l)
		default:
			l.strayed.Store(false)
		}
	}
}

// expireAll ends what is left when the pool closes.
func (p *Pool) expireAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.held {
		p.expire(l)
	}
}

// renewNow asks the ledger at once how the leases stand.
func (p *Pool) renewNow() {
	p.hurry.Store(true)
	p.wake()
}
