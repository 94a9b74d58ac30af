package captcha_test

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

func TestATokenIsSolvedOnceAndUsedOnce(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		first, source := b.get(login)
		if left := time.Until(first.Expires); source != captcha.Solved || left > 90*time.Second || left < 80*time.Second {
			b.Errorf("from %s, for %v", source, left)
		}
		if second, _ := b.get(login); second.Value == first.Value || len(b.service.Tasks()) != 2 {
			b.Errorf("%d tasks for two tokens, one twice", len(b.service.Tasks()))
		}
		b.ready(0)
		if s := b.records()[1]; s.Outcome != "solved" || s.Type != captcha.RecaptchaV3 || s.Purpose != captcha.ForForm || s.Spent != 2 || s.Took < 5*time.Second {
			b.Errorf("record %+v", s)
		}
		if said := fmt.Sprintf("%v %+v", b.records(), b.records()); strings.Contains(said, first.Value) || strings.Contains(said, apiKey) {
			b.Errorf("a secret stands in %s", said)
		}
	})
}

func TestATokenThatIsReadyCostsNothing(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		if err := b.pool.Push(b.Context(), login.Key(), "pushed"); err != nil {
			b.Fatal(err)
		}
		got, source := b.get(login)
		if got.Value != "pushed" || source != captcha.FromPool || len(b.service.Calls("")) != 0 || time.Until(got.Expires) > captcha.ForeignLife {
			b.Errorf("%+v from %s after %d calls", got, source, len(b.service.Calls("")))
		}
		if err := b.pool.Push(b.Context(), login.Key(), "pushed"); !errors.Is(err, captcha.ErrSpent) {
			b.Errorf("it was pushed again: %v", err)
		}
	})
}

func TestTestKeysAreAnsweredAtOnce(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		verifier := captchatest.NewVerifier()
		for _, tt := range []struct {
			key, secret string
			kind        captcha.Type
			fails       bool
		}{
			{"6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI", "6LeIxAcTAAAAAGG-vFI1TnRWxMZNFuojJ4WifJWe", captcha.RecaptchaV2, false},
			{"1x00000000000000000000AA", "1x0000000000000000000000000000000AA", captcha.Turnstile, false},
			{"1x00000000000000000000BB", "1x0000000000000000000000000000000AA", captcha.Turnstile, false},
			{"3x00000000000000000000FF", "1x0000000000000000000000000000000AA", captcha.Turnstile, false},
			{"2x00000000000000000000AB", "", captcha.Turnstile, true},
			{"2x00000000000000000000BB", "", captcha.Turnstile, true},
		} {
			a := login
			a.SiteKey, a.Type, a.PerHour = tt.key, tt.kind, 0
			got, source, err := b.pool.Get(b.Context(), a)
			if tt.fails != (err != nil) || source != captcha.TestKey {
				b.Errorf("%s: %v from %q", tt.key, err, source)
			}
			if !tt.fails && !verifier.Verify(tt.secret, got.Value).Success {
				b.Errorf("%s: its secret refuses %q", tt.key, got.Value)
			}
		}
		if len(b.service.Calls("")) != 0 || b.took() != 0 {
			b.Errorf("%d calls, %v", len(b.service.Calls("")), b.took())
		}
	})
}

func TestAConstantIsGivenToAll(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		a := captcha.Ask{Task: captcha.Task{Type: captcha.RecaptchaV2}, Static: "let me in"}
		for range 3 {
			if got, source := b.get(a); got.Value != "let me in" || source != captcha.Static {
				b.Errorf("%q from %s", got.Value, source)
			}
		}
		if n := len(b.service.Calls("")); n != 0 {
			b.Errorf("%d calls for a constant", n)
		}
	})
}

func TestThreadsBoundTheTasksAndAllAreServedInOrder(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 2}, func(b *bench) {
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		seen := map[string]bool{}
		for i := range 5 {
			wg.Go(func() {
				got, _, err := b.pool.Get(b.Context(), login)
				mu.Lock()
				defer mu.Unlock()
				if err != nil || seen[got.Value] {
					b.Errorf("asker %d: %q, %v", i, got.Value, err)
				}
				seen[got.Value] = true
				order = append(order, i)
			})
			time.Sleep(time.Millisecond)
			synctest.Wait()
		}
		wg.Wait()
		if b.service.MostOpen() != 2 || b.service.Refused() != 0 || len(b.service.Tasks()) != 5 {
			b.Errorf("%d tasks, %d open at once, %d refused; want 5, 2 and none", len(b.service.Tasks()), b.service.MostOpen(), b.service.Refused())
		}
		if !slices.IsSorted(order) {
			b.Errorf("served in the order %v", order)
		}
	})
}

// Others use the account too.
func TestABusyAccountIsWaitedForWithFewerThreads(t *testing.T) {
	for _, noSlot := range []bool{false, true} {
		onFakeClock(t, captchatest.Options{Threads: 3, Switches: captchatest.Switches{NoSlot: noSlot}}, func(b *bench) {
			b.service.SetForeign(1)
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if _, _, err := b.pool.Get(b.Context(), login); err != nil {
						b.Error(err)
					}
				})
			}
			wg.Wait()
			if b.service.MostOpen() != 2 || b.service.Refused() != 1 || len(b.service.Tasks()) != 5 {
				b.Errorf("%d tasks, %d open at once, %d refused; want 5, 2 and one", len(b.service.Tasks()), b.service.MostOpen(), b.service.Refused())
			}
		})
		onFakeClock(t, captchatest.Options{Threads: 3, Switches: captchatest.Switches{NoSlot: noSlot}}, func(b *bench) {
			b.service.SetForeign(3)
			_, _, err := b.pool.Get(b.Context(), login)
			e, ok := errors.AsType[*captchaai.Error](err)
			if !ok || e.Class != captchaai.NoThreads || b.service.Refused() != 5 {
				b.Errorf("%v after %d tries, want it given up after 5", err, b.service.Refused())
			}
			if spent, _ := b.store.Spent(b.Context(), "shop.test"); spent != 0 {
				b.Errorf("%d spent of the budget for nothing", spent)
			}
		})
	}
}

func TestABudgetRefusesWhoCameLast(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		a := login
		a.PerHour = 3
		var refused, served []int
		var mu sync.Mutex
		var wg sync.WaitGroup
		for i := range 5 {
			wg.Go(func() {
				_, _, err := b.pool.Get(b.Context(), a)
				mu.Lock()
				defer mu.Unlock()
				var over *captcha.BudgetError
				switch {
				case err == nil:
					served = append(served, i)
				case errors.As(err, &over) && b.took() < time.Second:
					refused = append(refused, i)
				default:
					b.Errorf("asker %d: %v after %v", i, err, b.took())
				}
			})
			synctest.Wait()
		}
		wg.Wait()
		if len(served) != 3 || !slices.Equal(refused, []int{3, 4}) || len(b.service.Tasks()) != 3 {
			b.Errorf("served %v, refused %v, with %d tasks", served, refused, len(b.service.Tasks()))
		}
		time.Sleep(time.Hour)
		b.get(a)
	})
}

func TestWhoLeavesLeavesHisTokenBehind(t *testing.T) {
	for _, tt := range []struct {
		name    string
		leave   func(b *bench, a captcha.Ask) error
		wantErr error
	}{
		{"the client goes", func(b *bench, a captcha.Ask) error {
			ctx, cancel := context.WithTimeout(b.Context(), 3*time.Second)
			defer cancel()
			_, _, err := b.pool.Get(ctx, a)
			return err
		}, context.DeadlineExceeded},
		{"max_wait is over", func(b *bench, a captcha.Ask) error {
			a.MaxWait = 3 * time.Second
			_, _, err := b.pool.Get(b.Context(), a)
			return err
		}, captcha.ErrMaxWait},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, captchatest.Options{}, func(b *bench) {
				if err := tt.leave(b, login); !errors.Is(err, tt.wantErr) || b.took() != 3*time.Second {
					b.Fatalf("%v after %v", err, b.took())
				}
				time.Sleep(5 * time.Second)
				b.ready(1)
				if _, source := b.get(login); source != captcha.FromPool || len(b.service.Tasks()) != 1 {
					b.Errorf("the next token came from %s, after %d tasks", source, len(b.service.Tasks()))
				}
			})
		})
	}
}

func TestASolveThatNobodyWaitsForIsNotBegun(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 1, Outcome: solvedAfter(30 * time.Second)}, func(b *bench) {
		var wg sync.WaitGroup
		wg.Go(func() { b.get(login) })
		synctest.Wait()
		for range 4 { // no thread is free for these
			wg.Go(func() {
				ctx, cancel := context.WithTimeout(b.Context(), 2*time.Second)
				defer cancel()
				_, _, _ = b.pool.Get(ctx, login)
			})
		}
		wg.Wait()
		time.Sleep(time.Minute)
		if spent, _ := b.store.Spent(b.Context(), "shop.test"); len(b.service.Tasks()) != 1 || spent != 1 {
			b.Errorf("%d tasks and %d spent, want one for who stayed", len(b.service.Tasks()), spent)
		}
	})
}

func TestATokenThatComesWhileSomeWaitIsTheirs(t *testing.T) {
	onFakeClock(t, captchatest.Options{Outcome: solvedAfter(60 * time.Second)}, func(b *bench) {
		var got captcha.Token
		var wg sync.WaitGroup
		wg.Go(func() { got, _ = b.get(login) })
		time.Sleep(3 * time.Second)
		if err := b.store.Push(b.Context(), login.Key(), captcha.Token{Value: "theirs", Expires: time.Now().Add(time.Minute)}); err != nil {
			b.Fatal(err)
		}
		wg.Wait()
		if got.Value != "theirs" || b.took() > 5*time.Second {
			b.Errorf("%q after %v, want theirs at once", got.Value, b.took())
		}
		time.Sleep(70 * time.Second)
		b.ready(1) // what was under way for him
	})
}

func TestWhoComesLaterTakesNothingFromWhoWaits(t *testing.T) {
	onFakeClock(t, captchatest.Options{Outcome: solvedAfter(60 * time.Second)}, func(b *bench) {
		var first, second captcha.Token
		var wg sync.WaitGroup
		wg.Go(func() { first, _ = b.get(login) })
		time.Sleep(100 * time.Millisecond)
		if err := b.store.Push(b.Context(), login.Key(), captcha.Token{Value: "theirs", Expires: time.Now().Add(time.Minute)}); err != nil {
			b.Fatal(err)
		}
		wg.Go(func() { second, _ = b.get(login) })
		wg.Wait()
		if first.Value != "theirs" || second.Value == "theirs" {
			b.Errorf("%q for the first and %q for the second", first.Value, second.Value)
		}
	})
}

// inTime solves after a time, with tokens that are as old as it says.
type inTime struct{ takes, age time.Duration }

func (s inTime) Solve(ctx context.Context, _ captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	slot, err := open(ctx)
	if err != nil {
		return captcha.Answer{}, err
	}
	defer slot.Done()
	time.Sleep(s.takes)
	return captcha.Answer{Token: fmt.Sprint("token.", rand.Text()), Issued: time.Now().Add(-s.age)}, nil
}

// A token that comes in the moment in which its client goes is not lost.
func TestATokenOfTheLastMomentIsKept(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		b.pool.Use(captcha.Service{Solver: inTime{takes: 3 * time.Second}, Threads: 1})
		for i := range 60 {
			a := login
			a.SiteKey = fmt.Sprint("key", i)
			ctx, cancel := context.WithTimeout(b.Context(), 3*time.Second)
			_, _, err := b.pool.Get(ctx, a)
			cancel()
			synctest.Wait()
			s, _ := b.store.Memory.Look(b.Context(), a.Key())
			if (err == nil) == (s.Ready == 1) {
				b.Fatalf("try %d: %v, and %d tokens are ready", i, err, s.Ready)
			}
		}
	})
}

func TestATokenThatCameTooLateIsNoToken(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		b.pool.Use(captcha.Service{Solver: inTime{age: 91 * time.Second}, Threads: 1})
		_, _, err := b.pool.Get(b.Context(), login)
		if err == nil || b.records()[0].Outcome != "too_old" {
			b.Errorf("%v, want a token that is too old", err)
		}
		b.ready(0)
	})
}

func TestAFailureIsToldAndCostsTheLastToCome(t *testing.T) {
	n := 0
	outcome := func(captchatest.Task) captchatest.Outcome {
		if n++; n == 1 {
			return captchatest.Outcome{Code: "ERROR_BAD_TOKEN_OR_PAGEURL"}
		}
		return captchatest.Outcome{After: 20 * time.Second}
	}
	onFakeClock(t, captchatest.Options{Outcome: outcome}, func(b *bench) {
		var errs [2]error
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() { _, _, errs[i] = b.pool.Get(b.Context(), login) })
			synctest.Wait()
		}
		wg.Wait()
		e, ok := errors.AsType[*captchaai.Error](errs[1])
		if errs[0] != nil || !ok || e.Code != "ERROR_BAD_TOKEN_OR_PAGEURL" || len(b.service.Tasks()) != 2 {
			b.Errorf("%v and %v, want a token for who came first", errs[0], errs[1])
		}
		var outcomes []string
		for _, s := range b.records() {
			outcomes = append(outcomes, s.Outcome)
		}
		if !slices.Equal(outcomes, []string{"task", "solved"}) {
			b.Errorf("outcomes %v", outcomes)
		}
	})
}

func TestBadAsksAreRefused(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		bad := login
		bad.Page = "/login"
		if _, _, err := b.pool.Get(b.Context(), bad); err == nil {
			b.Error("an ask without a page was served")
		}
		if err := b.pool.Warm(bad, 1); err == nil {
			b.Error("an ask without a page was warmed")
		}
		for _, v := range []string{"", "a b", "a\r\nb"} {
			if err := b.pool.Push(b.Context(), login.Key(), v); err == nil {
				b.Errorf("%q was pushed", v)
			}
		}
		alone := captcha.New(captcha.Options{Store: captcha.NewMemory()})
		defer alone.Close()
		if _, _, err := alone.Get(b.Context(), login); !errors.Is(err, captcha.ErrNoSolver) {
			b.Errorf("%v, want ErrNoSolver", err)
		}
	})
}

func TestCloseEndsWhatWaits(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := b.pool.Get(b.Context(), login); !errors.Is(err, captcha.ErrClosed) {
				b.Errorf("%v, want ErrClosed", err)
			}
		})
		time.Sleep(time.Second)
		b.pool.Close()
		wg.Wait()
		if _, _, err := b.pool.Get(b.Context(), login); !errors.Is(err, captcha.ErrClosed) {
			b.Errorf("%v after Close, want ErrClosed", err)
		}
	})
}
