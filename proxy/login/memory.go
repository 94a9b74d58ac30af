package login

import (
	"context"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Memory is the Locks of one process. The zero Memory is ready.
type Memory struct {
	mu     sync.Mutex // guards what follows
	turns  map[Login]*turnRecord
	void   map[session.Key]int64
	fences int64
	shown  Verdicts
}

var _ Locks = (*Memory)(nil)

// turnRecord is what is known of a Login.
type turnRecord struct {
	holder       string // "" none
	fence        int64
	since, until time.Time // of the holder's turn

	answer *Answer
	kept   time.Time // the end of answer

	failures int
	hindered int
	why      string
	cause    Cause
	rest     time.Time // no turn before
	won      []success
}

// success is a login's, and the time until which it counts.
type success struct{ at, until time.Time }

// maxRecords bounds what is remembered: clients choose what they log in with.
const maxRecords = 10_000

// Take is of [Locks]. It returns no error.
func (m *Memory) Take(_ context.Context, a Ask) (Grant, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := time.Now()
	t := m.turn(a.Login, now)
	switch {
	case !a.Force && t.answer != nil && now.Before(t.kept) && t.answer.Version > m.void[a.Key]:
		return Grant{State: Answered, Answer: t.answer}, nil
	case t.holder != "" && now.Before(t.until) && (a.Overdue == 0 || now.Sub(t.since) < a.Overdue):
		return Grant{State: Busy}, nil
	case !a.Force && now.Before(t.rest):
		return Grant{State: Resting, Failures: t.failures, Until: t.rest, Why: t.why, Cause: t.cause}, nil
	}
	m.fences++
	t.holder, t.fence, t.since, t.until = a.Holder, m.fences, now, now.Add(a.Life)
	g := Grant{State: Granted, Fence: t.fence, Failures: t.failures, Hindered: t.hindered}
	for _, w := range t.won {
		if now.Before(w.until) {
			g.Won = append(g.Won, w.at)
		}
	}
	return g, nil
}

// turn returns the record of l, and forgets those that no longer say anything.
func (m *Memory) turn(l Login, now time.Time) *turnRecord {
	t := m.turns[l]
	if t != nil {
		return t
	}
	if m.turns == nil {
		m.turns, m.void = map[Login]*turnRecord{}, map[session.Key]int64{}
	}
	if len(m.turns) >= maxRecords {
		for other, t := range m.turns {
			idle := !now.Before(t.until) && !now.Before(t.kept) && !now.Before(t.rest) && (len(t.won) == 0 || !now.Before(t.won[len(t.won)-1].until))
			if idle || len(m.turns) >= 2*maxRecords {
				delete(m.turns, other)
			}
		}
	}
	t = new(turnRecord)
	m.turns[l] = t
	return t
}

// Keep is of [Locks]. It returns no error.
func (m *Memory) Keep(_ context.Context, h Hold, life time.Duration) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.turns[h.Login]
	if t == nil || t.holder != h.Holder || t.fence != h.Fence {
		return false, nil
	}
	t.until = time.Now().Add(life)
	return true, nil
}

// End is of [Locks]. It returns no error.
func (m *Memory) End(_ context.Context, h Hold, r Result) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.turns[h.Login]
	if t == nil || t.holder != h.Holder || t.fence != h.Fence {
		return nil
	}
	now := time.Now()
	t.holder, t.until = "", time.Time{}
	if r.Answer != nil {
		t.answer, t.kept, t.failures, t.hindered, t.why, t.rest = r.Answer, now.Add(r.Keep), 0, 0, "", time.Time{}
		if r.Count > 0 {
			t.won = append(t.won, success{now, now.Add(r.Count)})
			t.won = t.won[max(0, len(t.won)-MaxWon):]
		}
		return nil
	}
	t.answer = nil
	switch r.Cause {
	case Refused:
		t.failures++
	case Hindered:
		t.hindered++
	}
	t.why, t.cause, t.rest = r.Why, r.Cause, now.Add(r.Rest)
	return nil
}

// Void is of [Locks]. It returns no error.
func (m *Memory) Void(_ context.Context, key session.Key, version int64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.void == nil {
		m.turns, m.void = map[Login]*turnRecord{}, map[session.Key]int64{}
	}
	if len(m.void) >= maxRecords {
		clear(m.void)
		for _, t := range m.turns {
			t.answer = nil // it may have been void
		}
	}
	m.void[key] = max(m.void[key], version)
	return nil
}

// Note is of [Locks]. It returns no error.
func (m *Memory) Note(_ context.Context, key session.Key, s Shown) error {
	m.shown.keep(key, s)
	return nil
}

// Status is of [Locks]. It returns no error.
func (m *Memory) Status(_ context.Context, of Login) (Status, error) {
	status := Status{Shown: m.shown.get(of.Key)}
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.turns[of]; t != nil && time.Now().Before(t.rest) {
		status.Failed = &RestError{t.failures, t.rest, t.why, t.cause}
	}
	return status, nil
}
