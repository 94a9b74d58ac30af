package upstream

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Rest is part of [Ledger].
func (m *Memory) Rest(_ context.Context, pool, url string, r Rest) (time.Duration, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	mem := m.pool(pool, now).members[url]
	if mem == nil {
		return r.Base, nil // it has left
	}
	rests := mem.rests.Sub(now)
	if rests <= 0 {
		rests = Backoff(r, mem.failures)
		mem.failures++
	} else {
		rests = max(rests, r.Base)
	}
	mem.reason, mem.rests = r.Reason, now.Add(rests)
	return rests, nil
}

// Backoff is how long an upstream rests that has failed so many times before.
func Backoff(r Rest, failures int) time.Duration {
	d := r.Base
	for range failures {
		if d >= r.Limit {
			break
		}
		d *= 2
	}
	d = min(d, r.Limit)
	return d + rand.N(d/4+1) //nolint:gosec // it guards nothing
}

// Recover is part of [Ledger].
func (m *Memory) Recover(_ context.Context, pool, url string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if mem := m.pool(pool, time.Now()).members[url]; mem != nil {
		mem.failures, mem.reason, mem.rests = 0, "", time.Time{}
	}
	return nil
}

// Add is part of [Ledger].
func (m *Memory) Add(_ context.Context, pool, url string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(pool, time.Now())
	delete(p.removed, url)
	p.enter(url, Added)
	return nil
}

// Remove is part of [Ledger].
func (m *Memory) Remove(_ context.Context, pool, url string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(pool, time.Now())
	mem := p.members[url]
	if mem == nil || mem.gone {
		return false, nil
	}
	if mem.source == Configured {
		p.removed[url] = true
	}
	p.leave(url, mem)
	return true, nil
}

// End is part of [Ledger].
func (m *Memory) End(_ context.Context, pool, token string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(pool, time.Now())
	if l := p.leases[token]; l != nil {
		l.ended = true
		if p.last[l.owner] == l.url {
			delete(p.last, l.owner)
		}
	}
	return nil
}

// List is part of [Ledger].
func (m *Memory) List(_ context.Context, pool string) ([]Status, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.pool(pool, now)
	held := map[string][]Held{}
	for token, l := range p.leases {
		held[l.url] = append(held[l.url], Held{Token: token, Owner: l.owner, Since: l.since})
	}
	var list []Status
	for _, url := range slices.Sorted(maps.Keys(p.members)) {
		mem := p.members[url]
		if mem.gone {
			continue
		}
		slices.SortFunc(held[url], func(a, b Held) int { return strings.Compare(a.Owner, b.Owner) })
		list = append(list, Status{
			URL: url, Source: mem.source, Capacity: p.capacity, Failures: mem.failures, Reason: mem.reason,
			Rests: max(0, mem.rests.Sub(now)), Leases: held[url],
		})
	}
	return list, nil
}

// Turn is part of [Ledger].
func (m *Memory) Turn(_ context.Context, pool, job string, every time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.pool(pool, now)
	if now.Before(p.turns[job]) {
		return false, nil
	}
	p.turns[job] = now.Add(every)
	return true, nil
}
