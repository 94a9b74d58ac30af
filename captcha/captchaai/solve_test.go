package captchaai

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

// after returns an outcome of tasks that are solved in time.
func after(d time.Duration) func(captchatest.Task) captchatest.Outcome {
	return func(captchatest.Task) captchatest.Outcome { return captchatest.Outcome{After: d} }
}

// An integer ID, two polls too early, a token that the site takes once.
func TestASolveAsTheServiceSeesIt(t *testing.T) {
	verifier := captchatest.NewVerifier(captchatest.Widget{SiteKey: siteKey, Secret: "secret", Hostnames: []string{"shop.test"}})
	onFakeClock(t, captchatest.Options{Verifier: verifier, Outcome: after(22 * time.Second)}, func(b *bench) {
		a, err := b.client.Solve(b.Context(), v2, b.slots.open)
		if err != nil {
			b.Fatal(err)
		}
		call := b.service.Calls(in)[0]
		for name, want := range map[string]string{"method": "userrecaptcha", "googlekey": siteKey, "pageurl": page, "json": "1", "invisible": "", "version": ""} {
			if got := call.Params.Get(name); got != want {
				b.Errorf("in.php has %s=%q, want %q", name, got, want)
			}
		}
		polls := b.service.Polls(b.service.Tasks()[0].ID)
		if len(polls) != 3 || polls[0].Sub(b.start) < 15*time.Second {
			b.Errorf("polls after %v, want 3 and the first after 15 s", since(b.start, polls))
		}
		for i := 1; i < len(polls); i++ {
			if gap := polls[i].Sub(polls[i-1]); gap < 5*time.Second || gap > 6*time.Second {
				b.Errorf("polls %v apart, want 5 s", gap)
			}
		}
		if !a.Issued.Equal(polls[1]) {
			b.Errorf("issued %v after the start, want the last poll that found nothing, %v", a.Issued.Sub(b.start), polls[1].Sub(b.start))
		}
		if v := verifier.Check("secret", a.Token); !v.Success {
			b.Errorf("the site refuses the token: %v", v.ErrorCodes)
		}
		if v := verifier.Check("secret", a.Token); v.Success {
			b.Error("the site takes the token twice")
		}
		if b.slots.done != 1 {
			b.Errorf("slots %+v, want one done", b.slots.done)
		}
	})
}

func since(start time.Time, times []time.Time) []time.Duration {
	var all []time.Duration
	for _, t := range times {
		all = append(all, t.Sub(start))
	}
	return all
}

func TestTheFirstPollFitsTheType(t *testing.T) {
	for _, tt := range []struct {
		name string
		task any
		want time.Duration
	}{
		{"v2", v2, 15 * time.Second},
		{"v3", v3, 5 * time.Second},
		{"Turnstile", turnstile, 5 * time.Second},
		{"an image", Request{Method: Base64}, 10 * time.Second},
		{"a challenge", Request{Method: CloudflareChallenge}, 20 * time.Second},
	} {
		r, ok := tt.task.(Request)
		if !ok {
			r = requestFor(tt.task.(captcha.Task))
		}
		if got := r.firstPoll(); got != tt.want {
			t.Errorf("first poll of %s after %v, want %v", tt.name, got, tt.want)
		}
	}
}

// A service may ignore json=1, and a token may hold what looks like an error.
func TestPlainRepliesAreReadToTheFirstBar(t *testing.T) {
	const token = "abc|ERROR_x-def"
	o := captchatest.Options{Switches: captchatest.Switches{AlwaysPlain: true}, Outcome: func(captchatest.Task) captchatest.Outcome {
		return captchatest.Outcome{After: 17 * time.Second, Token: token}
	}}
	onFakeClock(t, o, func(b *bench) {
		a, err := b.client.Solve(b.Context(), v2, b.slots.open)
		if err != nil || a.Token != token {
			b.Errorf("token %q, %v; want %q", a.Token, err, token)
		}
		if n, err := b.client.ThreadsInfo(b.Context()); err != nil || n.Total != 5 {
			b.Errorf("threads %+v, %v", n, err)
		}
		if n, err := b.client.Balance(b.Context()); err != nil || n != 0 {
			b.Errorf("balance %v, %v", n, err)
		}
	})
}

// One task, the same ID in each poll, longer waits.
func TestFaultsOfThePollingCostNoSecondTask(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault captchatest.Fault
		wait  time.Duration
	}{
		{"500", captchatest.Fault{Status: 500, Body: "<html>oops"}, 5 * time.Second},
		{"502 in HTML", captchatest.Fault{Status: 502, Body: "<html>bad gateway</html>"}, 5 * time.Second},
		{"503 with Retry-After", captchatest.Fault{Status: 503, Header: map[string]string{"Retry-After": "20"}, Body: "<html>"}, 20 * time.Second},
		{"429 with Retry-After", captchatest.Fault{Status: 429, Header: map[string]string{"Retry-After": "7"}}, 7 * time.Second},
		{"truncated JSON", captchatest.Fault{Body: `{"status":1,"request":"tok`}, 5 * time.Second},
		{"a body that ends early", captchatest.Fault{Body: `{"status":1,"request":"tok"}`, Cut: true}, 5 * time.Second},
		{"nothing", captchatest.Fault{}, 5 * time.Second},
		{"a reset", captchatest.Fault{Reset: true}, 5 * time.Second},
		{"silence", captchatest.Fault{Hang: time.Hour}, 35 * time.Second},
		{"a fault by name", captchatest.Fault{Body: `{"status":0,"request":"ERROR_INTERNAL_SERVER_ERROR"}`}, 10 * time.Second},
		{"HTML with 200", captchatest.Fault{Body: "<!doctype html>"}, 5 * time.Second},
		{"another kind of JSON", captchatest.Fault{Body: `[1,2,3]`}, 5 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, captchatest.Options{Outcome: after(0)}, func(b *bench) {
				b.service.Fail(out, tt.fault)
				if _, err := b.client.Solve(b.Context(), v3, b.slots.open); err != nil {
					b.Fatal(err)
				}
				calls := b.service.Calls(out)
				if b.calls(in) != 1 || len(calls) != 2 || calls[0].Params.Get("id") != calls[1].Params.Get("id") {
					b.Fatalf("%d submissions and %d polls, want one task that is asked about twice", b.calls(in), len(calls))
				}
				if gap := calls[1].At.Sub(calls[0].At); gap < tt.wait || gap > tt.wait+tt.wait/5 {
					b.Errorf("asked again after %v, want %v", gap, tt.wait)
				}
				b.balanced()
			})
		})
	}
}

// A submission that may have been taken is repeated with a slot of its own,
// and said.
func TestAnUnclearSubmissionIsNeverRepeatedUnseen(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault captchatest.Fault
		times int
		fails bool
	}{
		{"502 in HTML", captchatest.Fault{Status: 502, Body: "<html>"}, 1, false},
		{"taken, then a reset", captchatest.Fault{Reset: true, Taken: true}, 1, false},
		{"taken, then silence", captchatest.Fault{Hang: time.Hour, Taken: true}, 1, false},
		{"a reply that ends early", captchatest.Fault{Cut: true, Body: `{"status":1,`, Taken: true}, 2, false},
		{"an empty reply", captchatest.Fault{Taken: true}, 1, false},
		{"a bare word", captchatest.Fault{Body: "maintenance"}, 1, false},
		{"no ID in it", captchatest.Fault{Body: `{"status":1,"request":{"a":1}}`}, 1, false},
		{"always", captchatest.Fault{Status: 500, Taken: true}, 9, true},
	} {
		for name, form := range map[string]Form{"by POST": Mixed, "by query": Query} {
			t.Run(tt.name+" "+name, func(t *testing.T) {
				onFakeClock(t, captchatest.Options{}, func(b *bench) {
					b.client.form = form
					b.service.Fail(in, repeat(tt.times, tt.fault)...)
					_, err := b.client.Solve(b.Context(), v3, b.slots.open)
					if e, _ := errors.AsType[*Error](err); tt.fails != (err != nil) || tt.fails && e.Class != Unclear {
						b.Fatalf("%v, want a failure: %v", err, tt.fails)
					}
					repeats := min(tt.times, maxUnclear)
					if got := b.calls(in); got != repeats+1 || b.slots.opened != got {
						b.Errorf("%d submissions in %d slots, want %d in one each", got, b.slots.opened, repeats+1)
					}
					if got := strings.Count(b.log.String(), "may be paid twice"); got != repeats {
						b.Errorf("said %d times that it may be paid twice, want %d: %s", got, repeats, &b.log)
					}
					if b.slots.held < repeats || b.slots.heldUntil.Sub(b.start) < solveTime {
						b.Errorf("%d slots held until %v, want %d for as long as a task may run", b.slots.held, b.slots.heldUntil.Sub(b.start), repeats)
					}
					b.balanced()
				})
			})
		}
	}
}

// Nobody was reached, so nothing was taken: the slot stays, and nobody is warned.
func TestASubmissionThatNeverLeftIsRepeated(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		dial, refusals := b.client.submissions.Transport.(*http.Transport).DialContext, 2
		b.client.submissions.Transport.(*http.Transport).DialContext = func(ctx context.Context, n, a string) (net.Conn, error) {
			if refusals--; refusals >= 0 {
				return nil, errors.New("connection refused")
			}
			return dial(ctx, n, a)
		}
		if _, err := b.client.Solve(b.Context(), v3, b.slots.open); err != nil {
			b.Fatal(err)
		}
		if b.slots.opened != 1 || b.log.Len() > 0 || b.took() < 15*time.Second {
			b.Errorf("%d slots, after %v, log %q; want one and pauses of 5 and 10 s", b.slots.opened, b.took(), &b.log)
		}
	})
}

func TestATaskThatNeverEndsHoldsItsThreadForAWhile(t *testing.T) {
	onFakeClock(t, captchatest.Options{Outcome: after(captchatest.Never)}, func(b *bench) {
		_, err := b.client.Solve(b.Context(), v2, b.slots.open)
		if e, _ := errors.AsType[*Error](err); e == nil || e.Class != Deadline {
			b.Fatalf("%v, want a deadline", err)
		}
		if b.took().Round(time.Second) != solveTime || b.calls(in) != 1 {
			b.Errorf("gave up after %v and %d submissions, want %v and one", b.took(), b.calls(in), solveTime)
		}
		if want := solveTime + graceTime; b.slots.heldUntil.Sub(b.start) != want {
			b.Errorf("the thread is held until %v, want %v", b.slots.heldUntil.Sub(b.start), want)
		}
		b.balanced()
	})
}

func TestACallerThatLeavesIsObeyedAtOnce(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault *captchatest.Fault
		leave time.Duration
	}{
		{"while it is submitted", &captchatest.Fault{Hang: time.Hour}, 3 * time.Second},
		{"while it waits for a thread", &captchatest.Fault{Body: "ERROR_ZERO_BALANCE"}, 3 * time.Second},
		{"while it waits for the answer", nil, 8 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			onFakeClock(t, captchatest.Options{}, func(b *bench) {
				if tt.fault != nil {
					b.service.Fail(in, *tt.fault)
				}
				ctx, cancel := context.WithTimeout(b.Context(), tt.leave)
				defer cancel()
				_, err := b.client.Solve(ctx, v2, b.slots.open)
				if !errors.Is(err, context.DeadlineExceeded) || b.took() != tt.leave {
					b.Errorf("%v after %v, want the caller's deadline after %v", err, b.took(), tt.leave)
				}
				b.balanced()
			})
		})
	}
}

func TestSubmissionsKeepTheirDistance(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 100}, func(b *bench) {
		done := make(chan error)
		for range 30 {
			go func() {
				_, err := b.client.Submit(b.Context(), requestFor(v3))
				done <- err
			}()
		}
		for range 30 {
			if err := <-done; err != nil {
				b.Error(err)
			}
		}
		var at []time.Time
		for _, c := range b.service.Calls(in) {
			at = append(at, c.At)
		}
		slices.SortFunc(at, time.Time.Compare)
		for i := 1; i < len(at); i++ {
			if gap := at[i].Sub(at[i-1]); gap < submitPeriod {
				b.Fatalf("two submissions %v apart, want %v", gap, submitPeriod)
			}
		}
	})
}

// net/http repeats a GET by itself where a connection that was used before
// breaks. Each in.php may be a task to pay for.
func TestNoSubmissionIsRepeatedBehindOurBack(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		b.client.form = Query
		if _, err := b.client.Submit(b.Context(), requestFor(v3)); err != nil {
			b.Fatal(err)
		}
		b.service.Fail(in, captchatest.Fault{Reset: true, Taken: true})
		_, err := b.client.Submit(b.Context(), requestFor(v3))
		if e, _ := errors.AsType[*Error](err); e == nil || e.Class != Unclear || b.calls(in) != 2 {
			b.Errorf("%v after %d calls, want an unclear one after 2", err, b.calls(in))
		}
	})
}
