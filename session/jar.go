package session

import (
	"cmp"
	"math"
	"slices"
	"time"
	"unsafe"
)

// Jar is one state of a session's cookies. It never changes, so any number of
// requests read it at once; Apply returns the next state.
//
// The zero Jar is empty.
type Jar struct {
	cookies []Cookie // in the order of a Cookie header: longer paths first, then older ones
	marks   []Mark   // what was deleted, for late replies; oldest first

	version int64
	floor   int64
	created time.Time // when the first cookie came into the empty jar
	revoked []string  // names in the jar when it was revoked; sorted

	// What Merge needs, made once per state.
	sent  []sent           // of each cookie
	first map[string]int32 // name → its first cookie
	size  int              // see Size
}

// sent is what Merge reads of a cookie: a third of its bytes, since every request
// looks at every cookie.
type sent struct {
	text         string // "; name=value", or "; value" of a nameless cookie
	domain, path string
	expires      int64 // microseconds since 1970
	next         int32 // the next cookie of this name, or -1
	name         uint16
	hostOnly     bool
	secure       bool
	sameSite     SameSite
}

const separator = "; "

// pair is the cookie as it stands in a Cookie header.
func (s *sent) pair() string { return s.text[len(separator):] }

// Mark is what a deleted cookie leaves behind, so that a late reply can be
// told from a new one. Marks are bounded: the oldest go first.
type Mark struct {
	Identity
	Version int64
	Writer  Writer
}

// Cookies returns the jar's cookies in the order of a Cookie header, expired
// ones included. The caller must not change them.
func (j *Jar) Cookies() []Cookie { return j.cookies }

// Version is the highest version ever given in this jar. A request remembers
// the one it left with.
func (j *Jar) Version() int64 { return j.version }

// Login is the version of the last login whose cookies the jar holds (see
// [Cookie.Login]), or 0.
func (j *Jar) Login() int64 {
	var last int64
	for i := range j.cookies {
		last = max(last, j.cookies[i].Login)
	}
	return last
}

// Renewed is the version of the last change of a cookie that comes from a
// login, or 0. A request that left before it carried an older state of the
// session, and its reply says nothing of this one.
func (j *Jar) Renewed() int64 {
	var last int64
	for i := range j.cookies {
		if j.cookies[i].Login > 0 {
			last = max(last, j.cookies[i].Version)
		}
	}
	return last
}

// Floor is the version of the last revocation, or 0. A reply to a request that
// left with a lower version is neither captured nor are its shared cookies
// delivered.
func (j *Jar) Floor() int64 { return j.floor }

// Size is about how many bytes of memory the jar takes: for whoever keeps one that
// has been replaced. A nil jar takes none.
func (j *Jar) Size() int {
	if j == nil {
		return 0
	}
	return j.size
}

// cookieSize is what a cookie takes beside its texts: itself, what is sent of
// it, and its part of the index.
const cookieSize = int(unsafe.Sizeof(Cookie{})+unsafe.Sizeof(sent{})) + 48

// Created is when the jar, being empty, got its first cookie: the start of the
// session. Zero for an empty jar.
func (j *Jar) Created() time.Time { return j.created }

// Revoke returns an empty jar with a floor, which remembers the names.
func (j *Jar) Revoke(clock int64) *Jar {
	v := j.nextVersion(clock)
	names := make([]string, 0, len(j.cookies)+len(j.revoked))
	for i := range j.cookies {
		names = append(names, j.cookies[i].Name)
	}
	names = append(names, j.revoked...)
	// Sessions that are revoked again and again keep their newest names.
	names = names[:min(len(names), maxRevoked)]
	slices.Sort(names)
	return &Jar{version: v, floor: v, revoked: slices.Clip(slices.Compact(names))}
}

// Clear returns an empty jar with marks for all it held. The marks are of
// replies, so that replies under way may fill the jar anew; those that are
// [Update.Timid] may not.
func (j *Jar) Clear(clock int64) *Jar {
	next := &Jar{version: j.nextVersion(clock), floor: j.floor, revoked: j.revoked}
	next.marks = slices.Clone(j.marks)
	for i := range j.cookies {
		next.marks = append(next.marks, Mark{j.cookies[i].Identity(), next.version, ByReply})
	}
	next.marks = lastMarks(next.marks)
	return next
}

// End is when the jar's life ends if it was last used at used: the end of
// Life.Idle, but not after Life.Max.
func (j *Jar) End(used time.Time, life Life) time.Time {
	idle := life.Idle
	if idle == 0 {
		idle = j.idle()
	}
	end := used.Add(idle)
	if latest := j.created.Add(life.Max); life.Max > 0 && !j.created.IsZero() && latest.Before(end) {
		return latest
	}
	return end
}

// idle is the life that the site itself gives its session: that of its longest
// cookie as it was set, less 5 % so that it is renewed here before it ends
// there.
func (j *Jar) idle() time.Duration {
	var longest time.Duration
	for i := range j.cookies {
		if c := &j.cookies[i]; !c.Expires.IsZero() {
			longest = max(longest, c.Expires.Sub(c.Used))
		}
	}
	if longest == 0 {
		return 30 * time.Minute
	}
	return longest - longest/20
}

func (j *Jar) nextVersion(clock int64) int64 { return max(j.version+1, clock) }

// prepare makes what Merge needs. It may change j, which nobody else has yet.
func (j *Jar) prepare() {
	j.sent = make([]sent, len(j.cookies))
	j.first = make(map[string]int32, len(j.cookies))
	j.size = len(j.marks) * int(unsafe.Sizeof(Mark{}))
	for i := len(j.cookies) - 1; i >= 0; i-- {
		c := &j.cookies[i]
		s := &j.sent[i]
		*s = sent{
			domain: c.Domain, path: c.Path, expires: math.MaxInt64, next: -1,
			name: uint16(len(c.Name)), hostOnly: c.HostOnly, secure: c.Secure, sameSite: c.SameSite,
		}
		if c.Name == "" {
			s.text = separator + c.Value
		} else {
			s.text = separator + c.Name + "=" + c.Value
		}
		// Let go of the header line that the cookie came in.
		c.Name, c.Value = s.pair()[:len(c.Name)], s.pair()[len(s.pair())-len(c.Value):]
		if !c.Expires.IsZero() {
			s.expires = c.Expires.UnixMicro()
		}
		j.size += cookieSize + len(s.text) + len(s.domain) + len(s.path)
		if n, ok := j.first[c.Name]; ok {
			s.next = n
		}
		j.first[c.Name] = int32(i)
	}
}

// compareOrder is the order of a Cookie header: RFC 6265bis section 5.8.3,
// step 2.
func compareOrder(a, b *Cookie) int {
	return cmp.Or(cmp.Compare(len(b.Path), len(a.Path)), a.Created.Compare(b.Created))
}
