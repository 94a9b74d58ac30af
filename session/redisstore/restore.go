package redisstore

import (
	"cmp"
	"context"
	"errors"
	"slices"
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
	case s.tracker.Coherent(e.public), e.last == nil, !e.last.holds(), !matters(e.last.record, now):
	case e.last.shared != nil && !e.last.shared.misses(s):
	case found.record == nil || len(lacking(found.record.Jar, e.last.record.Jar)) > 0:
		s.hold(e)
	}
}

// matters says whether a record is of use yet: its cookies, or its floor.
func matters(r *session.Record, now int64) bool { return r.Live(now) || r.Floor(now) != 0 }

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
	whole.record, _ = restored(e.key, held.record)(found.record, nil, s.clock.now())
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
		err := s.submit(ctx, e.key, &change{make: restored(e.key, v.record)})
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

// restored adds to what Redis holds what only memory knows: all of a session
// that is missing, else the cookies and deletions that are newer than what
// Redis has of them. Proxies that do so at once agree.
func restored(key session.Key, held *session.Record) func(own, shared *session.Record, now int64) (*session.Record, int64) {
	return func(own, shared *session.Record, now int64) (*session.Record, int64) {
		switch {
		case !matters(held, now), max(own.Floor(now), shared.Floor(now)) > held.Jar.Floor():
			return own, 0
		case own == nil:
			return held, 0
		}
		jar := raised(own.Jar, held.Jar)
		missing := lacking(jar, held.Jar)
		if !held.Live(now) {
			missing = nil
		}
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

// raised is jar with the floor of held, where it has a lower one, and without
// what is below.
func raised(jar, held *session.Jar) *session.Jar {
	if jar.Floor() >= held.Floor() {
		return jar
	}
	p := jar.Parts()
	p.Floor, p.Version = held.Floor(), max(p.Version, held.Floor())
	p.Revoked = slices.Clone(p.Revoked)
	p.Cookies = slices.DeleteFunc(slices.Clone(p.Cookies), func(c session.Cookie) bool { return c.Version < held.Floor() })
	for _, name := range held.Parts().Revoked {
		set := slices.ContainsFunc(p.Cookies, func(c session.Cookie) bool { return c.Name == name })
		if !set && !slices.Contains(p.Revoked, name) {
			p.Revoked = append(p.Revoked, name)
		}
	}
	next, err := session.NewJar(p)
	if err != nil {
		return jar // can't be: its cookies are in a jar
	}
	return next
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
