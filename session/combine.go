package session

import (
	"slices"
	"time"
)

// Matters says whether a record is of use at now: for its cookies, or for its
// floor.
func (r *Record) Matters(now int64) bool { return r.Live(now) || r.Floor(now) != 0 }

// Combine returns r with what only other knows of the same key, in a session of
// shared (nil for a shared key itself): all of it where r is nil, else the
// cookies and deletions that are newer than what r has of them, and a higher
// floor. It is for a store that lost what it had, and for copies between stores:
// whoever combines the same gets the same. r itself is returned where other adds
// nothing.
func (r *Record) Combine(other, shared *Record, now int64) *Record {
	switch {
	case !other.Matters(now), max(r.Floor(now), shared.Floor(now)) > other.Jar.floor:
		return r
	case r == nil:
		return other
	}
	jar := r.Jar.raised(other.Jar)
	if other.Live(now) {
		for _, c := range jar.lacking(other.Jar) {
			before := jar
			jar, _ = jar.Apply(Update{Base: c.Version, Writer: c.Writer, Timid: true, Cookies: []Cookie{c}}, c.Version)
			if jar != before {
				jar.date(&c, max(before.version, c.Version))
			}
		}
	}
	if jar == r.Jar {
		return r
	}
	return &Record{Jar: jar, Used: max(r.Used, other.Used), Ends: max(r.Ends, other.Ends)}
}

// date gives a cookie that was just taken in, or the mark of its deletion, the
// version that it had, the login that it comes from and its past: new ones would be newer
// than changes of it that are still to come. j is nobody else's yet.
func (j *Jar) date(c *Cookie, version int64) {
	id := c.Identity()
	for i := range j.cookies {
		if j.cookies[i].Identity() == id {
			j.cookies[i].Version, j.cookies[i].Writer, j.cookies[i].Login, j.cookies[i].Past = c.Version, c.Writer, c.Login, c.Past
		}
	}
	for i := range j.marks {
		if j.marks[i].Identity == id {
			j.marks[i].Version = c.Version
		}
	}
	j.version = version
}

// raised is j with the floor of other, where it has a lower one, and without
// what is below.
func (j *Jar) raised(other *Jar) *Jar {
	if j.floor >= other.floor {
		return j
	}
	next := &Jar{
		cookies: slices.DeleteFunc(slices.Clone(j.cookies), func(c Cookie) bool { return c.Version < other.floor }),
		marks:   j.marks, version: max(j.version, other.floor), floor: other.floor, created: j.created,
		revoked: slices.Clone(j.revoked),
	}
	if len(next.cookies) == 0 {
		next.created = time.Time{}
	}
	for _, name := range other.revoked {
		if !slices.ContainsFunc(next.cookies, func(c Cookie) bool { return c.Name == name }) {
			next.revoked = append(next.revoked, name)
		}
	}
	slices.Sort(next.revoked)
	next.revoked = slices.Compact(next.revoked)
	next.prepare()
	return next
}

// Lacks says whether other has cookies or deletions that j lacks: see
// [Record.Combine].
func (j *Jar) Lacks(other *Jar) bool { return len(j.lacking(other)) > 0 }

// lacking are the cookies and deletions of other that j lacks: those of which
// it has an older version, and those of which it has none and never could, as
// it is older than they are or began after.
func (j *Jar) lacking(other *Jar) []Cookie {
	have := j.Versions()
	began := !j.created.IsZero() && j.created.UnixMicro() > other.version
	lacks := func(id Identity, version int64) bool {
		mine, known := have[id]
		return known && mine < version || !known && (began || j.version < version)
	}
	var list []Cookie
	for i := range other.cookies {
		if c := &other.cookies[i]; lacks(c.Identity(), c.Version) {
			list = append(list, *c)
		}
	}
	for _, m := range other.marks {
		if lacks(m.Identity, m.Version) {
			list = append(list, Cookie{
				Name: m.Name, Domain: m.Domain, Path: m.Path, HostOnly: m.HostOnly, Partitioned: m.Partitioned,
				Secure: true, HTTPOnly: true, Expires: past, Version: m.Version, Writer: m.Writer,
			})
		}
	}
	return list
}

// Versions are those of the cookies and marks of j.
func (j *Jar) Versions() map[Identity]int64 {
	have := make(map[Identity]int64, len(j.cookies)+len(j.marks))
	for i := range j.cookies {
		have[j.cookies[i].Identity()] = j.cookies[i].Version
	}
	for _, m := range j.marks {
		have[m.Identity] = m.Version
	}
	return have
}
