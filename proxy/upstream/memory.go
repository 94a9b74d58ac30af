package upstream

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"
)

// Memory is a Ledger for one process. What it knows ends with it.
type Memory struct {
	leaseTime time.Duration

	mu    sync.Mutex // guards pools
	pools map[string]*memoryPool
}

// NewMemory returns an empty ledger.
func NewMemory(leaseTime time.Duration) *Memory {
	return &Memory{leaseTime: leaseTime, pools: map[string]*memoryPool{}}
}

type memoryPool struct {
	capacity int
	members  map[string]*member // by URL
	removed  map[string]bool    // by Remove
	leases   map[string]*memoryLease
	owners   map[string]string // owner → token
	last     map[string]string // owner → URL
	queue    []queued
	turns    map[string]time.Time // job → when it is due
	grants   int64
}

type member struct {
	source   Source
	gone     bool // it has left, and is kept for its leases
	failures int
	reason   Reason
	rests    time.Time // until then
	load     int
	used     int64 // the number of its last grant
}

type memoryLease struct {
	owner, url string
	since, end time.Time
	ended      bool // by End
}

type queued struct {
	owner string
	seen  time.Time
}

// maxLast bounds the memory of who had what.
const maxLast = 1 << 14

// pool returns a pool without what has expired. The caller holds m.mu.
func (m *Memory) pool(name string, now time.Time) *memoryPool {
	p := m.pools[name]
	if p == nil {
		p = &memoryPool{
			capacity: 1, members: map[string]*member{}, removed: map[string]bool{}, leases: map[string]*memoryLease{},
			owners: map[string]string{}, last: map[string]string{}, turns: map[string]time.Time{},
		}
		m.pools[name] = p
	}
	for token, l := range p.leases {
		if !now.Before(l.end) {
			p.drop(token, l)
		}
	}
	p.queue = slices.DeleteFunc(p.queue, func(q queued) bool { return now.Sub(q.seen) > QueueTime })
	return p
}

func (p *memoryPool) drop(token string, l *memoryLease) {
	delete(p.leases, token)
	if p.owners[l.owner] == token {
		delete(p.owners, l.owner)
	}
	if mem := p.members[l.url]; mem != nil {
		if mem.load--; mem.gone && mem.load == 0 {
			delete(p.members, l.url)
		}
	}
}

// LeaseTime is part of [Ledger].
func (m *Memory) LeaseTime() time.Duration { return m.leaseTime }

// Declare is part of [Ledger].
func (m *Memory) Declare(_ context.Context, pool string, d Declaration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(pool, time.Now())
	p.capacity = d.Capacity
	for url, mem := range p.members {
		if mem.source == Configured && !slices.Contains(d.URLs, url) {
			p.leave(url, mem)
		}
	}
	for _, url := range d.URLs {
		if !p.removed[url] {
			p.enter(url, Configured)
		}
	}
	return nil
}

func (p *memoryPool) enter(url string, from Source) {
	mem := p.members[url]
	if mem == nil {
		mem = new(member)
		p.members[url] = mem
	}
	mem.gone = false
	if mem.source != Configured {
		mem.source = from
	}
}

func (p *memoryPool) leave(url string, mem *member) {
	mem.gone, mem.source = true, ""
	if mem.load == 0 {
		delete(p.members, url)
	}
}

// Acquire is part of [Ledger].
func (m *Memory) Acquire(_ context.Context, pool string, asks []Ask) ([]Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.pool(pool, now)
	answers := make([]Answer, len(asks))
	for i, a := range asks {
		answers[i] = p.acquire(a, now, m.leaseTime)
	}
	return answers, nil
}

func (p *memoryPool) acquire(a Ask, now time.Time, leaseTime time.Duration) Answer {
	if token, ok := p.owners[a.Owner]; ok && a.Only == "" {
		l := p.leases[token]
		mem := p.members[l.url]
		lost := mem.gone || now.Before(mem.rests)
		if token != a.Not && !l.ended && (a.Strict || !lost) {
			l.end = now.Add(leaseTime)
			p.unqueue(a.Owner)
			return Answer{Token: token, URL: l.url, Rests: max(0, mem.rests.Sub(now)), Failures: mem.failures}
		}
		delete(p.owners, a.Owner) // the lease ends by itself
	}
	url := a.Only
	if a.Only != "" {
		if mem := p.members[url]; mem == nil || mem.gone || mem.load >= p.capacity {
			return Answer{Why: Full}
		}
	} else {
		place := p.enqueue(a.Owner, now)
		free, why, after := p.free(now)
		if place >= free {
			return Answer{Why: why, After: after}
		}
		url = p.choose(p.last[a.Owner], now)
		p.unqueue(a.Owner)
	}
	p.grants++
	mem := p.members[url]
	mem.load++
	mem.used = p.grants
	p.leases[a.Token] = &memoryLease{owner: a.Owner, url: url, since: now, end: now.Add(leaseTime)}
	p.owners[a.Owner] = a.Token
	if a.Only == "" {
		if len(p.last) >= maxLast {
			clear(p.last)
		}
		p.last[a.Owner] = url
	}
	return Answer{Token: a.Token, URL: url, Rests: max(0, mem.rests.Sub(now)), Failures: mem.failures}
}

// enqueue returns how many stand before the owner.
func (p *memoryPool) enqueue(owner string, now time.Time) (place int) {
	for i := range p.queue {
		if p.queue[i].owner == owner {
			p.queue[i].seen = now
			return i
		}
	}
	p.queue = append(p.queue, queued{owner, now})
	return len(p.queue) - 1
}

func (p *memoryPool) unqueue(owner string) {
	p.queue = slices.DeleteFunc(p.queue, func(q queued) bool { return q.owner == owner })
}

// free counts the places that can be given, and says why there is none.
func (p *memoryPool) free(now time.Time) (free int, why Why, after time.Duration) {
	why = Empty
	for _, mem := range p.members {
		room := p.capacity - mem.load
		switch rests := mem.rests.Sub(now); {
		case mem.gone:
		case rests <= 0:
			free += max(0, room)
			why = Full
		case room > 0:
			if why == Empty {
				why = Resting
			}
			if after == 0 || rests < after {
				after = rests
			}
		}
	}
	return free, why, after
}

// choose returns the URL of an upstream with room: the preferred one if it has.
func (p *memoryPool) choose(preferred string, now time.Time) (best string) {
	for url, mem := range p.members {
		if mem.gone || now.Before(mem.rests) || mem.load >= p.capacity {
			continue
		}
		if url == preferred {
			return url
		}
		if b := p.members[best]; best == "" || cmp.Or(cmp.Compare(mem.load, b.load), cmp.Compare(mem.used, b.used), cmp.Compare(url, best)) < 0 {
			best = url
		}
	}
	return best
}

// Leave is part of [Ledger].
func (m *Memory) Leave(_ context.Context, pool string, owners []string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(pool, time.Now())
	for _, o := range owners {
		p.unqueue(o)
	}
	return nil
}

// Renew is part of [Ledger].
func (m *Memory) Renew(_ context.Context, pool string, held []Hold) ([]Standing, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	p := m.pool(pool, now)
	standings := make([]Standing, len(held))
	for i, h := range held {
		l := p.leases[h.Token]
		if l == nil {
			standings[i].State = Gone
			continue
		}
		l.end = now.Add(m.leaseTime)
		mem := p.members[l.url]
		standings[i].Rests = max(0, mem.rests.Sub(now))
		switch {
		case l.ended:
			standings[i].State = Ended
		case mem.gone:
			standings[i].State = Removed
		}
	}
	return standings, nil
}

// Release is part of [Ledger].
func (m *Memory) Release(_ context.Context, pool string, back []Return) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pool(pool, time.Now())
	for _, b := range back {
		if l := p.leases[b.Token]; l != nil {
			p.drop(b.Token, l)
			if b.Forget && p.last[l.owner] == l.url {
				delete(p.last, l.owner)
			}
		}
	}
	return nil
}
