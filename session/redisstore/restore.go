package redisstore

import (
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/sessionproxy/sessionproxy/session"
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
	steady, now := s.clock.read()
	switch {
	case s.tracker.Coherent(e.public), e.lost != nil && steady-e.lostAt < lostFor:
	case e.last == nil, !e.last.holds(), !e.last.record.Live(now):
	case e.last.shared != nil && !e.last.shared.isMissed():
	case found.record == nil || found.record.Jar.Version() < e.last.record.Jar.Version():
		e.lost, e.lostAt = e.last, steady
	}
}

// isMissed says whether a session is missed.
func (e *entry) isMissed() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.lost != nil
}

// missing is what missed holds on to, nil for nothing. e.mu is held.
func (s *Store) missing(e *entry) *state {
	steady, _ := s.clock.read()
	if e.lost == nil || steady-e.lostAt >= lostFor || s.tracker.Coherent(e.public) {
		return nil
	}
	return e.lost.state
}

// armed is told that the changes of a master are heard from now on. Where that
// is the process that it was, what is not there was removed.
func (s *Store) armed(a tracking.Arming) {
	<-s.started
	var held []*entry
	records := make(map[*entry]*session.Record)
	now := s.clock.now()
	for _, e := range s.cache.all() {
		if !s.tracker.Coherent(e.public) {
			continue // of another master
		}
		e.mu.Lock()
		v := e.lost
		if v == nil {
			v = e.last
		}
		e.lost = nil
		e.mu.Unlock()
		if v != nil && v.holds() && v.record.Live(now) {
			held = append(held, e)
			records[e] = v.record
		}
	}
	if !a.Restarted || len(held) == 0 || !s.begin() {
		return
	}
	go func() {
		defer s.running.Done()
		s.restore(held, records)
	}()
}

// restore writes back what memory knows to be live and Redis lacks.
func (s *Store) restore(held []*entry, records map[*entry]*session.Record) {
	g, ctx := errgroup.WithContext(s.alive)
	g.SetLimit(rereaders)
	for _, e := range held {
		g.Go(func() error { return s.submit(ctx, e.key, &change{make: restored(e.key, records[e])}) })
	}
	if err := g.Wait(); err != nil {
		s.log.Warn("Redis is another server than before, and not all of its sessions could be compared with those in memory", "err", err)
		return
	}
	s.log.Info("Redis is another server than before: its sessions were compared with those in memory", "sessions", len(held))
}

// restored adds to what Redis holds what only memory knows: all of a session
// that is missing, else the cookies and deletions that are newer than what
// Redis has of them. Proxies that do so at once agree.
func restored(key session.Key, held *session.Record) func(own, shared *session.Record, now int64) (*session.Record, int64) {
	return func(own, shared *session.Record, now int64) (*session.Record, int64) {
		switch {
		case !held.Live(now), max(own.Floor(now), shared.Floor(now)) > held.Jar.Floor():
			return own, 0
		case own == nil:
			return held, 0
		}
		jar := own.Jar
		missing := lacking(own.Jar, held.Jar)
		for _, c := range missing {
			u := session.Update{Base: c.Version, Writer: c.Writer, Timid: true, Cookies: []session.Cookie{c}}
			jar, _ = jar.Apply(u, c.Version)
		}
		if jar == own.Jar {
			return own, 0
		}
		return &session.Record{Jar: jar, Used: max(own.Used, held.Used), Ends: max(own.Ends, held.Ends)}, 0
	}
}

// lacking are the cookies and deletions of held that jar lacks: those of which
// it has an older version, and those of which it has none and never could, as
// it is older than they are or began after.
func lacking(jar, held *session.Jar) []session.Cookie {
	have, parts := versions(jar), held.Parts()
	began := jar.Created().UnixMicro() > held.Version()
	lacks := func(id session.Identity, version int64) bool {
		mine, known := have[id]
		return known && mine < version || !known && (began || jar.Version() < version)
	}
	var list []session.Cookie
	for _, c := range parts.Cookies {
		if lacks(c.Identity(), c.Version) {
			list = append(list, c)
		}
	}
	for _, m := range parts.Marks {
		if lacks(m.Identity, m.Version) {
			list = append(list, session.Cookie{
				Name: m.Name, Domain: m.Domain, Path: m.Path, HostOnly: m.HostOnly, Partitioned: m.Partitioned,
				Secure: true, HTTPOnly: true, Expires: past, Version: m.Version, Writer: m.Writer,
			})
		}
	}
	return list
}

// versions are those of the cookies and marks of a jar.
func versions(jar *session.Jar) map[session.Identity]int64 {
	parts := jar.Parts()
	have := make(map[session.Identity]int64, len(parts.Cookies)+len(parts.Marks))
	for i := range parts.Cookies {
		have[parts.Cookies[i].Identity()] = parts.Cookies[i].Version
	}
	for _, m := range parts.Marks {
		have[m.Identity] = m.Version
	}
	return have
}
