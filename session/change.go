package session

import (
	"slices"
	"time"
)

// Update is what one reply, import or operator changes in a jar.
type Update struct {
	// Base is the version of the jar that the request left with: 0 where
	// there was none. A cookie whose version is higher changed since, and
	// the update is late for it. Writers that are no reply use [Latest].
	Base int64

	Writer Writer

	// Timid: where late, it sets nothing. For redirects and 4xx replies of
	// sites that declare no login, whose Set-Cookie is often the fresh
	// anonymous session of a client that was logged out. Where a login is
	// declared, LoggedOut says so.
	Timid bool

	// LoggedOut: the reply shows that the site takes the session for logged
	// out. It changes no cookie that comes from a login (see [Cookie.Login]):
	// what it sets is the anonymous session that such clients get, and the
	// site may err, or know a stale value only.
	LoggedOut bool

	// Insecure: the reply came over plain http. It may not set or delete
	// what overlays a Secure cookie (RFC 6265bis section 5.7, step 17).
	Insecure bool

	// Cookies to set. One whose Expires is not after the time of the change
	// deletes the cookie of its identity.
	Cookies []Cookie

	// Now is the time of the change, where that is not its version's: a store's
	// versions never go back, and its clock may have. Stores set it.
	Now time.Time

	// Replace: the cookies are the whole jar; others are deleted.
	Replace bool
}

// Latest, as an Update's Base, is late for nothing.
const Latest = int64(1)<<62 - 1

// Outcome says what became of one change.
type Outcome uint8

// The outcomes of a change.
const (
	Changed   Outcome = iota // set, replaced or deleted
	Unchanged                // the jar says so already
	Late                     // refused: what the jar has is newer and may not be overwritten
	Revoked                  // refused: the request left before the session was revoked, or a worker sets a revoked name
	Evicted                  // set, but a limit pushed it out at once
	Overlays                 // refused: an insecure reply, and the jar has a Secure cookie there
	Invalid                  // refused: no Set-Cookie line could set it
	Guarded                  // refused: a logged-out reply may not change what comes from a login
)

// Limits of a jar. RFC 6265bis section 6.1 asks for at least 50 cookies a
// domain and 3000 in all; Chromium has 180 for a registrable domain.
const (
	maxPerSite = 180
	maxCookies = 3000
	maxMarks   = 1024
	maxRevoked = maxCookies
)

// Apply returns the jar after u, with one Outcome for each of u.Cookies. clock
// is the clock of the store's versions in microseconds since 1970; each change gets
// the version max(last+1, clock), which is also its time unless u.Now tells it:
// Created, Used and the 400 days of Expires count from that. Where nothing
// changed it returns j itself.
//
// A late change never deletes, and sets only where the present value (or mark)
// is ByReply and comes from no login since Base, and u is not Timid. Nor does a
// reply bring back a value that the cookie had before: where a site renews a session
// with each reply, the last one to arrive may tell an old value. A change
// whose Base is below the floor is refused, and so is one by a LoggedOut reply
// of what comes from a login. Limits: 180 cookies a registrable domain, 3000 a
// jar; insecure ones go first, then the least recently used. A cookie whose life
// is over counts for nothing, and goes with the first change (RFC 6265bis
// section 5.7).
//
// A worker knows names and no domains or paths, so what it wrote is of the name:
// the next change of that name by anybody else replaces all of it.
//
// A reply that repeats a cookie is no change, though its expiry moves: sites
// with a sliding session send the same cookie with each reply. An expiry that
// moved ahead by less than a tenth of the new life waits for the next reply
// that moves it further, so a renewal costs at most ten writes a life, and the
// jar never ends a cookie by more than a tenth of its life too early.
func (j *Jar) Apply(u Update, clock int64) (*Jar, []Outcome) {
	outcomes := make([]Outcome, len(u.Cookies))
	if u.Base < j.floor {
		for i := range outcomes {
			outcomes[i] = Revoked
		}
		return j, outcomes
	}
	e := edit{Update: u, from: j, next: j, clock: clock}
	e.now = e.at(j.nextVersion(clock))
	if u.Replace {
		e.deleteOthers()
	}
	for i := range u.Cookies {
		outcomes[i] = e.one(u.Cookies[i])
	}
	if e.next == j {
		return j, outcomes
	}
	e.finish(outcomes)
	return e.next, outcomes
}

// edit is an Update under way. next is from until the first change, then a
// copy that nobody else has.
type edit struct {
	Update
	from, next *Jar
	clock      int64
	now        time.Time // of the first change: what is over by then is not there
}

// own makes next a copy that may be changed, without what is over.
func (e *edit) own() {
	e.next = &Jar{
		cookies: slices.DeleteFunc(slices.Clone(e.from.cookies), func(c Cookie) bool { return c.Expired(e.now) }),
		marks:   slices.Clone(e.from.marks),
		version: e.from.version,
		floor:   e.from.floor,
		created: e.from.created,
		revoked: e.from.revoked,
	}
}

// at is the time of the change that gets a version.
func (e *edit) at(version int64) time.Time {
	if e.Now.IsZero() {
		return microTime(version)
	}
	return microTime(e.Now.UnixMicro())
}

// one sets or deletes one cookie.
func (e *edit) one(c Cookie) Outcome {
	if c.Check() != nil {
		return Invalid
	}
	id := c.Identity()
	at := e.find(&id)
	mark := slices.IndexFunc(e.next.marks, func(m Mark) bool { return m.Identity == id })
	v := e.next.nextVersion(e.clock)
	now := e.at(v)
	if !c.Expires.IsZero() {
		c.Expires = microTime(capped(c.Expires, now).UnixMicro())
	}
	deletes := c.Expired(now)
	guessed := e.guessed(&c, at)

	switch {
	case e.Writer == ByWorker && !deletes && e.isRevoked(c.Name):
		return Revoked
	case deletes && at < 0 && !guessed, !deletes && at >= 0 && e.repeats(&e.next.cookies[at], &c, now):
		return Unchanged
	case e.late(&c, at, mark, deletes), guessed && e.lateFor(c.Name):
		return Late
	case e.LoggedOut && at >= 0 && e.next.cookies[at].Login > 0:
		return Guarded
	case e.Insecure && e.overlays(&c):
		return Overlays
	}

	if e.next == e.from {
		e.own()
		at = e.find(&id)
	}
	e.next.version = v
	if mark >= 0 {
		e.next.marks = slices.Delete(e.next.marks, mark, mark+1)
	}
	if deletes && at >= 0 {
		e.next.cookies = slices.Delete(e.next.cookies, at, at+1)
		e.next.marks = append(e.next.marks, Mark{id, v, e.Writer})
	}
	if guessed {
		e.deleteGuesses(&id, v)
		at = e.find(&id)
	}
	if deletes {
		return Changed
	}
	c.Version, c.Writer, c.Created, c.Used, c.Login, c.Past = v, e.Writer, now, now, 0, [maxPast]uint32{}
	if e.Writer != ByReply {
		c.Login = v
	}
	if at >= 0 {
		have := &e.next.cookies[at]
		if e.Writer == ByReply {
			c.Login = have.Login
			if c.Value == have.Value {
				c.Writer = have.Writer // whoever gave the value; a reply only renews it
			}
		}
		c.Created = have.Created
		c.follow(have)
		*have = c
	} else {
		e.insert(c)
	}
	e.unrevoke(c.Name)
	return Changed
}

// late says whether the cookie of this identity, or its mark, changed since
// the request left, and may not be overwritten.
func (e *edit) late(c *Cookie, at, mark int, deletes bool) bool {
	var version, login int64
	var writer Writer
	var had bool
	switch {
	case at >= 0:
		have := &e.next.cookies[at]
		version, writer, login, had = have.Version, have.Writer, have.Login, have.had(c.Value)
	case mark >= 0:
		version, writer = e.next.marks[mark].Version, e.next.marks[mark].Writer
	}
	// A reply may name a cookie twice: its own changes never make it late.
	if version <= e.Base || version > e.from.version {
		return false
	}
	return deletes || e.Timid || writer != ByReply || login > e.Base || had && e.Writer == ByReply
}

// guessed says whether the jar has other cookies of c's name that a worker wrote,
// and that c replaces.
func (e *edit) guessed(c *Cookie, at int) bool {
	for i := range e.next.cookies {
		if i != at && e.isGuess(&e.next.cookies[i], c.Name) {
			return true
		}
	}
	return false
}

// isGuess leaves out what this update itself renewed, and what an insecure
// reply may not touch.
func (e *edit) isGuess(have *Cookie, name string) bool {
	return e.Writer != ByWorker && have.Writer == ByWorker && have.Name == name && !have.Expired(e.now) &&
		have.Version <= e.from.version && !(e.Insecure && have.Secure)
}

// lateFor says whether a worker wrote that name since the request left.
func (e *edit) lateFor(name string) bool {
	return slices.ContainsFunc(e.next.cookies, func(have Cookie) bool {
		return e.isGuess(&have, name) && have.Version > e.Base
	})
}

// deleteGuesses deletes a worker's cookies of the name of id, but that of id.
func (e *edit) deleteGuesses(id *Identity, v int64) {
	e.next.cookies = slices.DeleteFunc(e.next.cookies, func(have Cookie) bool {
		guess := have.Identity() != *id && e.isGuess(&have, id.Name)
		if guess {
			e.next.marks = append(e.next.marks, Mark{have.Identity(), v, e.Writer})
		}
		return guess
	})
}

// repeats says whether c tells nothing new about have.
func (e *edit) repeats(have, c *Cookie, now time.Time) bool {
	if have.Value != c.Value || have.Secure != c.Secure || have.HTTPOnly != c.HTTPOnly ||
		have.SameSite != c.SameSite || have.Priority != c.Priority {
		return false
	}
	// A login that keeps the session's value still makes it a new login's, and
	// an import or an operator makes a reply's value theirs.
	if e.Writer == ByLogin || e.Writer == ByRecipe || have.Writer == ByReply && e.Writer != ByReply && e.Writer != ByWorker {
		return false
	}
	if have.Expires.IsZero() || c.Expires.IsZero() {
		return have.Expires.Equal(c.Expires)
	}
	// Proxies' clocks differ, so an end up to a second earlier is the same.
	moved := c.Expires.Sub(have.Expires)
	return moved > -time.Second && moved < c.Expires.Sub(now)/10
}

// overlays is RFC 6265bis section 5.7, step 17 ("leave secure cookies alone").
// The paths are not compared both ways: an insecure cookie with a wider path
// is sent after the Secure one and does not hide it.
func (e *edit) overlays(c *Cookie) bool {
	return slices.ContainsFunc(e.next.cookies, func(have Cookie) bool {
		return have.Secure && have.Name == c.Name && !have.Expired(e.now) &&
			(domainMatch(have.Domain, c.Domain) || domainMatch(c.Domain, have.Domain)) &&
			pathMatch(c.Path, have.Path)
	})
}

// insert puts a new cookie behind the older ones whose paths are as long.
func (e *edit) insert(c Cookie) {
	at, _ := slices.BinarySearchFunc(e.next.cookies, &c, func(have Cookie, c *Cookie) int {
		if len(have.Path) >= len(c.Path) {
			return -1
		}
		return 1
	})
	e.next.cookies = slices.Insert(e.next.cookies, at, c)
}

// deleteOthers deletes all cookies that are not among the update's.
func (e *edit) deleteOthers() {
	keep := make(map[Identity]bool, len(e.Cookies))
	for i := range e.Cookies {
		keep[e.Cookies[i].Identity()] = true
	}
	for i := range e.from.cookies {
		c := e.from.cookies[i]
		if !keep[c.Identity()] {
			c.Expires = past
			e.one(c)
		}
	}
}

func (e *edit) isRevoked(name string) bool {
	_, found := slices.BinarySearch(e.next.revoked, name)
	return found
}

func (e *edit) unrevoke(name string) {
	if i, found := slices.BinarySearch(e.next.revoked, name); found {
		e.next.revoked = slices.Delete(slices.Clone(e.next.revoked), i, i+1)
	}
}

// finish brings the changed jar within its limits and makes it ready.
func (e *edit) finish(outcomes []Outcome) {
	j := e.next
	now := e.at(j.version)
	before := len(j.cookies)
	j.evict()
	if len(j.cookies) < before {
		for i := range outcomes {
			if outcomes[i] == Changed && !e.Cookies[i].Expired(now) && !j.has(e.Cookies[i].Identity()) {
				outcomes[i] = Evicted
			}
		}
	}
	j.marks = lastMarks(j.marks)
	switch {
	case len(j.cookies) == 0:
		j.created = time.Time{}
	case j.created.IsZero():
		j.created = now
	}
	j.prepare()
}

// find returns the place of the cookie of an identity, or -1. It copies none:
// an import looks for thousands among thousands.
func (j *Jar) find(id *Identity) int {
	for i := range j.cookies {
		c := &j.cookies[i]
		if c.Name == id.Name && c.Domain == id.Domain && c.Path == id.Path && c.HostOnly == id.HostOnly && c.Partitioned == id.Partitioned {
			return i
		}
	}
	return -1
}

// find is Jar.find among what is not over.
func (e *edit) find(id *Identity) int {
	at := e.next.find(id)
	if at >= 0 && e.next.cookies[at].Expired(e.now) {
		return -1
	}
	return at
}

func (j *Jar) has(id Identity) bool { return j.find(&id) >= 0 }

func lastMarks(marks []Mark) []Mark {
	return slices.Clone(marks[max(0, len(marks)-maxMarks):])
}

// microTime is the time of a version. Jars hold times in microseconds and UTC,
// as stores do.
func microTime(micro int64) time.Time { return time.UnixMicro(micro).UTC() }
