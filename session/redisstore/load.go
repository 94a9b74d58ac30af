package redisstore

import (
	"context"

	"github.com/sessionproxy/sessionproxy/session"
)

// Load returns the jar under key, or session.ErrNotFound. Where memory knows it,
// no server is asked.
func (s *Store) Load(ctx context.Context, key session.Key) (*session.Jar, error) {
	steady, now := s.clock.read()
	own, shared, ok := s.known(key, steady)
	if !ok {
		var err error
		if own, shared, err = s.find(ctx, key); err != nil {
			return nil, fail("load", key, err)
		}
	}
	if jar := session.JarAt(key, own, shared, now); jar != nil {
		return jar, nil
	}
	return nil, session.ErrNotFound
}

// known returns the records under key as memory shows them, where it may.
func (s *Store) known(key session.Key, steady int64) (own, shared *session.Record, ok bool) {
	e := s.cache.get(key)
	if e == nil {
		return nil, nil, false
	}
	v := s.valid(e, steady)
	if v == nil {
		return nil, nil, false
	}
	if key.Worker == "" {
		return v.record, nil, true
	}
	w := s.valid(v.shared, steady)
	if w == nil || !v.holds() {
		return nil, nil, false
	}
	return v.record, w.record, true
}

// valid is the snapshot that may be shown: the tracker would know if it were
// old. It is nil once the store is closed.
func (s *Store) valid(e *entry, steady int64) *snapshot {
	v := e.valid.Load()
	if v == nil || e.gone.Load() || v.epoch != s.epoch.Load() || steady-v.read > maxAge || !s.tracker.Coherent(e.public) {
		return nil
	}
	if !e.recent.Load() {
		e.recent.Store(true)
	}
	return v
}

// holds says whether the session of a private jar was not cleared since.
func (v *snapshot) holds() bool { return v.shared == nil || v.clears == v.shared.clears.Load() }

// find asks Redis for what memory does not know.
func (s *Store) find(ctx context.Context, key session.Key) (own, shared *session.Record, err error) {
	if err := checkKey(key); err != nil {
		return nil, nil, err
	}
	e, err := s.entry(key)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.look(ctx, e)
	if err != nil || key.Worker == "" {
		return st.recordOf(), nil, err
	}
	sh, err := s.entry(key.Shared())
	if err != nil {
		return nil, nil, err
	}
	shst, err := s.look(ctx, sh)
	return st.recordOf(), shst.recordOf(), err
}

// recordOf is the record of a state that may be unknown.
func (st *state) recordOf() *session.Record {
	if st == nil {
		return nil
	}
	return st.record
}

// look returns the state of e: from memory, from Redis, or, while that is away,
// the last one that memory knows.
func (s *Store) look(ctx context.Context, e *entry) (*state, error) {
	steady, _ := s.clock.read()
	if v := s.valid(e, steady); v != nil && v.holds() {
		return v.state, nil
	}
	if e.node.refusesWrites() {
		e.mu.Lock()
		offered := e.offered()
		e.mu.Unlock()
		if offered != nil {
			return offered, nil
		}
	}
	if e.node.refusesReads() {
		return s.lastKnown(e, session.ErrAway)
	}
	st, err := s.fetch(ctx, e)
	if err != nil && e.node.refusesReads() {
		return s.lastKnown(e, err)
	}
	if err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.completed(e, st), nil
}

// lastKnown is what memory shows in an outage.
func (s *Store) lastKnown(e *entry, err error) (*state, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.offered() != nil:
		return e.offer, nil
	case e.last != nil && e.last.holds():
		return e.last.state, nil
	case e.last != nil:
		return new(state), nil
	}
	return nil, err
}
