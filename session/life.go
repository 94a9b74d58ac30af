package session

import (
	"cmp"
	"time"
)

// floorLife is how long a floor outlives the session that was revoked, in
// microseconds.
const floorLife = int64(24 * time.Hour / time.Microsecond)

// loneIdle is the idle life of a private jar without a shared one.
const loneIdle = 30 * time.Minute

// Record is one state of one jar in a store, with its life. Its methods are the
// rules of [Store] that every store keeps alike; now is the store's clock, and
// all its times are microseconds since 1970, like the versions. A Record never
// changes; nil is one of nothing.
type Record struct {
	Jar  *Jar
	Used int64 // last renewed
	Ends int64 // unless it is used
}

// Live says whether the session is still going at now.
func (r *Record) Live(now int64) bool { return r != nil && now < r.Ends }

// LiveIn is Live for a private record in a session of that shared one, which
// is nil for a shared record itself. The end of a session ends the private
// jars that were used in it, and not those made since, for the next.
func (r *Record) LiveIn(shared *Record, now int64) bool {
	return r.Live(now) && (shared == nil || now < shared.Ends || r.Used >= shared.Ends)
}

// Floor is the floor that holds at now, or 0.
func (r *Record) Floor(now int64) int64 {
	if r == nil || now >= r.Jar.Floor()+floorLife {
		return 0
	}
	return r.Jar.Floor()
}

// At is the shared jar that a request leaves with at now: nil when there is
// none.
//
// A floor outlives the session as an empty jar: a request that left with no
// version would stay below the floor, and nobody could log in again.
func (r *Record) At(now int64) *Jar {
	switch {
	case r.Live(now):
		return r.Jar
	case r.Floor(now) == 0:
		return nil
	case len(r.Jar.Cookies()) == 0:
		return r.Jar
	}
	return r.Jar.Clear(r.Ends)
}

// JarAt is the jar under key at now, nil for none. own and shared are the
// records of the key and of its session; shared is nil for a shared key.
func JarAt(key Key, own, shared *Record, now int64) *Jar {
	if key.Worker == "" {
		return own.At(now)
	}
	if own.LiveIn(shared, now) {
		return own.Jar
	}
	if floor := shared.Floor(now); floor != 0 {
		// Revoke removed the private jars; its floor lies under them too,
		// for workers that it never heard of as well.
		return emptyJar.Revoke(floor)
	}
	return nil
}

// EndOf is when the jar under key ends if it is used at now. That is not before
// now, whatever the rule: see LiveIn, which tells by it what was used since.
func EndOf(key Key, jar *Jar, shared *Record, now int64, life Life) int64 {
	if key.Worker != "" && !shared.Live(now) {
		life.Idle = cmp.Or(life.Idle, loneIdle)
	}
	return max(now, jar.End(time.UnixMicro(now), life).UnixMicro())
}

// Due says whether the idle life is to be restarted at now, and where it would
// end then. A life that the site's rule has since made shorter is cut at once.
func (r *Record) Due(key Key, shared *Record, now int64, life Life) (end int64, due bool) {
	if !r.LiveIn(shared, now) {
		return 0, false
	}
	end = EndOf(key, r.Jar, shared, now, life)
	if end < r.Ends || 10*(r.Ends-now) <= 9*(end-now) {
		return end, true
	}
	// A private jar with a cookie of a year would count as unused for weeks,
	// and make room for others.
	return end, shared.Live(now) && 10*(now-r.Used) >= min(end, shared.Ends)-now
}

// Renewed is r with its life restarted.
func (r *Record) Renewed(now, end int64) *Record {
	return &Record{Jar: r.Jar, Used: now, Ends: end}
}

// Info describes a live record under key at now.
func (r *Record) Info(key Key, now int64) Info {
	info := Info{
		Key:     key,
		Version: r.Jar.Version(),
		Created: r.Jar.Created(),
		Used:    time.UnixMicro(r.Used),
		Expires: time.UnixMicro(r.Ends),
	}
	for _, c := range r.Jar.Cookies() {
		if !c.Expired(time.UnixMicro(now)) {
			info.Cookies++
		}
	}
	return info
}
