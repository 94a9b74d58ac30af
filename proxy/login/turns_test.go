package login_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/locktest"
	"github.com/sessionproxy/sessionproxy/session"
)

func newTurns(shared login.Locks) *login.Turns {
	return login.NewTurns(shared, slog.New(slog.DiscardHandler))
}

func order() login.Order { return login.Order{Login: locktest.Of, Wait: 30 * time.Second} }

func begin(t *testing.T, turns *login.Turns, o login.Order) *login.Turn {
	t.Helper()
	turn, _, err := turns.Begin(t.Context(), o)
	if err != nil || turn == nil {
		t.Fatalf("no turn: %v", err)
	}
	return turn
}

// Who waits gets the answer; who comes first has the next turn.
func TestTurnsInOneProcess(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(nil)
		first := begin(t, turns, order())
		var mu sync.Mutex
		var got []int
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				turn, answer, err := turns.Begin(t.Context(), order())
				mu.Lock()
				defer mu.Unlock()
				got = append(got, i)
				switch {
				case err != nil:
					t.Error(err)
				case turn != nil && i == 0:
					turn.End(t.Context(), login.Result{Answer: &login.Answer{Status: 303, Version: 7}})
				case turn != nil || answer.Version != 7:
					t.Errorf("%d: a turn, or the answer %+v", i, answer)
				}
			})
			synctest.Wait()
		}
		if turns.UnderWay(locktest.Of.Key) == nil {
			t.Error("no login is under way")
		}
		first.End(t.Context(), login.Result{Why: "it failed"})
		wg.Wait()
		if len(got) != 5 || got[0] != 0 {
			t.Errorf("in the order %v, want the first one first", got)
		}
		if turns.UnderWay(locktest.Of.Key) != nil {
			t.Error("a login is under way")
		}
		time.Sleep(time.Minute + time.Second)
		begin(t, turns, order()).End(t.Context(), login.Result{})
	})
}

func TestWaitingIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(nil)
		turn := begin(t, turns, order())
		o := order()
		o.Fail = true
		start := time.Now()
		if _, _, err := turns.Begin(t.Context(), o); !errors.Is(err, login.ErrWait) || time.Since(start) != 30*time.Second {
			t.Errorf("after %v: %v, want ErrWait after 30s", time.Since(start), err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, _, err := turns.Begin(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a client that leaves: %v", err)
		}
		turn.End(t.Context(), login.Result{})
	})
}

// Of those that have waited long enough, one at a time goes on; the old login
// is no longer the last.
func TestAnOverdueTurnIsTakenOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(nil)
		old := begin(t, turns, order())
		start := time.Now()
		var had []time.Duration
		var mu sync.Mutex
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				turn := begin(t, turns, order())
				mu.Lock()
				had = append(had, time.Since(start).Round(time.Second))
				mu.Unlock()
				time.Sleep(40 * time.Second) // as long as the first: it hangs
				turn.End(t.Context(), login.Result{})
			})
		}
		time.Sleep(31 * time.Second)
		if old.Last(t.Context()) {
			t.Error("the old turn is the last one")
		}
		old.End(t.Context(), login.Result{Answer: &login.Answer{Version: 1}})
		wg.Wait()
		if len(had) != 3 || had[0] != 30*time.Second || had[1] != 60*time.Second || had[2] != 90*time.Second {
			t.Errorf("turns began after %v, want 30 s after each other", had)
		}
	})
}

// Three proxies share their locks: at any time one login is under way.
func TestTurnsOfManyProxies(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		shared := new(login.Memory)
		var now, most, logins atomic.Int32
		var wg sync.WaitGroup
		for range 3 {
			turns := newTurns(shared)
			for range 30 {
				wg.Go(func() {
					turn, answer, err := turns.Begin(t.Context(), order())
					if err != nil {
						t.Error(err)
					}
					if turn == nil {
						if answer.Version != 1 {
							t.Errorf("answer %+v", answer)
						}
						return
					}
					most.Store(max(most.Load(), now.Add(1)))
					time.Sleep(20 * time.Second) // longer than a turn that nobody keeps
					now.Add(-1)
					n := logins.Add(1)
					r := login.Result{Why: "the first fails"}
					if n > 1 {
						r = login.Result{Answer: &login.Answer{Version: 1}}
					}
					turn.End(t.Context(), r)
				})
			}
		}
		wg.Wait()
		if most.Load() != 1 || logins.Load() != 2 {
			t.Errorf("%d logins, %d at once; want the one that failed and another", logins.Load(), most.Load())
		}
	})
}

// away are locks that are out of reach.
type away struct{ login.Locks }

var errAway = errors.New("connection refused")

func (away) Take(context.Context, login.Ask) (login.Grant, error)          { return login.Grant{}, errAway }
func (away) Keep(context.Context, login.Hold, time.Duration) (bool, error) { return false, errAway }
func (away) End(context.Context, login.Hold, login.Result) error           { return errAway }
func (away) Void(context.Context, session.Key, int64) error                { return errAway }

// In an outage each proxy goes on alone.
func TestWithoutTheOthers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns(away{})
		turn := begin(t, turns, order())
		var wg sync.WaitGroup
		wg.Go(func() {
			if turn, answer, err := turns.Begin(t.Context(), order()); turn != nil || answer == nil || answer.Version != 3 {
				t.Errorf("%v, %+v, %v; want the other's answer", turn, answer, err)
			}
		})
		time.Sleep(time.Second)
		if !turn.Last(t.Context()) {
			t.Error("the turn is not the last one")
		}
		turn.End(t.Context(), login.Result{Answer: &login.Answer{Version: 3}})
		wg.Wait()
		turns.Void(t.Context(), locktest.Of.Key, 3)
		begin(t, turns, order()).End(t.Context(), login.Result{})
	})
}
