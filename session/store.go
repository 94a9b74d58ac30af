package session

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound says that the store has nothing under a key: the session was
// never set, or its life is over. No other error says so.
var ErrNotFound = errors.New("session not found")

// ErrAway says that a store's server does not answer now, which is known and
// told already: trying again at once is of no use.
var ErrAway = errors.New("the session store is away")

// The ID of a session that a client gets when it selects none, and the one
// that switches injection and capture off.
const (
	DefaultID = "default"
	NoneID    = "none"
)

// ValidID says whether s can name a session, or a worker: 1 to 64 of the
// characters that a URL leaves as they are (RFC 3986 section 2.3).
func ValidID(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == '~', c == '-':
		default:
			return false
		}
	}
	return true
}

// MaxPrivate bounds the private jars of a session, since clients choose the
// names of workers.
const MaxPrivate = 1000

// Key names one jar. With no Worker it is the shared jar of the session;
// with one, that worker's private jar in it.
type Key struct {
	Site   string // the site's key: lower-case host without "*."
	ID     string // of the session; DefaultID unless selected
	Worker string
}

// Shared is the key of the session that k belongs to.
func (k Key) Shared() Key { return Key{Site: k.Site, ID: k.ID} }

// Life bounds a session's life. It travels with each change, since it is the
// site's rule and not the store's. A private jar ends with its session at the
// latest: see [Store].
type Life struct {
	// Idle is the life of an unused session, renewed by each use. Zero: the
	// longest life of the jar's own cookies less 5 %, or 30 minutes where
	// all are session cookies.
	Idle time.Duration
	// Max is the absolute end, counted from the session's first cookie. Zero: none.
	Max time.Duration
}

// Info is what a list of sessions shows of one. No values.
type Info struct {
	Key     Key
	Cookies int
	Version int64
	Created time.Time // of the session's first cookie
	Used    time.Time // last renewed
	Expires time.Time // when it ends unless it is used
}

// Store shares jars. It is safe for concurrent use, and returns soon after ctx
// ends. Only ErrNotFound says that a session is absent: an outage is another
// error, and never an empty jar.
//
// Writers of different cookies both win; of one cookie, the rules of
// [Jar.Apply] say who does. What Apply returned holds at once for every later
// Load on the same Store and survives the death of the process.
//
// A private jar has a life of its own within that of its session: when the
// shared jar's life is over so is the private one's, and a session that starts
// anew does not bring it back. One that is made before the shared jar, such as
// for the CSRF token of a login page, lives as a session of session cookies
// does: Life.Idle, or 30 minutes where that is zero, whatever the lives of its
// cookies, until a use finds a shared jar. A session has at most [MaxPrivate];
// a new one takes the place of the least recently used. A use that was not
// written (see Renew) does not count.
type Store interface {
	// Load returns the jar, or ErrNotFound. Any number of callers share it;
	// none may change it. It reads memory, and asks a server only where
	// memory does not know. A session that was revoked, cleared or emptied
	// is an empty jar while its floor or marks last: a request that left
	// without its version would be below the one and late for the others.
	Load(ctx context.Context, key Key) (*Jar, error)

	// Apply makes the changes of u that [Jar.Apply] allows, restarts the
	// idle life, and returns the new jar with one Outcome for each change.
	// Changes that change nothing are not written.
	Apply(ctx context.Context, key Key, u Update, life Life) (*Jar, []Outcome, error)

	// Renew restarts the idle life of a session in use. It is cheap enough
	// for every request: a life of which more than nine tenths are left is
	// not written again. What is left of the session counts as the life of
	// a private jar here, where that is shorter. An unknown session is not an error.
	Renew(ctx context.Context, key Key, life Life) error

	// Revoke ends the session that key belongs to and all its private jars,
	// and raises a floor under all of them that outlives them by 24 h: see
	// [Jar.Floor]. An unknown session gets a floor too, since requests may
	// be under way.
	Revoke(ctx context.Context, key Key) error

	// Clear forgets the cookies of the session that key belongs to and its
	// private jars, with no floor: replies under way may fill it anew. An
	// unknown session is not an error.
	Clear(ctx context.Context, key Key) error

	// List returns the live shared jars of a site that hold cookies, or of
	// all sites where site is "", in order of site and ID.
	List(ctx context.Context, site string) ([]Info, error)

	// Now is the store's clock: whoever reckons the end of a cookie, or judges
	// whether it is over, does so by this one. The machine's own may differ from
	// it, and be set while the proxy runs.
	Now() time.Time

	// Close writes what is pending and frees the store.
	Close() error
}
