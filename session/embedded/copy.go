package embedded

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/sessionproxy/sessionproxy/session"
)

// Keys returns the keys of all that is kept: of sessions, also of those of which
// a floor is left, and of private jars, each behind its session.
func (s *Store) Keys(context.Context) ([]session.Key, error) {
	s.view.RLock()
	defer s.view.RUnlock()
	if s.live == nil {
		return nil, fmt.Errorf("list keys: %w", errClosed)
	}
	keys := make([]session.Key, 0, len(s.live))
	for key := range s.live {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b session.Key) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Worker, b.Worker))
	})
	return keys, nil
}

// Record returns what is kept under key; nil for nothing.
func (s *Store) Record(_ context.Context, key session.Key) (*session.Record, error) {
	s.view.RLock()
	defer s.view.RUnlock()
	if s.live == nil {
		return nil, fail("read", key, errClosed)
	}
	return s.live[key], nil
}

// Put adds what is kept under key elsewhere: see [session.Record.Combine].
func (s *Store) Put(ctx context.Context, key session.Key, r *session.Record) error {
	b, err := s.combine(key, r)
	if err == nil {
		err = b.wait(ctx)
	}
	if err != nil {
		return fail("write", key, err)
	}
	return nil
}

func (s *Store) combine(key session.Key, r *session.Record) (*batch, error) {
	if len(key.Site)+len(key.ID)+len(key.Worker) > maxKey {
		return nil, errKeyTooLong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	now := s.version()
	old, pending := s.newest(key)
	next := old.Combine(r, s.newestShared(key), now)
	if next != old {
		if key.Worker != "" && old == nil {
			s.makeRoom(key.Shared(), now)
		}
		s.clock = max(s.clock, next.Jar.Version())
		s.put(key, next)
		pending = s.filling
	}
	s.wakeUp()
	return pending, nil
}
