package redisstore

import (
	"cmp"
	"context"
	"errors"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/redisstore/tracking"
)

// A Redis that comes back without its data, or a replica that takes over and
// lacks the last of it, answers before the tracker can tell that it is another
// one. What it lacks is held on to until then, and shown.

// lostFor bounds how long that is, in microseconds.
const lostFor = int64(10 * time.Second / time.Microsecond)

// missed holds on to the last snapshot where Redis is found without what that
// has. What ends in the usual way leaves companions; a private jar leaves none,
// so it is missed where its session is. e.mu is held.
func (s *Store) missed(e *entry, found *state) {
	_, now := s.clock.read()
	switch {
	case s.tracker.Coherent(e.public), e.last == nil, !e.last.holds(), !e.last.record.Matters(now):
	case e.last.shared != nil && !e.last.shared.misses(s):
	case found.record == nil || found.record.Jar.Lacks(e.last.record.Jar):
		s.hold(e)
	}
}

// hold keeps the last snapshot until it is known whether Redis is what it was.
// e.mu is held.
func (s *Store) hold(e *entry) {
	if s.held(e) == nil {
		e.lost = e.last
		e.lostAt, _ = s.clock.read()
		e.valid.Store(nil)
	}
}

// held is what hold keeps, nil for nothing. e.mu is held.
func (s *Store) held(e *entry) *snapshot {
	if steady, _ := s.clock.read(); e.lost == nil || steady-e.lostAt >= lostFor {
		return nil
	}
	return e.lost
}

// misses says whether something of a session is held.
func (e *entry) misses(s *Store) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return s.held(e) != nil
}

// completed is what Redis was found to hold, with what is held. e.mu is held.
func (s *Store) completed(e *entry, found *state) *state {
	held := s.held(e)
	if held == nil {
		return found
	}
	whole := *found
	whole.record, _ = restored(held.record)(found.record, nil, s.clock.now())
	return &whole
}

// armed is told that the changes of a master are heard from now on. Where that
// is the process that it was, what is not there was removed.
func (s *Store) armed(a tracking.Arming) {
	<-s.started
	var held []*entry
	for _, e := range s.cache.all() {
		if !a.Master.Serves(conn.Slot(e.public)) {
			continue
		}
		e.mu.Lock()
		switch {
		case !a.Restarted:
			e.lost = nil
		case s.held(e) != nil:
			held = append(held, e)
		}
		e.mu.Unlock()
	}
	if len(held) == 0 || !s.begin() {
		return
	}
	go func() {
		defer s.running.Done()
		s.restore(held)
	}()
}

// restore writes back what is held, where Redis lacks it: sessions, and then
// their private jars, which look at them.
func (s *Store) restore(held []*entry) {
	var err error
	for _, private := range []bool{false, true} {
		g, ctx := errgroup.WithContext(s.alive)
		g.SetLimit(rereaders)
		for _, e := range held {
			if private == (e.key.Worker != "") {
				g.Go(func() error { return s.restoreOne(ctx, e) })
			}
		}
		err = cmp.Or(err, g.Wait())
	}
	if err != nil {
		s.log.Warn("Redis is another server than before, and not all of its sessions could be compared with those in memory", "err", err)
		return
	}
	s.log.Info("Redis is another server than before: its sessions were compared with those in memory", "sessions", len(held))
}

// restoreOne tries until Redis takes it: it may be heard of before it is found
// to be back.
func (s *Store) restoreOne(ctx context.Context, e *entry) error {
	for {
		e.mu.Lock()
		v := s.held(e)
		e.mu.Unlock()
		if v == nil {
			return nil
		}
		err := s.submit(ctx, e.key, &change{make: restored(v.record)})
		if errors.Is(err, session.ErrAway) {
			select {
			case <-time.After(probeFirst):
				continue
			case <-ctx.Done():
			}
		}
		e.mu.Lock()
		defer e.mu.Unlock()
		if err == nil && e.lost == v {
			e.lost = nil
		}
		return err
	}
}

// restored makes of what Redis holds that and what is held.
func restored(held *session.Record) func(own, shared *session.Record, now int64) (*session.Record, int64) {
	return func(own, shared *session.Record, now int64) (*session.Record, int64) {
		return own.Combine(held, shared, now), 0
	}
}
