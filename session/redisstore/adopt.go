package redisstore

import (
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// adopt takes in what workers did. It returns nil where they did nothing.
func (s *Store) adopt(key session.Key, st *state) (*session.Record, []string) {
	if s.silent {
		return nil, nil
	}
	now, site := s.clock.now(), s.site(key.Site)
	jar := st.record.At(now)
	if jar == nil {
		jar = none
	}
	w := reconcile(st, jar, key.Site, &site, now)
	ends, mend := lifeOf(st, jar, &site, now)
	switch {
	case w.cleared:
		return &session.Record{Jar: jar.Clear(s.clock.tick()), Used: st.record.Used, Ends: st.record.Ends}, nil
	case w.nothing() && !mend:
		return nil, nil
	}
	w.update.Now = microTime(now)
	next, outcomes := jar.Apply(w.update, s.clock.tick())
	if !st.record.Live(now) {
		ends = max(ends, session.EndOf(key, next, nil, now, site.Life))
	}
	used := now
	if st.record != nil && len(w.update.Cookies) == 0 {
		used = st.record.Used
	}
	return &session.Record{Jar: next, Used: used, Ends: ends}, w.refusals(outcomes)
}

// slack is how far the end of a mirror may be from that of its session before
// somebody else must have set it, in microseconds.
const slack = int64(time.Second / time.Microsecond)

// lifeOf says when the session ends, and whether its mirror has to be told. A
// worker may make its life longer, but for the site's absolute end; a shorter
// one, or one without end, is put right.
func lifeOf(st *state, jar *session.Jar, site *Site, now int64) (ends int64, mend bool) {
	if !st.record.Live(now) {
		return st.mirrorEnds, false
	}
	ends = st.record.Ends
	if off := st.mirrorEnds - ends; st.digest == "" || -slack <= off && off <= slack {
		return ends, false
	}
	latest := st.mirrorEnds
	if site.Life.Max > 0 {
		latest = min(latest, jar.Created().Add(site.Life.Max).UnixMicro())
	}
	return max(ends, latest), true
}

var none = new(session.Jar)
