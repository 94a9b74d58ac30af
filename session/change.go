package session

// Update is what one reply, import or operator changes in a jar.
type Update struct {
	// Base is the version of the jar that the request left with: 0 where
	// there was none. A cookie whose version is higher changed since, and
	// the update is late for it. Writers that are no reply use [Latest].
	Base int64

	Writer Writer

	// Timid: where late, it sets nothing. For redirects and 4xx replies of
	// sites that declare no login, whose Set-Cookie is often the fresh
	// anonymous session of a client that was logged out.
	Timid bool

	// Cookies to set. One whose Expires is not after the time of the change
	// deletes the cookie of its identity.
	Cookies []Cookie

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
	Revoked                  // refused: the request left before the session was revoked
	Evicted                  // set, but a limit pushed it out at once
)
