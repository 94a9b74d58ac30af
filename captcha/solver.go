package captcha

import (
	"context"
	"time"
)

// Solver has tasks solved. It calls open before each submission that may have
// to be paid for, and ends each slot it got, in one of the three ways. Its
// error may have a method Outcome() string: a word from a short list, for
// metrics.
type Solver interface {
	Solve(ctx context.Context, t Task, open Opener) (Answer, error)
}

// Opener waits for a thread of the plan and takes one solve from the budget.
type Opener func(ctx context.Context) (Slot, error)

// Slot is the right to have one task open at the service.
type Slot interface {
	// Busy says that the service has no thread left though we held one
	// here: others use the same account. The slot stays.
	Busy()
	// Done ends the slot: the service is through with the task.
	Done()
	// Refused ends the slot: no task was made, and nothing is to be paid.
	Refused()
	// Hold ends the slot at a later time, since the service may be at the
	// task until then.
	Hold(until time.Time)
}
