package captcha

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Memory is the store of a proxy that is alone. It is gone with its process,
// and so are the threads that it knew of.
type Memory struct {
	mu      sync.Mutex
	tokens  map[Key]*shelf
	budgets map[string]*budget
	leases  map[string]time.Time // thread → end
	queue   []place
	proxies map[string]time.Time
}

// shelf is what is known of one key.
type shelf struct {
	ready  []Token
	spent  map[string]time.Time // until when it is remembered
	needed time.Time
	filler string // who refills
	until  time.Time
}

type budget struct {
	spent int
	ends  time.Time
}

// place is one in the queue for threads.
type place struct {
	id   string
	ends time.Time
}

// NewMemory returns an empty store.
func NewMemory() *Memory {
	return &Memory{tokens: map[Key]*shelf{}, budgets: map[string]*budget{}, leases: map[string]time.Time{}, proxies: map[string]time.Time{}}
}

var _ Store = (*Memory)(nil)

// at returns what is known of a key, without what is too old. It is called
// with mu held.
func (m *Memory) at(k Key, now time.Time) *shelf {
	s := m.tokens[k]
	if s == nil {
		s = &shelf{spent: map[string]time.Time{}}
		m.tokens[k] = s
	}
	s.ready = slices.DeleteFunc(s.ready, func(t Token) bool { return !now.Before(t.Expires) })
	maps.DeleteFunc(s.spent, func(_ string, until time.Time) bool { return !now.Before(until) })
	return s
}

// Pop is described in [Store].
func (m *Memory) Pop(_ context.Context, k Key) (Token, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := m.at(k, now)
	s.needed = now.Add(NeedTime)
	if len(s.ready) == 0 {
		return Token{}, ErrEmpty
	}
	t := s.ready[0]
	s.ready = s.ready[1:]
	s.spent[t.Value] = now.Add(SpentTime)
	return t, nil
}

// Push is described in [Store].
func (m *Memory) Push(_ context.Context, k Key, t Token) error {
	if err := CheckToken(t.Value); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(k, time.Now())
	if _, spent := s.spent[t.Value]; spent {
		return ErrSpent
	}
	s.ready = append(slices.DeleteFunc(s.ready, func(r Token) bool { return r.Value == t.Value }), t)
	s.ready = s.ready[max(0, len(s.ready)-MaxReady):]
	return nil
}

// Return is described in [Store].
func (m *Memory) Return(_ context.Context, k Key, t Token) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(k, time.Now())
	delete(s.spent, t.Value)
	s.ready = slices.Insert(s.ready, 0, t)
	return nil
}

// Look is described in [Store].
func (m *Memory) Look(_ context.Context, k Key) (State, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := m.at(k, now)
	state := State{Key: k, Ready: len(s.ready), Needed: now.Before(s.needed)}
	for _, t := range s.ready {
		if state.Ends.IsZero() || t.Expires.Before(state.Ends) {
			state.Ends = t.Expires
		}
	}
	if len(s.ready) == 0 && len(s.spent) == 0 && !state.Needed && !now.Before(s.until) {
		delete(m.tokens, k) // nothing is known of it
	}
	return state, nil
}

// Flush is described in [Store].
func (m *Memory) Flush(_ context.Context, k Key) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := m.at(k, time.Now())
	n := len(s.ready)
	s.ready = nil
	return n, nil
}

// Keys is described in [Store].
func (m *Memory) Keys(_ context.Context, site string) ([]Key, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var keys []Key
	now := time.Now()
	for k := range m.tokens {
		if k.Site == site && len(m.at(k, now).ready) > 0 {
			keys = append(keys, k)
		}
	}
	return keys, nil
}

// Refill is described in [Store].
func (m *Memory) Refill(_ context.Context, k Key, proxy string, d time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	s := m.at(k, now)
	if s.filler != proxy && now.Before(s.until) {
		return false, nil
	}
	s.filler, s.until = proxy, now.Add(d)
	return true, nil
}

// Spend is described in [Store].
func (m *Memory) Spend(_ context.Context, site string, perHour int) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	b := m.budgets[site]
	if b == nil || !now.Before(b.ends) {
		b = &budget{ends: now.Add(time.Hour)}
		m.budgets[site] = b
	}
	if b.spent >= perHour {
		return b.spent, &BudgetError{site, perHour, b.ends.Sub(now)}
	}
	b.spent++
	return b.spent, nil
}

// Refund is described in [Store].
func (m *Memory) Refund(_ context.Context, site string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.budgets[site]; b != nil && b.spent > 0 && time.Now().Before(b.ends) {
		b.spent--
	}
	return nil
}

// Spent is described in [Store].
func (m *Memory) Spent(_ context.Context, site string) (int, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if b := m.budgets[site]; b != nil && time.Now().Before(b.ends) {
		return b.spent, nil
	}
	return 0, nil
}

// Threads is described in [Store].
func (m *Memory) Threads(_ context.Context, c Claim) (Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	ended := func(_ string, ends time.Time) bool { return !now.Before(ends) }
	maps.DeleteFunc(m.leases, ended)
	maps.DeleteFunc(m.proxies, ended)
	m.proxies[c.Proxy] = now.Add(time.Minute)
	for _, id := range c.Open {
		m.leases[id] = now.Add(LeaseTime)
	}
	for _, id := range c.Over {
		delete(m.leases, id)
	}
	m.queue = slices.DeleteFunc(m.queue, func(p place) bool { return ended("", p.ends) || slices.Contains(c.Over, p.id) })
	g := Grant{Proxies: len(m.proxies)}
	for _, id := range c.Waiting {
		if _, ok := m.leases[id]; ok { // the answer that said so was lost
			g.IDs = append(g.IDs, id)
			continue
		}
		i := slices.IndexFunc(m.queue, func(p place) bool { return p.id == id })
		if i < 0 {
			i = len(m.queue)
			m.queue = append(m.queue, place{id: id})
		}
		m.queue[i].ends = now.Add(QueueTime)
	}
	room := min(max(c.Limit-len(m.leases), 0), len(m.queue))
	for _, p := range slices.Clone(m.queue[:room]) { // the others in front come for theirs
		if slices.Contains(c.Waiting, p.id) {
			g.IDs = append(g.IDs, p.id)
			m.leases[p.id] = now.Add(LeaseTime)
		}
	}
	m.queue = slices.DeleteFunc(m.queue, func(p place) bool { return slices.Contains(g.IDs, p.id) })
	g.Open = len(m.leases)
	return g, nil
}
