package session

import (
	"time"
)

// Jar is one state of a session's cookies. It never changes, so any number of
// requests read it at once; Apply returns the next state.
//
// The zero Jar is empty.
type Jar struct {
	cookies []Cookie // in the order of a Cookie header: longer paths first, then older ones
	marks   []Mark   // what was deleted, for late replies

	version int64
	floor   int64
	revoked []string // names in the jar when it was revoked; sorted
}

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

// Floor is the version of the last revocation, or 0. A reply to a request that
// left with a lower version is neither captured nor are its shared cookies
// delivered.
func (j *Jar) Floor() int64 { return j.floor }

// Apply returns the jar after u, with one Outcome for each of u.Cookies. clock
// is the store's clock in microseconds since 1970; each change gets the version
// max(last+1, clock). Where nothing changed it returns j itself.
//
// A late change never deletes, and sets only where the present value (or mark)
// is ByReply, and u is not Timid. A change whose Base is below the floor is
// refused. Limits: 180 cookies a domain, 3000 a jar, the least recently used
// goes first (RFC 6265bis section 6.1).
func (j *Jar) Apply(u Update, clock int64) (*Jar, []Outcome) { panic("not built") }

// Revoke returns an empty jar with a floor, which remembers the names.
func (j *Jar) Revoke(clock int64) *Jar { panic("not built") }

// Clear returns an empty jar with marks for all it held.
func (j *Jar) Clear(clock int64) *Jar { panic("not built") }

// End is when the jar's life ends if it was last used at used: the end of
// Life.Idle, but not after Life.Max.
func (j *Jar) End(used time.Time, life Life) time.Time { panic("not built") }

// MarshalBinary and UnmarshalBinary are the embedded store's form of a jar;
// values keep their bytes, UTF-8 or not.
func (j *Jar) MarshalBinary() ([]byte, error) { panic("not built") }

// UnmarshalBinary reads what MarshalBinary wrote.
func (j *Jar) UnmarshalBinary(b []byte) error { panic("not built") }
