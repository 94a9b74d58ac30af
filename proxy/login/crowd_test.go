package login_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/locktest"
)

// counted are locks that count who asks.
type counted struct {
	login.Locks
	asked atomic.Int64
}

func (c *counted) Take(ctx context.Context, a login.Ask) (login.Grant, error) {
	c.asked.Add(1)
	return c.Locks.Take(ctx, a)
}

// Thousands wait for one login: one of them asks for all, here and at another
// proxy. Each that asks by itself costs a round trip to Redis, one after the
// other, and the last are too late for the answer.
func TestOneAsksForThousands(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		locks := &counted{Locks: new(login.Memory)}
		here, there := newTurns(locks), newTurns(locks)
		turn := begin(t, here, order())
		var wg sync.WaitGroup
		var answered, left atomic.Int64
		gone, leave := context.WithCancel(t.Context())
		for i := range 6000 {
			turns, ctx := here, t.Context()
			if i%2 == 1 {
				turns = there
			}
			if i%3 == 0 {
				ctx = gone
			}
			wg.Go(func() {
				turn, answer, err := turns.Begin(ctx, order())
				switch {
				case errors.Is(err, context.Canceled):
					left.Add(1)
				case turn != nil || err != nil || answer.Version != 7:
					t.Errorf("%v, %+v, %v; want the other's answer", turn, answer, err)
				default:
					answered.Add(1)
				}
			})
		}
		time.Sleep(time.Second)
		leave() // the first one at each, too
		time.Sleep(time.Second)
		turn.End(t.Context(), login.Result{Answer: &login.Answer{Version: 7}})
		wg.Wait()
		if answered.Load() != 4000 || left.Load() != 2000 {
			t.Errorf("%d were answered and %d left, want 4000 and 2000", answered.Load(), left.Load())
		}
		// The other proxy asks every 40 ms, and once for each first one that leaves.
		if n := locks.asked.Load(); n > 200 {
			t.Errorf("asked %d times", n)
		}
	})
}

// By force no answer will do, whoever was given one.
func TestAnAnswerIsNotForcedOnAnybody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(nil)
		turn := begin(t, turns, order())
		forced := order()
		forced.Force = true
		var wg sync.WaitGroup
		for _, o := range []login.Order{order(), forced, order()} {
			wg.Go(func() {
				turn, _, err := turns.Begin(t.Context(), o)
				if (turn != nil) != o.Force || err != nil {
					t.Errorf("forced %t: %v, %v", o.Force, turn, err)
				}
				if turn != nil {
					turn.End(t.Context(), login.Result{Answer: &login.Answer{Version: 8}})
				}
			})
			synctest.Wait()
		}
		turn.End(t.Context(), login.Result{Answer: &login.Answer{Version: 7}})
		wg.Wait()
		if turns.UnderWay(locktest.Of.Key) != nil {
			t.Error("a login is under way")
		}
	})
}
