package login

import (
	"context"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Login is one login of a session: by requests with one fingerprint, or by a
// recipe. Two logins with other credentials do not wait for each other.
type Login struct {
	Key  session.Key // shared
	Name string      // in hexadecimal digits; it depends on a password and is not shown
}

// Ask is how a turn is asked for.
type Ask struct {
	Login
	Holder string        // of the turn, if it is granted: unique
	Waited time.Duration // until now
	Life   time.Duration // of the turn, where nobody keeps it

	// Overdue is how long a turn may last before who waits gets the next.
	// Zero: as long as its holder lives.
	Overdue time.Duration

	// Guest: where a worker of another program has the session's lock, this
	// may be that worker's own request, so one goes to the site.
	Guest bool

	// Force: log in, whatever came of the last turn.
	Force bool
}

// State says what became of an Ask.
type State uint8

// The states.
const (
	Busy     State = iota // another has the turn: ask again
	Granted               // log in, and End the turn
	Answered              // another has just logged in
	Resting               // too many have failed: not before Until
)

// Grant is what an Ask gets.
type Grant struct {
	State    State
	Fence    int64       // Granted: the turn's number, higher than any before
	Answer   *Answer     // Answered
	Failures int         // in a row, until now
	Hindered int         // the same, of logins that came to nothing for another reason
	Won      []time.Time // Granted: of the successes that still count, oldest first
	Until    time.Time   // Resting
	Why      string      // Resting: the last failure
	Cause    Cause       // Resting: of that
}

// Answer is the reply to a login that succeeded, for others to be given. It
// has no header fields but these: no cookie, no code.
type Answer struct {
	Status      int
	Location    string
	ContentType string
	Body        []byte // at most MaxAnswer
	Version     int64  // of the jar that holds the login
}

// MaxAnswer bounds the body of an Answer.
const MaxAnswer = 64 << 10

// Result is how a turn ended.
type Result struct {
	Answer *Answer       // of a login that succeeded; nil: it did not
	Why    string        // it did not
	Cause  Cause         // it did not
	Rest   time.Duration // before the next turn is granted; may be 0
	Keep   time.Duration // for how long the answer is given
	Count  time.Duration // for how long the success is among Grant.Won; 0: it is not
}

// Cause says why a login came to nothing.
type Cause uint8

// The causes. Their numbers are in stores.
const (
	Refused  Cause = iota // by the site: it is a failure, and sites count those
	Hindered              // the site was not reached, or could judge nothing
	Idle                  // nothing was sent to the site
)

// MaxWon bounds the successes that are remembered.
const MaxWon = 10

// Hold is a turn that was granted.
type Hold struct {
	Login
	Holder string
	Fence  int64
}

// Locks is where proxies, and workers that log in by themselves, agree on who
// logs in. It is safe for concurrent use and returns soon after ctx ends. Any
// error is an outage.
type Locks interface {
	// Take asks for a turn. One is granted at a time for each Login; it
	// lasts for its Life unless it is kept. An Answer is given while no Void
	// has come over it. No worker of another program gets the
	// session's lock meanwhile, and where one has it the turn waits: Busy,
	// but for a Guest, or who has waited for as long as Overdue.
	Take(ctx context.Context, a Ask) (Grant, error)

	// Keep gives a turn another life from now on, and says whether it is
	// still the last one: a later fence ends it, and not the end of its life.
	Keep(ctx context.Context, h Hold, life time.Duration) (bool, error)

	// End gives a turn back. After another was granted it does nothing.
	End(ctx context.Context, h Hold, r Result) error

	// Void says that the session is logged out in the jar of that version:
	// answers of this and earlier ones are given to nobody.
	Void(ctx context.Context, key session.Key, version int64) error

	// Note remembers what a reply has shown of the session, unless that is
	// known of a later version of the jar.
	Note(ctx context.Context, key session.Key, s Shown) error

	// Status is what is known of the session: what Note has remembered last,
	// and whether of rests. It is for operators, and changes nothing.
	Status(ctx context.Context, of Login) (Status, error)
}
