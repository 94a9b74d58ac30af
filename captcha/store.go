package captcha

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Token is a solved answer that is ready.
type Token struct {
	Value   string
	Expires time.Time // when it is too old to be sent
	// Prefetched says that it was solved since a client was shown the page.
	Prefetched bool
}

// source says where a token that was ready came from.
func (t Token) source() Source {
	if t.Prefetched {
		return Prefetched
	}
	return FromPool
}

// State is what a list of tokens shows of one key. No tokens.
type State struct {
	Key    Key
	Ready  int
	Ends   time.Time // when the first of them is too old; zero without any
	Needed bool      // within [NeedTime]
}

// Errors of a store that are no outage.
var (
	ErrEmpty = errors.New("no token is ready")
	ErrSpent = errors.New("the token was used already")
	// ErrNoList says that another program keeps something else where a
	// key's tokens belong. No other key suffers.
	ErrNoList = errors.New("what is stored there is no list of tokens; another program wrote it: remove it")
)

// ErrUnsure says of an outage that the store may have taken the token, or may
// take it yet: one that hangs reads what it was sent when it goes on.
var ErrUnsure = errors.New("the store did not say whether it took the token, which may be in use by others then; push another one")

// BudgetError says that a site's solves of the hour are used up.
type BudgetError struct {
	Site    string
	PerHour int
	Again   time.Duration // until the hour is over
}

// Error names the site, the bound and the remedy.
func (e *BudgetError) Error() string {
	return fmt.Sprintf("captcha budget of site %s: %d solves an hour are used up; the next is in %s, or raise budget.per_hour",
		e.Site, e.PerHour, e.Again.Round(time.Second))
}

// Outcome is what metrics call it.
func (e *BudgetError) Outcome() string { return "budget" }

// Times of the stores.
const (
	NeedTime  = time.Hour        // for which a key that was asked for counts as needed
	LeaseTime = 30 * time.Second // after which the threads of a proxy that fell silent come back
	QueueTime = 3 * time.Second  // after which a proxy that fell silent loses its places in the queue
	SpentTime = 5 * time.Minute  // for which a used token is remembered: no type's is valid longer
	MaxReady  = 500              // tokens of one key; older ones make room
)

// Claim is what one proxy has and wants of the plan's threads. A thread's ID is
// the proxy's own word, and unique among all proxies.
type Claim struct {
	Proxy   string
	Limit   int      // of the plan, or less
	Open    []string // threads that it has, and keeps
	Over    []string // threads that it had, and places in the queue that it gives up
	Waiting []string // places that it has or wants, in order
}

// Grant is the answer to a claim.
type Grant struct {
	IDs     []string // of those waiting, that now are open
	Open    int      // threads that all proxies have
	Proxies int      // that claimed within the last minute
}

// Store shares tokens, budgets and threads between proxies. It is safe for
// concurrent use and returns soon after ctx ends. Any error that is not named
// here is an outage.
//
// A token comes out once. Whoever else puts tokens into the store, or takes
// some out, is not asked to say so: a token of theirs lives [ForeignLife] from
// when it was first seen.
type Store interface {
	// Pop takes out the token that has been there longest, or returns
	// ErrEmpty. Its key then counts as needed.
	Pop(ctx context.Context, k Key) (Token, error)
	// Push puts a token in as the last, unless it came out before: ErrSpent.
	// One that is in already is there once. Where whether it is in can't be
	// known, the error is ErrUnsure.
	Push(ctx context.Context, k Key, t Token) error
	// Return puts a token back that came out and was not used, to be the next.
	// ErrUnsure is as in Push.
	Return(ctx context.Context, k Key, t Token) error
	// Look takes out what is too old, came out before, or is no token, and
	// says what is left.
	Look(ctx context.Context, k Key) (State, error)
	// Flush forgets a key's tokens, and says how many they were.
	Flush(ctx context.Context, k Key) (int, error)
	// Keys are those of a site that have tokens.
	Keys(ctx context.Context, site string) ([]Key, error)
	// Refill says whether a proxy may refill a key: one at a time may, until
	// it has not asked for a while.
	Refill(ctx context.Context, k Key, proxy string, d time.Duration) (bool, error)

	// Spend takes one from a site's solves of the hour, which begins with
	// the first. It returns how many were taken, or a *BudgetError.
	Spend(ctx context.Context, site string, perHour int) (int, error)
	// Refund gives one back that was not used.
	Refund(ctx context.Context, site string) error
	// Spent is how many were taken in this hour.
	Spent(ctx context.Context, site string) (int, error)

	// Threads renews what a proxy has, and gives what is free to those who
	// have waited longest, whichever proxy they wait at. A proxy that does
	// not claim within [LeaseTime] loses its threads.
	Threads(ctx context.Context, c Claim) (Grant, error)
}
