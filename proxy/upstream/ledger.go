package upstream

import (
	"context"
	"time"
)

// Ledger is where it stands who has leased which upstream. It is safe for
// concurrent use, by as many processes as share it, and its methods return soon
// after ctx ends.
//
// A lease is an owner's right to one upstream until a deadline, LeaseTime after
// it was acquired or last renewed, or later where no process has asked anything
// meanwhile. Processes that serve one owner hold one lease
// together; it ends when the last of them has released it or let it expire. No
// upstream ever has more leases that have not ended than its capacity.
//
// An upstream goes by its URL, see [Upstream.URL]; a lease by a token that is
// never used twice. Pools that nobody declared are empty.
//
// Every error means that the ledger could not be asked, and nothing else.
type Ledger interface {
	// LeaseTime is how long a lease lives without being renewed.
	LeaseTime() time.Duration

	// Declare says what the configuration gives a pool. Upstreams that it gave
	// before and no longer does leave the pool, those of Add stay.
	Declare(ctx context.Context, pool string, d Declaration) error

	// Acquire asks for leases, and answers each ask in turn. An owner that has a
	// lease gets that one. Else it stands in a queue, behind those that asked
	// before it in any process, until it gets one or has not asked for
	// QueueTime. A new lease is on the upstream that the owner had last, if that
	// is free, else on the one with the fewest leases that was used least
	// recently. An upstream that rests is given to nobody.
	Acquire(ctx context.Context, pool string, asks []Ask) ([]Answer, error)

	// Leave takes owners out of the queue.
	Leave(ctx context.Context, pool string, owners []string) error

	// Renew renews what this process holds, and says how each lease stands.
	Renew(ctx context.Context, pool string, held []Hold) ([]Standing, error)

	// Release gives leases back, for this process. Tokens that are not known
	// are no error.
	Release(ctx context.Context, pool string, back []Return) error

	// Rest gives an upstream no new leases for a while: r.Base, twice that at
	// each further failure, r.Limit at most, and up to a quarter more, so that
	// not all come back at once. While it rests already it is not counted as
	// another failure. Rest returns how long it rests now.
	Rest(ctx context.Context, pool, url string, r Rest) (time.Duration, error)

	// Recover ends an upstream's rest and forgets its failures.
	Recover(ctx context.Context, pool, url string) error

	// Add puts an upstream into a pool until it is removed.
	Add(ctx context.Context, pool, url string) error

	// Remove takes an upstream out of a pool, wherever it comes from, until it
	// is added. It reports whether there was one.
	Remove(ctx context.Context, pool, url string) (bool, error)

	// End ends a lease: its owner asks for another. What is under way on it
	// finishes.
	End(ctx context.Context, pool, token string) error

	// List shows the pool's upstreams in order of their URLs.
	List(ctx context.Context, pool string) ([]Status, error)

	// Turn says whether it is this process that does a job which one of all is
	// to do, once in a time of every.
	Turn(ctx context.Context, pool, job string, every time.Duration) (bool, error)
}

// LeaseTime is how long leases live, unless a test is in a hurry.
const LeaseTime = 30 * time.Second

// QueueTime is how long an owner keeps its place in the queue without asking.
const QueueTime = 3 * time.Second

// Declaration is what a configuration says of a pool.
type Declaration struct {
	URLs     []string
	Capacity int  // leases per upstream; 1 at least
	Discover bool // take what others add to the pool, where the ledger is one that others can
}

// Ask asks for a lease.
type Ask struct {
	Owner  string
	Token  string // of the lease, if a new one is given; never used before
	Not    string // token of a lease that the owner does not want any more; "" none
	Only   string // URL of the one upstream that will do, resting or not, past the queue; "" any
	Strict bool   // the owner stays with a lease whose upstream rests or has left
}

// Answer is the answer to an Ask.
type Answer struct {
	Token, URL string        // of the lease; "" none
	Rests      time.Duration // how long its upstream rests yet
	Failures   int           // of the upstream, since it was last well
	Why        Why           // there is none
	After      time.Duration // when to expect another answer; 0 unknown
}

// Why says why there is no lease.
type Why string

// The values of Why.
const (
	Empty    Why = "empty"    // the pool has no upstreams
	Resting  Why = "resting"  // all upstreams with room rest
	Full     Why = "full"     // all places are taken, or others were first
	Settling Why = "settling" // the ledger was away; leases that it may not know run out first
)

// Hold is a lease that a process holds.
type Hold struct {
	Token, Owner, URL string
}

// Standing says how a lease stands.
type Standing struct {
	State State
	Rests time.Duration // how long its upstream rests yet
}

// State is the state of a lease.
type State int

// The values of State.
const (
	Kept    State = iota // renewed
	Ended                // renewed, but the owner is to have another
	Removed              // renewed, but its upstream has left the pool
	Gone                 // not renewed: it has expired
)

// Return is a lease that is given back.
type Return struct {
	Token  string
	Forget bool // the owner need not get this upstream again
}

// Rest is a failure of an upstream.
type Rest struct {
	Reason      Reason
	Base, Limit time.Duration
}

// Status is an upstream as a list shows it.
type Status struct {
	URL      string
	Source   Source
	Capacity int
	Failures int           // since it was last well
	Reason   Reason        // of the last failure; "" none
	Rests    time.Duration // how long yet
	Foreign  bool          // somebody took it from the pool's set in Redis
	Leases   []Held        // in order of their owners
}

// Held is a lease as a list shows it.
type Held struct {
	Token, Owner string
	Since        time.Time
}

// Source is how an upstream came into its pool.
type Source string

// The values of Source.
const (
	Configured Source = "config"
	Added      Source = "added"
	Discovered Source = "discovered"
)
