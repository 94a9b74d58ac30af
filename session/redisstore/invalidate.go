package redisstore

import (
	"context"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// tracker is [tracking.Tracker], or a test's.
type tracker interface {
	Coherent(key string) bool
	Close()
}

// rereaders is how many snapshots are read anew at once though nobody asked.
const rereaders = 4

// invalidate takes what the tracker tells: these keys changed, or, where they
// are nil, anything may have.
func (s *Store) invalidate(keys []string) {
	<-s.started
	if keys == nil {
		s.invalidateAll()
		return
	}
	for _, name := range keys {
		if strings.HasSuffix(name, "}:workers") {
			continue // it says nothing that a jar does not
		}
		if key, ok := s.keyOf(name); ok {
			if e := s.forget(key); e != nil {
				s.reread(e)
			}
		}
	}
}

// invalidateAll makes all snapshots old. Where the master was heard of all the
// time it was emptied (FLUSHALL), and what it held may not be written back when
// it restarts some day: so memory learns that it is gone. Else the master begins
// to be heard, and armed will say whether it is another one.
func (s *Store) invalidateAll() {
	s.epoch.Add(1)
	now := s.clock.now()
	for _, e := range s.cache.all() {
		coherent := s.tracker.Coherent(e.public)
		e.mu.Lock()
		known := e.last != nil && e.last.holds() && e.last.record.Matters(now)
		if known && !coherent {
			s.hold(e)
		}
		e.mu.Unlock()
		if known && coherent {
			s.reread(e)
		}
	}
}

// reread has e read anew, so that what a worker wrote is taken in though no
// request comes.
func (s *Store) reread(e *entry) {
	e.mu.Lock()
	again := e.waiting
	e.waiting = true
	e.mu.Unlock()
	if again {
		return
	}
	s.mu.Lock()
	s.rereads = append(s.rereads, e)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default: // enough are awake
	}
}

// keepRereading reads what was asked for until the store is closed.
func (s *Store) keepRereading(ctx context.Context) {
	for {
		s.mu.Lock()
		var e *entry
		if len(s.rereads) > 0 {
			e = s.rereads[0]
			s.rereads[0] = nil
			s.rereads = s.rereads[1:]
		}
		s.mu.Unlock()
		if e == nil {
			select {
			case <-s.wake:
				continue
			case <-ctx.Done():
				return
			}
		}
		e.mu.Lock()
		e.waiting = false
		e.mu.Unlock()
		// What fails is read when it is asked for.
		_, _ = s.look(ctx, e)
	}
}

// forget makes a snapshot old: reads that are under way do not bring it back.
func (s *Store) forget(key session.Key) *entry {
	e := s.cache.get(key)
	if e == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.gen++
	e.flight = nil
	e.valid.Store(nil)
	return e
}
