package upstream

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// checkTime bounds one check.
const checkTime = 8 * time.Second

// checksAtOnce bounds the checks of one process and pool.
const checksAtOnce = 8

// Checked is what a check found out.
type Checked struct {
	InUse  bool // it was not checked: those who use it know more
	Took   time.Duration
	Status int   // of the answer to the pool's check; 0: it has none, and a connection was opened
	Err    error // of type *[Error] where the upstream did not do its part
}

// ok says whether the upstream did what it was asked for.
func (c Checked) ok() bool { return !c.InUse && c.Err == nil }

// certain says whether a failure is the upstream's for certain.
func (c Checked) certain() bool {
	var f *Error
	return errors.As(c.Err, &f) && f.certain()
}

// Check tries an upstream that has room: by the pool's check, or by opening a
// connection where it has none. It holds a lease meanwhile. What it finds counts
// as if it had happened to a request; that an upstream is banned by a site it
// can't tell. Its error is that of the ledger.
func (p *Pool) Check(ctx context.Context, s Status) (Checked, error) {
	c, x, err := p.try(ctx, s)
	if err != nil || c.InUse {
		return c, err
	}
	if c.ok() || c.certain() {
		p.judge(ctx, s, x, c)
	}
	return c, nil
}

// try makes the check of one upstream.
func (p *Pool) try(ctx context.Context, s Status) (Checked, *Exit, error) {
	ask, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	at, token := now(), p.token()
	owner := Owner{"check", token, ""}
	answers, err := p.ledger.Acquire(ask, p.name, []Ask{{Owner: owner.String(), Token: token, Only: s.URL}})
	if err != nil {
		return Checked{}, nil, err
	}
	if answers[0].Token == "" {
		return Checked{InUse: true}, nil, nil
	}
	p.mu.Lock()
	l, err := p.install(at, owner, answers[0])
	if err != nil {
		p.mu.Unlock()
		return Checked{}, nil, err
	}
	l.uses.Add(1)
	l.retired.Store(true)
	p.mu.Unlock()
	defer l.Done()

	ctx, stop := context.WithTimeout(ctx, checkTime)
	defer stop()
	var c Checked
	began := now()
	if url := p.conf.Load().CheckURL; url != "" {
		c.Status, c.Err = p.shared.Fetch(ctx, l.exit, url)
		if c.Err == nil && c.Status >= 400 {
			c.Err = fmt.Errorf("the check's URL answers %d", c.Status)
		}
	} else {
		conn, err := l.exit.Open(ctx)
		if c.Err = err; err == nil {
			conn.Close()
		}
	}
	c.Took = now() - began
	return c, l.exit, nil
}

// judge has an upstream rest, or ends its rest, by what a check found.
func (p *Pool) judge(ctx context.Context, s Status, x *Exit, c Checked) {
	switch {
	case !c.ok():
		p.shared.Failed(p.name, Check)
		p.rest(ctx, x, Rest{Reason: Check, Base: restBase, Limit: restLimit}, c.Err)
	case s.Failures > 0 && s.Reason != Banned:
		p.recover(ctx, x.Upstream())
		x.rest(0)
	}
}

// takeTurn checks the pool's upstreams, where it is this process's turn.
func (p *Pool) takeTurn(ctx context.Context) {
	c := p.conf.Load()
	if c.CheckURL == "" || !p.checking.CompareAndSwap(false, true) {
		return
	}
	ask, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var list []Status
	ours, err := p.ledger.Turn(ask, p.name, "check", c.Every)
	if err == nil && ours {
		list, err = p.List(ask)
	}
	if err != nil {
		p.log.Warn("take a turn at the checks", "err", err)
	}
	p.inBackground(func(ctx context.Context) {
		defer p.checking.Store(false)
		p.checkAll(ctx, list)
	})
}

// checkAll makes a round of checks. Where all fail, the check is at fault, and
// not the upstreams that reached it.
func (p *Pool) checkAll(ctx context.Context, list []Status) {
	results := make([]Checked, len(list))
	exits := make([]*Exit, len(list))
	var wg sync.WaitGroup
	turn := make(chan struct{}, checksAtOnce)
	for i, s := range list {
		turn <- struct{}{}
		wg.Go(func() {
			defer func() { <-turn }()
			var err error
			if results[i], exits[i], err = p.try(ctx, s); err != nil {
				results[i] = Checked{InUse: true}
			}
		})
	}
	wg.Wait()
	anyGood := false
	for _, c := range results {
		anyGood = anyGood || c.ok()
	}
	for i, c := range results {
		switch {
		case c.InUse || ctx.Err() != nil:
		case c.ok() || c.certain() || anyGood:
			p.judge(ctx, list[i], exits[i], c)
		default:
			p.log.Warn("the check fails through all upstreams: its URL may be at fault", "url", p.conf.Load().CheckURL, "err", c.Err)
			return
		}
	}
}
