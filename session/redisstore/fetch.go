package redisstore

import "context"

// flight is one read that any number of callers wait for.
type flight struct {
	done  chan struct{}
	state *state
	old   bool // something was invalidated since it began
	err   error
}

// fetch reads e anew. A read that is overtaken by a change is made again, but
// not for ever where a session changes all the time.
func (s *Store) fetch(ctx context.Context, e *entry) (*state, error) {
	for tries := 1; ; tries++ {
		f, err := s.join(ctx, e)
		if err != nil {
			return nil, err
		}
		if !f.old || tries == 3 {
			return f.state, f.err
		}
	}
}

// join waits for a read of e. Callers who come while one is under way share it,
// unless something was invalidated since it began.
func (s *Store) join(ctx context.Context, e *entry) (*flight, error) {
	e.mu.Lock()
	f := e.flight
	if f == nil {
		if !s.begin() {
			e.mu.Unlock()
			return nil, errClosed
		}
		f = &flight{done: make(chan struct{})}
		e.flight = f
		gen := e.gen
		go func() {
			defer s.running.Done()
			s.fly(e, f, gen)
		}()
	}
	e.mu.Unlock()
	select {
	case <-f.done:
		return f, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fly reads e for all who wait for f.
func (s *Store) fly(e *entry, f *flight, gen uint64) {
	ctx, cancel := context.WithTimeout(s.alive, s.budget)
	defer cancel()
	var seen *snapshot
	if seen, f.err = s.read(ctx, e); f.err == nil {
		f.state = seen.state
	}
	e.mu.Lock()
	if e.flight == f {
		e.flight = nil
	}
	if f.err == nil {
		if f.old = e.gen != gen || seen.epoch != s.epoch.Load(); !f.old {
			s.install(e, seen)
		}
	}
	e.mu.Unlock()
	if f.err == nil {
		s.cache.grown(e, f.state)
	} else {
		e.node.failed(e.public, f.err)
	}
	close(f.done)
}

// install makes what was read or written the snapshot to show. e.mu is held,
// and nothing was invalidated since.
func (s *Store) install(e *entry, v *snapshot) {
	s.missed(e, v.state)
	e.last = v
	if e.offered() == nil && s.held(e) == nil {
		e.offer, e.lost = nil, nil
		e.valid.Store(v)
	}
}

// begun is a snapshot to be filled, as of now: what is invalidated from now on
// makes it old.
func (s *Store) begun(e *entry) *snapshot {
	steady, _ := s.clock.read()
	v := &snapshot{read: steady, epoch: s.epoch.Load()}
	if e.key.Worker != "" {
		// One that is evicted meanwhile is never valid again, nor is this.
		v.shared, _ = s.entry(e.key.Shared())
		if v.shared != nil {
			v.clears = v.shared.clears.Load()
		}
	}
	return v
}

// read returns what Redis holds under e, with what workers wrote taken in: only
// in memory where Redis takes no writes.
func (s *Store) read(ctx context.Context, e *entry) (*snapshot, error) {
	v := s.begun(e)
	st, err := s.ask(ctx, e)
	for err == nil && e.key.Worker == "" {
		record, refused := s.adopt(e.key, st)
		if record == nil {
			break
		}
		shown := *st
		shown.record = record
		if e.node.refusesWrites() {
			st = &shown
			break
		}
		v = s.begun(e)
		done := false
		st, done, err = s.write(ctx, e, s.plan(e.key, namesOf(e.public), st, record, 0, s.clock.now()))
		switch {
		case done:
			s.refused(refused)
		case outage(err) == readOnly:
			e.node.failed(e.public, err)
			st, err, done = &shown, nil, true
		}
		if done {
			break
		}
	}
	v.state = st
	return v, err
}
