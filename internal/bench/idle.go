//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// Go collects garbage when the heap has grown, so the resident set of an idle
// proxy says little of what its connections need. With a memory limit that it
// cannot meet, the runtime collects all the time (for up to half of its CPU
// time), shrinks stacks, and gives what is free back to the system: a few
// requests then leave the live memory alone. That holds for each Go program,
// with nothing built into it.
const collectAlways = "GOMEMLIMIT=1MiB"

// holdIdle measures what n idle connections add to the resident set of a fresh
// proxy, after garbage collection. Each has had one request.
func (b *bed) holdIdle(ctx context.Context, r row, name string, n int, calm time.Duration) (sample, error) {
	p, err := b.start(ctx, name, collectAlways)
	if err != nil {
		return sample{}, err
	}
	defer p.stop()
	if _, err := p.round(ctx, r, 200*time.Millisecond); err != nil { // leaf signed, pools filled
		return sample{}, err
	}
	before, err := p.settled(ctx, r, calm)
	if err != nil {
		return sample{}, err
	}
	held, err := p.open(r, n)
	defer func() {
		for _, c := range held {
			c.Close()
		}
	}()
	if err != nil {
		return sample{}, err
	}
	after, err := p.settled(ctx, r, calm)
	if err != nil {
		return sample{}, err
	}
	return sample{resident: after, idle: float64(after-before) / float64(n)}, nil
}

// open opens n connections and makes one request on each. It returns those that
// it could open also after an error.
func (p *proxy) open(r row, n int) (held []client, err error) {
	held = make([]client, 0, n)
	var mu sync.Mutex // guards held, err
	var wg sync.WaitGroup
	for i := range connections {
		wg.Go(func() {
			for range (n + i) / connections {
				c, e := dial(p, r, nil)
				mu.Lock()
				if e == nil {
					held = append(held, c)
				}
				err = errors.Join(err, e)
				mu.Unlock()
				if e != nil {
					return
				}
				if e = c.get(); e != nil {
					mu.Lock()
					err = errors.Join(err, e)
					mu.Unlock()
					return
				}
			}
		})
	}
	wg.Wait()
	return held, err
}

// settled makes requests that set off collections, until the resident set has
// changed by less than a hundredth for as long as calm, and returns it in KiB.
func (p *proxy) settled(ctx context.Context, r row, calm time.Duration) (int, error) {
	prod, err := dial(p, r, nil)
	if err != nil {
		return 0, err
	}
	defer prod.Close()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	reference, since := 0, time.Now()
	for start := time.Now(); time.Since(start) < 30*time.Second; {
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-tick.C:
		}
		// On a busy machine it took minutes to open the others.
		if err := prod.SetDeadline(time.Now().Add(patience)); err != nil {
			return 0, err
		}
		for range 10 {
			if err := prod.get(); err != nil {
				return 0, err
			}
		}
		used, err := p.usage()
		if err != nil {
			return 0, err
		}
		now := used.resident
		if max(now-reference, reference-now) > reference/100 {
			reference, since = now, time.Now()
		}
		if time.Since(since) > calm {
			return now, nil
		}
	}
	return 0, fmt.Errorf("resident set of %s has not settled in 30 s: %d KiB", p.name, reference)
}
