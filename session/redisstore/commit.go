package redisstore

import (
	"context"
	"errors"

	"github.com/sessionproxy/sessionproxy/session"
)

// submit hands in a change, and waits until it is written. When it returns
// ctx's error the change may still come to hold.
func (s *Store) submit(ctx context.Context, key session.Key, c *change) error {
	e, err := s.entry(key)
	if err != nil {
		return err
	}
	c.done = make(chan struct{})
	if err := s.enqueue(e, c); err != nil {
		return err
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// enqueue lets c be written with what else waits for e.
func (s *Store) enqueue(e *entry, c *change) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.renews && e.renewing {
		return nil
	}
	if e.idle == nil {
		if !s.begin() {
			return errClosed
		}
		e.idle = make(chan struct{})
		go func() {
			defer s.running.Done()
			s.drain(e)
		}()
	}
	e.renewing = e.renewing || c.renews
	e.queue = append(e.queue, c)
	return nil
}

// drain writes what waits for e until nothing does.
func (s *Store) drain(e *entry) {
	for {
		e.mu.Lock()
		batch := e.queue
		e.queue = nil
		if len(batch) == 0 {
			close(e.idle)
			e.idle, e.renewing = nil, false
			e.mu.Unlock()
			return
		}
		e.mu.Unlock()
		s.commit(e, batch)
		for _, c := range batch {
			close(c.done)
		}
	}
}

// commit writes the changes of a batch in one go, or keeps them for later where
// Redis is away.
func (s *Store) commit(e *entry, batch []*change) {
	err := session.ErrAway
	if !e.node.refusesWrites() {
		if err = s.tryAll(e, batch); err == nil {
			return
		}
	}
	for _, c := range batch {
		c.err = err
		if e.node.refusesWrites() {
			c.err = s.keep(e, c, err)
		}
		if errors.Is(c.err, errBack) {
			c.err = s.tryAll(e, []*change{c})
		}
	}
}

// tryAll writes the changes within the budget, and notes an outage.
func (s *Store) tryAll(e *entry, batch []*change) error {
	ctx, cancel := context.WithTimeout(s.alive, s.budget)
	defer cancel()
	err := s.writeAll(ctx, e, batch)
	if err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		err = callError{err} // whatever waited for Redis
	}
	e.node.failed(e.public, err)
	return err
}

// writeAll makes the changes one after the other, in the order in which they
// came, and writes what comes of them. Where Redis holds another state than
// memory knew, what that has is taken in and they are made anew: so writers on
// several proxies all win.
func (s *Store) writeAll(ctx context.Context, e *entry, batch []*change) error {
	st, sure := s.base(e)
	for {
		shared, err := s.sharedOf(ctx, e)
		if err != nil {
			return err
		}
		v := s.begun(e)
		gen := e.generation()
		if st == nil {
			if st, err = s.ask(ctx, e); err != nil {
				return err
			}
			sure = true
		}
		if sure {
			e.mu.Lock()
			s.missed(e, st)
			e.mu.Unlock()
		}
		from, refused := st.record, []string(nil)
		if e.key.Worker == "" {
			if adopted, reasons := s.adopt(e.key, st); adopted != nil {
				from, refused = adopted, reasons
			}
		}
		record, cut := made(batch, from, shared, s.clock.now())
		switch {
		case record == st.record && !sure:
			st = nil // memory may be old
			continue
		case record == st.record && cut == 0:
			return nil
		case record == st.record:
			return s.cut(ctx, e, cut)
		}
		var done bool
		if v.state, done, err = s.put(ctx, e, st, record, shared, cut); err != nil {
			return err
		}
		if done {
			s.refused(refused)
			s.wrote(e, v, gen, cut)
			return nil
		}
		st, sure = v.state, v.state != nil
	}
}

// made is what the changes make of a record.
func made(batch []*change, own, shared *session.Record, now int64) (record *session.Record, cut int64) {
	record = own
	for _, c := range batch {
		next, before := c.make(record, shared, now)
		record, cut = next, max(cut, before)
	}
	return record, cut
}

// put writes the record that was made from st. Where that is not what Redis
// holds by now, it returns what is, or nil where that has to be asked.
func (s *Store) put(ctx context.Context, e *entry, st *state, record, shared *session.Record, cut int64) (*state, bool, error) {
	if e.key.Worker != "" {
		return s.writePrivate(ctx, e, st, record, shared)
	}
	return s.write(ctx, e, s.plan(e.key, namesOf(e.public), st, record, cut, s.clock.now()))
}

// base is the state that a change may be tried on, and whether memory is sure
// of it.
func (s *Store) base(e *entry) (st *state, sure bool) {
	steady, _ := s.clock.read()
	if v := s.valid(e, steady); v != nil && v.holds() {
		return v.state, true
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.last != nil && e.last.holds() {
		return e.last.state, false
	}
	return nil, false
}

// sharedOf is the record of the session that a private jar is in; nil for a
// session itself.
func (s *Store) sharedOf(ctx context.Context, e *entry) (*session.Record, error) {
	if e.key.Worker == "" {
		return nil, nil
	}
	shared, err := s.entry(e.key.Shared())
	if err != nil {
		return nil, err
	}
	// Not as look shows it: the script compares.
	st, sure := s.base(shared)
	if !sure {
		if st, err = s.fetch(ctx, shared); err != nil {
			return nil, err
		}
	}
	return st.record, nil
}

func (e *entry) generation() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.gen
}

// wrote shows what was written. A read that began before is no longer shared.
// gen is from before: where something was invalidated since, it may have been
// by another's write after ours.
func (s *Store) wrote(e *entry, v *snapshot, gen uint64, cut int64) {
	if cut != 0 {
		e.clears.Add(1)
	}
	e.mu.Lock()
	if e.gen == gen {
		s.install(e, v)
	} else {
		// What was read since may be from before ours.
		e.last = v
		e.valid.Store(nil)
	}
	e.gen++
	e.flight = nil
	e.mu.Unlock()
	if !s.cache.grown(e, v.state) {
		// It was evicted, and the key may have got another.
		s.forget(e.key)
	}
}

// cut removes the private jars of a session, and nothing else.
func (s *Store) cut(ctx context.Context, e *entry, before int64) error {
	n := namesOf(e.public)
	_, _, err := s.run(ctx, "write", cutScript, []string{n.workers}, before, n.private)
	e.clears.Add(1)
	return err
}
