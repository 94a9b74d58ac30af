package redisstore

import (
	"context"

	"github.com/sessionproxy/sessionproxy/session"
)

// Keys returns the keys of all that is kept: of sessions, also of those of which
// a floor is left, and of private jars, each behind its session.
func (s *Store) Keys(ctx context.Context) ([]session.Key, error) { return s.keys(ctx, "", true) }

// Record returns what is kept under key; nil for nothing.
func (s *Store) Record(ctx context.Context, key session.Key) (*session.Record, error) {
	e, err := s.entry(key)
	if err != nil {
		return nil, fail("read", key, err)
	}
	st, err := s.fetch(ctx, e)
	if err != nil {
		return nil, fail("read", key, err)
	}
	return st.record, nil
}

// Put adds what is kept under key elsewhere: see [session.Record.Combine].
func (s *Store) Put(ctx context.Context, key session.Key, r *session.Record) error {
	err := checkKey(key)
	if err == nil {
		err = s.submit(ctx, key, &change{make: restored(r)})
	}
	if err != nil {
		return fail("write", key, err)
	}
	return nil
}
