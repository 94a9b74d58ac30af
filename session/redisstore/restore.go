package redisstore

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/sessionproxy/sessionproxy/session"
)

// armed is told that the tracker follows a master from now on. One that was
// never seen may lack what was written before: it came back empty, or was a
// replica that had not got all of it.
func (s *Store) armed(runID string) {
	s.mu.Lock()
	fresh := len(s.runs) > 0 && !s.runs[runID]
	s.runs[runID] = true
	s.mu.Unlock()
	held := s.epoch.Add(1) - 1
	if !fresh || !s.begin() {
		return
	}
	go func() {
		defer s.running.Done()
		s.restore(s.alive, held)
	}()
}

// restore writes back what memory knows to be live and Redis lacks. Snapshots of
// an older epoch are none of it: since then the keys may have been removed.
func (s *Store) restore(ctx context.Context, held uint64) {
	now, count := s.clock.now(), 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(rereaders)
	for _, e := range s.cache.all() {
		e.mu.Lock()
		v := e.last
		e.mu.Unlock()
		if v == nil || v.epoch != held || !v.holds() || !v.record.Live(now) {
			continue
		}
		count++
		g.Go(func() error {
			return s.submit(ctx, e.key, &change{make: restored(e.key, v.record)})
		})
	}
	if err := g.Wait(); err != nil {
		s.log.Warn("not all sessions could be compared with a Redis that is new", "err", err)
		return
	}
	if count > 0 {
		s.log.Info("Redis is another server than before: its sessions were compared with those in memory", "sessions", count)
	}
}

// restored adds to what Redis holds what only memory knows: all of a session
// that is missing, else the cookies and deletions that are newer than all that
// Redis has.
func restored(key session.Key, held *session.Record) func(own, shared *session.Record, now int64) (*session.Record, int64) {
	return func(own, shared *session.Record, now int64) (*session.Record, int64) {
		switch {
		case !held.Live(now), shared.Floor(now) > held.Jar.Floor():
			return own, 0
		case own == nil:
			return held, 0
		case !own.Live(now) || own.Jar.Version() >= held.Jar.Version() || own.Floor(now) > held.Jar.Floor():
			return own, 0
		}
		jar := own.Jar
		parts := held.Jar.Parts()
		set := func(c session.Cookie, version int64, w session.Writer) {
			if version > own.Jar.Version() {
				jar, _ = jar.Apply(session.Update{Base: version, Writer: w, Timid: true, Cookies: []session.Cookie{c}}, version)
			}
		}
		for _, c := range parts.Cookies {
			set(c, c.Version, c.Writer)
		}
		for _, m := range parts.Marks {
			set(session.Cookie{
				Name: m.Name, Domain: m.Domain, Path: m.Path, HostOnly: m.HostOnly, Partitioned: m.Partitioned,
				Secure: true, HTTPOnly: true, Expires: past,
			}, m.Version, m.Writer)
		}
		if jar == own.Jar {
			return own, 0
		}
		return &session.Record{Jar: jar, Used: max(own.Used, held.Used), Ends: max(own.Ends, held.Ends)}, 0
	}
}
