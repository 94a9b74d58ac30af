package redisstore

import (
	"cmp"
	"context"
	"math"

	"github.com/sessionproxy/sessionproxy/session"
)

// change is one thing to write under a key. Those that come while a write is
// under way share the next one.
type change struct {
	// make returns what is to stand under the key after own, in a session of
	// shared: own itself where nothing changes. Private jars of the session
	// that were last used before cut go. It may be called again, when own has
	// become another.
	make func(own, shared *session.Record, now int64) (next *session.Record, cut int64)
	// offer is what waits for Redis in an outage. Without it the change fails
	// then, but for one that only restarts a life.
	offer  *offer
	update session.Update // of the offer
	renews bool

	// Of the last make, where it applies an update.
	jar      *session.Jar
	outcomes []session.Outcome
	changed  bool

	done chan struct{}
	err  error // read once done is closed
}

// Apply changes the jar under key. It returns once Redis has the change; while
// Redis is away, once the change is queued for it.
func (s *Store) Apply(ctx context.Context, key session.Key, u session.Update, life session.Life) (*session.Jar, []session.Outcome, error) {
	if err := cmp.Or(ctx.Err(), checkKey(key)); err != nil {
		return nil, nil, fail("apply to", key, err)
	}
	// Most replies say what the jar says already.
	steady, now := s.clock.read()
	if own, shared, ok := s.known(key, steady); ok {
		base := cmp.Or(session.JarAt(key, own, shared, now), none)
		u.Now = microTime(now)
		if jar, outcomes := base.Apply(u, now); jar == base {
			return jar, outcomes, s.Renew(ctx, key, life)
		}
	}

	c := new(change)
	c.make = func(own, shared *session.Record, now int64) (*session.Record, int64) {
		base := cmp.Or(session.JarAt(key, own, shared, now), none)
		u.Now = microTime(now)
		c.jar, c.outcomes = base.Apply(u, s.clock.tick())
		if c.changed = c.jar != base; !c.changed {
			return own, 0
		}
		var cut int64
		if key.Worker == "" && own != nil && !own.Live(now) {
			cut = own.Ends
		}
		return &session.Record{Jar: c.jar, Used: now, Ends: session.EndOf(key, c.jar, shared, now, life)}, cut
	}
	if u.Writer == session.ByReply || u.Writer == session.ByLogin || u.Writer == session.ByRecipe {
		c.offer, c.update = &offer{life: life}, u
		c.offer.update = u
		c.offer.update.Cookies = nil
	}
	if err := s.submit(ctx, key, c); err != nil {
		return nil, nil, fail("apply to", key, err)
	}
	if !c.changed {
		return c.jar, c.outcomes, s.Renew(ctx, key, life)
	}
	return c.jar, c.outcomes, nil
}

// Revoke ends the session of key.
func (s *Store) Revoke(ctx context.Context, key session.Key) error {
	return s.end(ctx, "revoke", key.Shared(), func(old, _ *session.Record, now int64) (*session.Record, int64) {
		jar := cmp.Or(old.At(now), none).Revoke(s.clock.tick())
		return &session.Record{Jar: jar, Used: now, Ends: now}, math.MaxInt64
	})
}

// Clear empties the session of key.
func (s *Store) Clear(ctx context.Context, key session.Key) error {
	return s.end(ctx, "clear", key.Shared(), func(old, _ *session.Record, now int64) (*session.Record, int64) {
		jar := old.At(now)
		if jar == nil {
			return old, math.MaxInt64
		}
		return &session.Record{Jar: jar.Clear(s.clock.tick()), Used: old.Used, Ends: old.Ends}, math.MaxInt64
	})
}

// Renew restarts the idle life of the session under key. It does not wait for
// Redis: a renewal that is lost makes a life shorter and nothing else.
func (s *Store) Renew(ctx context.Context, key session.Key, life session.Life) error {
	steady, now := s.clock.read()
	own, shared, ok := s.known(key, steady)
	if !ok {
		var err error
		if own, shared, err = s.recent(ctx, key); err != nil {
			return fail("renew", key, err)
		}
	}
	if _, due := own.Due(key, shared, now, life); !due {
		return nil
	}
	e, err := s.entry(key)
	if err == nil {
		err = s.enqueue(e, &change{renews: true, done: make(chan struct{}),
			// The use counts from when it was, however late it is written.
			make: func(own, shared *session.Record, _ int64) (*session.Record, int64) {
				end, due := own.Due(key, shared, now, life)
				if !due || own.Used > now {
					return own, 0
				}
				return own.Renewed(now, end), 0
			}})
	}
	if err != nil {
		return fail("renew", key, err)
	}
	return nil
}

// recent returns what memory knew last, which the Load before read, and asks
// only where it knows nothing.
func (s *Store) recent(ctx context.Context, key session.Key) (own, shared *session.Record, err error) {
	e, err := s.entry(key)
	if err != nil {
		return nil, nil, err
	}
	st, err := s.lastKnown(e, session.ErrNotFound)
	if err != nil {
		return s.find(ctx, key)
	}
	if key.Worker != "" {
		if _, shared, err = s.recent(ctx, key.Shared()); err != nil {
			return nil, nil, err
		}
	}
	return st.record, shared, nil
}

func (s *Store) end(ctx context.Context, op string, key session.Key, make func(old, _ *session.Record, now int64) (*session.Record, int64)) error {
	err := cmp.Or(ctx.Err(), checkKey(key))
	if err == nil {
		err = s.submit(ctx, key, &change{make: make})
	}
	if err != nil {
		return fail(op, key, err)
	}
	return nil
}
