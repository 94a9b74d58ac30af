// Package locktest is the contract of [login.Locks] as one test suite, which
// every implementation passes. It knows the contract's words and nobody's ways:
// lives are real and short, and it waits for conditions.
package locktest

import (
	"fmt"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// Run tests Locks that open returns, each of them empty and used by one subtest.
func Run(t *testing.T, open func(t *testing.T) login.Locks) {
	for _, tt := range []struct {
		name string
		run  func(f *fixture)
	}{
		{"one has the turn, and the next gets it when it ends", func(f *fixture) {
			h := f.granted(f.ask("a"))
			f.want(f.ask("b"), login.Busy)
			f.end(h, login.Result{})
			f.granted(f.ask("b"))
		}},
		{"another login does not wait", func(f *fixture) {
			f.granted(f.ask("a"))
			other := f.ask("b")
			other.Name = "01"
			f.granted(other)
			elsewhere := f.ask("c")
			elsewhere.Key.ID = "qa"
			f.granted(elsewhere)
		}},
		{"fences rise", func(f *fixture) {
			var last int64
			for i := range 5 {
				h := f.granted(f.ask(fmt.Sprint(i)))
				if h.Fence <= last {
					f.Errorf("fence %d after %d", h.Fence, last)
				}
				last = h.Fence
				f.end(h, login.Result{})
			}
		}},
		{"who dies loses the turn", func(f *fixture) {
			a := f.ask("a")
			a.Life = 50 * time.Millisecond
			old := f.granted(a)
			f.eventually(f.ask("b"), login.Granted)
			if f.keep(old) {
				f.Errorf("the old turn is the last one")
			}
			f.end(old, login.Result{Answer: &login.Answer{Status: 200, Version: 1}, Keep: time.Minute})
			f.want(f.ask("c"), login.Busy)
		}},
		{"who stalls, and nobody else came, has it still", func(f *fixture) {
			a := f.ask("a")
			a.Life = 20 * time.Millisecond
			h := f.granted(a)
			time.Sleep(50 * time.Millisecond) // longer than its life
			if !f.keep(h) {
				f.Errorf("the turn is not the last one")
			}
			f.want(f.ask("b"), login.Busy)
		}},
		{"who keeps it has it for longer than its life", func(f *fixture) {
			a := f.ask("a")
			a.Life = 150 * time.Millisecond
			h := f.granted(a)
			for range 5 {
				time.Sleep(50 * time.Millisecond)
				if !f.keep(h) {
					f.Errorf("the turn is not the last one")
				}
				f.want(f.ask("b"), login.Busy)
			}
		}},
		{"a turn that is overdue goes to the next, one at a time", func(f *fixture) {
			old := f.granted(f.ask("a"))
			b, c := f.ask("b"), f.ask("c")
			b.Overdue, c.Overdue = 100*time.Millisecond, time.Minute
			f.want(c, login.Busy)
			f.eventually(b, login.Granted)
			f.want(c, login.Busy)
			if f.keep(old) {
				f.Errorf("the old turn is the last one")
			}
		}},
		{"a login that succeeded is an answer for a time", func(f *fixture) {
			h := f.granted(f.ask("a"))
			want := login.Answer{Status: 303, Location: "/account", ContentType: "text/html", Body: []byte("\x00\xff{}"), Version: 1796113203329482}
			f.end(h, login.Result{Answer: &want, Keep: 200 * time.Millisecond})
			g := f.want(f.ask("b"), login.Answered)
			if g.Answer == nil || !reflect.DeepEqual(*g.Answer, want) {
				f.Errorf("answer %+v, want %+v", g.Answer, want)
			}
			other := f.ask("c")
			other.Name = "01"
			f.granted(other)
			f.eventually(f.ask("b"), login.Granted)
		}},
		{"an answer is void once the session is seen to be logged out", func(f *fixture) {
			h := f.granted(f.ask("a"))
			f.end(h, login.Result{Answer: &login.Answer{Status: 303, Version: 10}, Keep: time.Minute})
			f.void(9)
			f.want(f.ask("b"), login.Answered)
			f.void(10)
			f.void(3)
			h = f.granted(f.ask("b"))
			f.end(h, login.Result{Answer: &login.Answer{Status: 303, Version: 11}, Keep: time.Minute})
			f.want(f.ask("c"), login.Answered)
		}},
		{"after a failure there is a rest", func(f *fixture) {
			f.end(f.granted(f.ask("a")), login.Result{Why: "step 2: no", Rest: time.Hour})
			g := f.want(f.ask("b"), login.Resting)
			if g.Failures != 1 || g.Why != "step 2: no" || g.Cause != login.Refused || time.Until(g.Until) < 59*time.Minute {
				f.Errorf("%+v", g)
			}
			forced := f.ask("c")
			forced.Force = true
			if g := f.want(forced, login.Granted); g.Failures != 1 {
				f.Errorf("%d failures before it, want one", g.Failures)
			}
		}},
		{"a login that was not begun is no failure", func(f *fixture) {
			f.end(f.granted(f.ask("a")), login.Result{Why: "no lease", Cause: login.Idle})
			f.end(f.granted(f.ask("b")), login.Result{Why: "no lease", Cause: login.Idle, Rest: time.Hour})
			if g := f.want(f.ask("c"), login.Resting); g.Failures != 0 || g.Why != "no lease" || g.Cause != login.Idle {
				f.Errorf("%d failures, %q, cause %d, of logins that were not begun; want none", g.Failures, g.Why, g.Cause)
			}
		}},
		{"what hinders a login is counted apart", func(f *fixture) {
			f.void(1) // no answer is given
			f.end(f.granted(f.ask("a")), login.Result{Why: "wrong"})
			f.end(f.granted(f.ask("b")), login.Result{Why: "unreachable", Cause: login.Hindered})
			f.end(f.granted(f.ask("c")), login.Result{Why: "unreachable", Cause: login.Hindered})
			g := f.want(f.ask("d"), login.Granted)
			if g.Failures != 1 || g.Hindered != 2 {
				f.Errorf("%d failures and %d hindrances, want 1 and 2", g.Failures, g.Hindered)
			}
			f.end(login.Hold{Login: Of, Holder: f.ask("d").Holder, Fence: g.Fence}, login.Result{Answer: &login.Answer{Version: 1}, Keep: time.Minute})
			if g := f.want(f.ask("e"), login.Granted); g.Failures != 0 || g.Hindered != 0 {
				f.Errorf("after a success %d failures and %d hindrances, want none", g.Failures, g.Hindered)
			}
		}},
		{"successes are remembered, for as long as they count", func(f *fixture) {
			f.void(1) // no answer is given
			f.end(f.granted(f.ask("a")), login.Result{Answer: &login.Answer{Version: 1}, Keep: time.Minute, Count: 50 * time.Millisecond})
			for range login.MaxWon + 2 {
				f.end(f.granted(f.ask("b")), login.Result{Answer: &login.Answer{Version: 1}, Keep: time.Minute, Count: time.Hour})
			}
			f.end(f.granted(f.ask("c")), login.Result{Answer: &login.Answer{Version: 1}, Keep: time.Minute})
			f.end(f.granted(f.ask("d")), login.Result{Answer: &login.Answer{Version: 1}, Keep: time.Minute, Count: 50 * time.Millisecond})
			time.Sleep(60 * time.Millisecond) // longer than that counts
			g := f.want(f.ask("e"), login.Granted)
			if len(g.Won) != login.MaxWon-1 || time.Since(g.Won[0]) > time.Minute || g.Won[0].After(g.Won[len(g.Won)-1]) {
				f.Errorf("successes at %v, want the last %d in order", g.Won, login.MaxWon-1)
			}
		}},
		{"a success ends the rest", func(f *fixture) {
			f.end(f.granted(f.ask("a")), login.Result{Why: "no", Rest: time.Hour})
			forced := f.ask("b")
			forced.Force = true
			f.end(f.granted(forced), login.Result{Answer: &login.Answer{Version: 5}, Keep: time.Minute})
			f.void(5)
			if g := f.want(f.ask("c"), login.Granted); g.Failures != 0 {
				f.Errorf("%d failures before it, want none", g.Failures)
			}
		}},
		{"by force there is no answer", func(f *fixture) {
			f.end(f.granted(f.ask("a")), login.Result{Answer: &login.Answer{Version: 5}, Keep: time.Minute})
			forced := f.ask("b")
			forced.Force = true
			f.granted(forced)
			forced.Holder = "c"
			f.want(forced, login.Busy)
		}},
		{"what was shown of a session is known, and why its login rests", func(f *fixture) {
			f.wantStatus(login.Status{})
			f.note(login.Out, "logged_out.redirect", 10)
			f.note(login.In, "recipe", 9) // of an older jar
			f.wantStatus(login.Status{Shown: shown(login.Out, "logged_out.redirect", 10)})
			f.end(f.granted(f.ask("a")), login.Result{Why: "unreachable", Cause: login.Hindered, Rest: time.Hour})
			f.note(login.In, "recipe", 11)
			f.wantStatus(login.Status{Shown: shown(login.In, "recipe", 11), Failed: &login.RestError{Why: "unreachable", Cause: login.Hindered}})
		}},
		{"of many that ask at once, one at a time has it", func(f *fixture) {
			var now, most, turns atomic.Int32
			var wg sync.WaitGroup
			for i := range 16 {
				wg.Go(func() {
					for n := 0; turns.Load() < 40; n++ {
						a := f.ask(fmt.Sprintf("%d-%d", i, n))
						g, err := f.locks.Take(f.Context(), a)
						if err != nil {
							f.Error(err)
							return
						}
						if g.State != login.Granted {
							time.Sleep(time.Millisecond)
							continue
						}
						most.Store(max(most.Load(), now.Add(1)))
						turns.Add(1)
						now.Add(-1)
						f.end(login.Hold{Login: a.Login, Holder: a.Holder, Fence: g.Fence}, login.Result{})
					}
				})
			}
			wg.Wait()
			if most.Load() != 1 {
				f.Errorf("%d had it at once", most.Load())
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.run(&fixture{t, open(t)})
		})
	}
}

// fixture are the Locks under test. Its methods fail the test on any error.
type fixture struct {
	*testing.T
	locks login.Locks
}

// Of is the login that tests fight for.
var Of = login.Login{Key: session.Key{Site: "shop.test", ID: session.DefaultID}, Name: "00"}

func (f *fixture) ask(holder string) login.Ask {
	return login.Ask{Login: Of, Holder: login.Mark + holder, Life: time.Minute}
}

func (f *fixture) want(a login.Ask, state login.State) login.Grant {
	f.Helper()
	g, err := f.locks.Take(f.Context(), a)
	if err != nil {
		f.Fatal(err)
	}
	if g.State != state {
		f.Fatalf("%s asks: state %d, want %d", a.Holder, g.State, state)
	}
	return g
}

func (f *fixture) granted(a login.Ask) login.Hold {
	f.Helper()
	g := f.want(a, login.Granted)
	return login.Hold{Login: a.Login, Holder: a.Holder, Fence: g.Fence}
}

func (f *fixture) eventually(a login.Ask, state login.State) {
	f.Helper()
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		g, err := f.locks.Take(f.Context(), a)
		if err != nil {
			f.Fatal(err)
		}
		if g.State == state {
			return
		}
		if time.Now().After(end) {
			f.Fatalf("%s asks: state %d, want %d soon", a.Holder, g.State, state)
		}
	}
}

func (f *fixture) keep(h login.Hold) bool {
	f.Helper()
	last, err := f.locks.Keep(f.Context(), h, time.Minute)
	if err != nil {
		f.Fatal(err)
	}
	return last
}

func (f *fixture) end(h login.Hold, r login.Result) {
	f.Helper()
	if err := f.locks.End(f.Context(), h, r); err != nil {
		f.Error(err)
	}
}

func (f *fixture) void(version int64) {
	f.Helper()
	if err := f.locks.Void(f.Context(), Of.Key, version); err != nil {
		f.Fatal(err)
	}
}

// noted is when tests have seen a session.
var noted = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func shown(v login.Verdict, rule string, version int64) login.Shown {
	return login.Shown{Judgment: login.Judgment{Verdict: v, Rule: rule}, Version: version, Time: noted}
}

func (f *fixture) note(v login.Verdict, rule string, version int64) {
	f.Helper()
	if err := f.locks.Note(f.Context(), Of.Key, shown(v, rule, version)); err != nil {
		f.Fatal(err)
	}
}

// wantStatus compares all but when a rest ends.
func (f *fixture) wantStatus(want login.Status) {
	f.Helper()
	got, err := f.locks.Status(f.Context(), Of)
	if err != nil {
		f.Fatal(err)
	}
	if (got.Failed == nil) != (want.Failed == nil) || got.Failed != nil && (got.Failed.Failures != want.Failed.Failures || got.Failed.Why != want.Failed.Why || got.Failed.Cause != want.Failed.Cause) {
		f.Errorf("the rest is %+v, want %+v", got.Failed, want.Failed)
	}
	if got.Judgment != want.Judgment || got.Version != want.Version || !got.Time.Equal(want.Time) {
		f.Errorf("shown %+v, want %+v", got.Shown, want.Shown)
	}
}
