// Package ledgertest is the contract of [upstream.Ledger] as a suite of tests,
// written from its comments. Every ledger passes it; what is particular to one
// is tested beside it.
package ledgertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// Open returns two processes' views of one new ledger, or twice the same where
// it is a ledger for one process. Leases live LeaseTime.
type Open func(t *testing.T) (a, b upstream.Ledger)

// LeaseTime is that of the ledgers under test: short, since the tests wait for
// leases to expire, and long enough for a busy machine.
const LeaseTime = time.Second

const pool = "eu"

// Run runs the suite.
func Run(t *testing.T, open Open) {
	for _, tt := range []struct {
		name string
		test func(*both)
	}{
		{"an upstream goes to no more owners than its capacity", capacity},
		{"an owner that has a lease gets it again", again},
		{"a lease that is not renewed expires", expires},
		{"a lease that is renewed stays", renewed},
		{"who renews a lease that has expired learns that it is gone", gone},
		{"a lease given back is free at once", givenBack},
		{"a release too late frees nothing of others", lateRelease},
		{"owners get leases in the order in which they asked", order},
		{"who asks no longer loses its place", silent},
		{"who leaves the queue loses its place at once", leaves},
		{"an owner gets the upstream that it had", stays},
		{"an owner that is to forget its upstream gets another", forgets},
		{"new owners spread over all upstreams", spread},
		{"the owners of a lost upstream spread over the others", loss},
		{"an upstream that rests is given to nobody", rests},
		{"an upstream that fails again rests longer", backoff},
		{"a rest does not grow while it lasts", oneRest},
		{"an upstream that recovered is as new", recovers},
		{"a strict owner stays with an upstream that rests", strict},
		{"an upstream that the configuration drops ends with its leases", dropped},
		{"an upstream that was added outlives the configuration", added},
		{"an upstream that was removed stays away until it is added", removed},
		{"an ended lease holds its place until it is given back", endedLease},
		{"an owner that will not have its lease gets another", not},
		{"a check gets the upstream it wants, though it rests", only},
		{"a pool without upstreams says so", empty},
		{"a job is done by one, once in its time", turn},
		{"many owners at once never exceed the capacity", crowd},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			tt.test(&both{T: t, a: a, b: b})
		})
	}
}

// both are two processes that share a ledger.
type both struct {
	*testing.T
	a, b   upstream.Ledger
	tokens int
}

func url(n int) string { return fmt.Sprintf("http://10.0.0.%d:3128", n) }

func (t *both) declare(capacity int, upstreams int) {
	t.Helper()
	d := upstream.Declaration{Capacity: capacity}
	for n := range upstreams {
		d.URLs = append(d.URLs, url(n+1))
	}
	for _, l := range []upstream.Ledger{t.a, t.b} {
		if err := l.Declare(t.Context(), pool, d); err != nil {
			t.Fatal(err)
		}
	}
}

// ask asks in one process, and changes the ask before.
func (t *both) ask(l upstream.Ledger, owner string, change ...func(*upstream.Ask)) upstream.Answer {
	t.Helper()
	t.tokens++
	a := upstream.Ask{Owner: owner, Token: fmt.Sprintf("%s#%d", owner, t.tokens)}
	for _, c := range change {
		c(&a)
	}
	answers, err := l.Acquire(t.Context(), pool, []upstream.Ask{a})
	if err != nil || len(answers) != 1 {
		t.Fatalf("Acquire for %s: %v, %v", owner, answers, err)
	}
	return answers[0]
}

// get asks, and is given a lease.
func (t *both) get(l upstream.Ledger, owner string, change ...func(*upstream.Ask)) upstream.Answer {
	t.Helper()
	a := t.ask(l, owner, change...)
	if a.Token == "" || a.URL == "" {
		t.Fatalf("%s got no lease: %s", owner, a.Why)
	}
	return a
}

// refused asks, and is given none.
func (t *both) refused(l upstream.Ledger, owner string, why upstream.Why, change ...func(*upstream.Ask)) upstream.Answer {
	t.Helper()
	a := t.ask(l, owner, change...)
	if a.Token != "" || a.Why != why {
		t.Fatalf("%s got %q, why %q; want none: %s", owner, a.URL, a.Why, why)
	}
	return a
}

func (t *both) release(l upstream.Ledger, forget bool, tokens ...string) {
	t.Helper()
	var back []upstream.Return
	for _, token := range tokens {
		back = append(back, upstream.Return{Token: token, Forget: forget})
	}
	t.ok(l.Release(t.Context(), pool, back))
}

func (t *both) renew(l upstream.Ledger, owner string, a upstream.Answer) upstream.Standing {
	t.Helper()
	s, err := l.Renew(t.Context(), pool, []upstream.Hold{{Token: a.Token, Owner: owner, URL: a.URL}})
	if err != nil || len(s) != 1 {
		t.Fatalf("Renew: %v, %v", s, err)
	}
	return s[0]
}

func (t *both) rest(url string, r upstream.Rest) time.Duration {
	t.Helper()
	d, err := t.a.Rest(t.Context(), pool, url, r)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (t *both) list(l upstream.Ledger) []upstream.Status {
	t.Helper()
	list, err := l.List(t.Context(), pool)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func (t *both) urls(l upstream.Ledger) (urls []string) {
	t.Helper()
	for _, s := range t.list(l) {
		urls = append(urls, s.URL)
	}
	return urls
}

func (t *both) ok(err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// pass waits, while a process looks at the ledger as one does.
func (t *both) pass(d time.Duration) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(LeaseTime/10, time.Until(end))) {
		t.list(t.b)
	}
}

func capacity(t *both) {
	t.declare(2, 2)
	got := map[string]int{}
	for _, owner := range []string{"w1", "w2", "w3", "w4"} {
		got[t.get(t.a, owner).URL]++
	}
	if got[url(1)] != 2 || got[url(2)] != 2 {
		t.Errorf("leases by upstream: %v, want 2 each", got)
	}
	t.refused(t.b, "w5", upstream.Full)
}

func again(t *both) {
	t.declare(1, 2)
	first := t.get(t.a, "w1")
	for _, l := range []upstream.Ledger{t.a, t.b} {
		if next := t.get(l, "w1"); next.Token != first.Token || next.URL != first.URL {
			t.Errorf("the owner got %v, then %v", first, next)
		}
	}
	if n := len(t.list(t.a)[0].Leases) + len(t.list(t.a)[1].Leases); n != 1 {
		t.Errorf("%d leases, want 1", n)
	}
}

func expires(t *both) {
	t.declare(1, 1)
	t.get(t.a, "w1")
	t.refused(t.b, "w2", upstream.Full)
	t.pass(LeaseTime + LeaseTime/10)
	t.get(t.b, "w2")
}

func renewed(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	for range 6 {
		t.pass(LeaseTime / 4)
		if s := t.renew(t.a, "w1", a); s.State != upstream.Kept {
			t.Fatalf("state %v, want kept", s.State)
		}
		t.refused(t.b, "w2", upstream.Full)
	}
}

func gone(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	t.pass(LeaseTime + LeaseTime/10)
	if s := t.renew(t.a, "w1", a); s.State != upstream.Gone {
		t.Errorf("state %v, want gone", s.State)
	}
	t.get(t.b, "w2")
}

func givenBack(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	t.refused(t.b, "w2", upstream.Full)
	t.release(t.a, false, a.Token)
	t.get(t.b, "w2")
}

func lateRelease(t *both) {
	t.declare(1, 1)
	old := t.get(t.a, "w1")
	t.pass(LeaseTime + LeaseTime/10)
	t.get(t.b, "w2")
	t.release(t.a, false, old.Token, "never given")
	t.refused(t.a, "w3", upstream.Full)
}

func order(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	t.refused(t.a, "w2", upstream.Full)
	t.refused(t.b, "w3", upstream.Full)
	t.refused(t.a, "w4", upstream.Full)
	t.release(t.a, false, a.Token)
	t.refused(t.b, "w3", upstream.Full)
	t.refused(t.a, "w4", upstream.Full)
	t.refused(t.b, "w5", upstream.Full)
	a = t.get(t.b, "w2") // in whichever process it asks
	t.release(t.b, false, a.Token)
	t.refused(t.a, "w4", upstream.Full)
	t.get(t.a, "w3")
}

func silent(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	t.refused(t.a, "w2", upstream.Full)
	t.refused(t.a, "w3", upstream.Full)
	t.release(t.a, false, a.Token)
	t.refused(t.a, "w3", upstream.Full)
	for range 4 {
		t.pass(upstream.QueueTime / 3)
		if a := t.ask(t.a, "w3"); a.Token != "" {
			return
		}
	}
	t.Error("the queue waits for one that asks no longer")
}

func leaves(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	t.refused(t.a, "w2", upstream.Full)
	t.refused(t.b, "w3", upstream.Full)
	t.release(t.a, false, a.Token)
	t.ok(t.a.Leave(t.Context(), pool, []string{"w2", "nobody"}))
	t.get(t.b, "w3")
}

func stays(t *both) {
	t.declare(1, 3)
	a := t.get(t.a, "w1")
	for range 3 {
		t.release(t.a, false, a.Token)
		other := t.get(t.a, "other")
		t.release(t.a, false, other.Token)
		next := t.get(t.b, "w1")
		if next.URL != a.URL {
			t.Fatalf("the owner got %s, then %s", a.URL, next.URL)
		}
		t.release(t.b, false, next.Token)
		a = t.get(t.a, "w1")
	}
}

func forgets(t *both) {
	t.declare(1, 3)
	seen := map[string]bool{}
	for range 3 {
		a := t.get(t.a, "w1")
		seen[a.URL] = true
		t.release(t.a, true, a.Token)
	}
	if len(seen) != 3 {
		t.Errorf("three leases in turn were on %v, want all upstreams", seen)
	}
}

func spread(t *both) {
	t.declare(3, 4)
	got := map[string]int{}
	for n := range 8 {
		got[t.get(t.a, fmt.Sprint("w", n)).URL]++
	}
	for n := range 4 {
		if got[url(n+1)] != 2 {
			t.Errorf("leases by upstream: %v, want 2 each", got)
		}
	}
}

func loss(t *both) {
	t.declare(4, 4)
	owners := map[string]string{}
	for n := range 8 {
		owner := fmt.Sprint("w", n)
		owners[owner] = t.get(t.a, owner).URL
	}
	t.rest(url(1), upstream.Rest{Reason: upstream.Dial, Base: time.Minute, Limit: time.Minute})
	got := map[string]int{}
	for owner, was := range owners {
		is := t.get(t.a, owner).URL
		if was != url(1) && is != was {
			t.Errorf("%s moved from %s to %s, though that is well", owner, was, is)
		}
		got[is]++
	}
	if got[url(1)] != 0 || max(got[url(2)], got[url(3)], got[url(4)]) > 3 {
		t.Errorf("leases by upstream after the loss of the first: %v, want at most 3", got)
	}
}

func rests(t *both) {
	t.declare(1, 1)
	r := upstream.Rest{Reason: upstream.Dial, Base: LeaseTime, Limit: LeaseTime}
	d := t.rest(url(1), r)
	if d < r.Base || d > r.Base+r.Base/4 {
		t.Errorf("it rests %v, want %v and up to a quarter more", d, r.Base)
	}
	if a := t.refused(t.b, "w1", upstream.Resting); a.After <= 0 || a.After > d {
		t.Errorf("to be asked again after %v, want up to %v", a.After, d)
	}
	s := t.list(t.b)[0]
	if s.Rests <= 0 || s.Failures != 1 || s.Reason != upstream.Dial {
		t.Errorf("it is listed as %+v", s)
	}
	t.pass(d)
	if a := t.get(t.b, "w1"); a.Failures != 1 {
		t.Errorf("after its rest it has %d failures, want 1", a.Failures)
	}
}

func backoff(t *both) {
	t.declare(1, 1)
	const base, limit = 20 * time.Millisecond, 70 * time.Millisecond
	for _, want := range []time.Duration{base, 2 * base, limit, limit} {
		d := t.rest(url(1), upstream.Rest{Reason: upstream.Dial, Base: base, Limit: limit})
		if d < want || d > want+want/4+time.Millisecond {
			t.Errorf("it rests %v, want %v and up to a quarter more", d, want)
		}
		t.pass(d + 2*time.Millisecond)
	}
}

func oneRest(t *both) {
	t.declare(1, 1)
	r := upstream.Rest{Reason: upstream.Dial, Base: time.Minute, Limit: time.Hour}
	for range 5 {
		if d := t.rest(url(1), r); d > 2*r.Base {
			t.Errorf("it rests %v", d)
		}
	}
	if s := t.list(t.a)[0]; s.Failures != 1 {
		t.Errorf("it failed %d times, want 1", s.Failures)
	}
	if d := t.rest(url(1), upstream.Rest{Reason: upstream.Banned, Base: time.Hour, Limit: time.Hour}); d < 59*time.Minute {
		t.Errorf("a ban of an hour has it rest %v", d)
	}
}

func recovers(t *both) {
	t.declare(1, 1)
	t.rest(url(1), upstream.Rest{Reason: upstream.Dial, Base: time.Minute, Limit: time.Hour})
	t.ok(t.b.Recover(t.Context(), pool, url(1)))
	if a := t.get(t.a, "w1"); a.Failures != 0 || a.Rests != 0 {
		t.Errorf("it is given as %+v", a)
	}
	if s := t.list(t.a)[0]; s.Failures != 0 || s.Reason != "" {
		t.Errorf("it is listed as %+v", s)
	}
}

func strict(t *both) {
	t.declare(1, 2)
	isStrict := func(a *upstream.Ask) { a.Strict = true }
	a := t.get(t.a, "w1", isStrict)
	t.rest(a.URL, upstream.Rest{Reason: upstream.Dial, Base: time.Minute, Limit: time.Minute})
	if next := t.get(t.a, "w1", isStrict); next.Token != a.Token || next.Rests <= 0 {
		t.Errorf("the strict owner got %+v, want its own, at rest", next)
	}
	if s := t.renew(t.a, "w1", a); s.State != upstream.Kept || s.Rests <= 0 {
		t.Errorf("its lease stands at %+v", s)
	}
	if next := t.get(t.a, "w1"); next.URL == a.URL {
		t.Error("once it is not strict it gets the same")
	}
}

func dropped(t *both) {
	t.declare(1, 2)
	first, second := t.get(t.a, "w1"), t.get(t.b, "w2")
	t.declare(1, 1)
	for owner, a := range map[string]upstream.Answer{"w1": first, "w2": second} {
		want := upstream.Kept
		if a.URL == url(2) {
			want = upstream.Removed
		}
		if s := t.renew(t.a, owner, a); s.State != want {
			t.Errorf("the lease on %s stands at %v, want %v", a.URL, s.State, want)
		}
	}
	if got := t.urls(t.b); !slices.Equal(got, []string{url(1)}) {
		t.Errorf("listed: %v", got)
	}
	t.release(t.a, false, first.Token, second.Token)
	t.release(t.b, false, first.Token, second.Token)
	t.get(t.a, "w3")
	t.refused(t.a, "w4", upstream.Full)
}

func added(t *both) {
	t.declare(1, 1)
	t.ok(t.a.Add(t.Context(), pool, url(9)))
	t.declare(1, 1)
	list := t.list(t.b)
	if len(list) != 2 || list[1].URL != url(9) || list[1].Source != upstream.Added || list[0].Source != upstream.Configured {
		t.Errorf("listed: %+v", list)
	}
	t.get(t.a, "w1")
	t.get(t.a, "w2")
}

func removed(t *both) {
	t.declare(1, 2)
	remove := func(url string, want bool) {
		t.Helper()
		if was, err := t.a.Remove(t.Context(), pool, url); err != nil || was != want {
			t.Errorf("Remove(%s): %v, %v; want %v", url, was, err, want)
		}
	}
	remove(url(2), true)
	remove(url(2), false)
	remove(url(7), false)
	t.declare(1, 2)
	if got := t.urls(t.b); !slices.Equal(got, []string{url(1)}) {
		t.Errorf("listed: %v", got)
	}
	t.get(t.b, "w1")
	t.refused(t.b, "w2", upstream.Full)
	t.ok(t.a.Add(t.Context(), pool, url(2)))
	t.get(t.b, "w2")
}

func endedLease(t *both) {
	t.declare(1, 1)
	a := t.get(t.a, "w1")
	t.ok(t.b.End(t.Context(), pool, a.Token))
	if s := t.renew(t.a, "w1", a); s.State != upstream.Ended {
		t.Errorf("it stands at %v, want ended", s.State)
	}
	t.refused(t.a, "w1", upstream.Full)
	t.release(t.a, false, a.Token)
	t.get(t.a, "w1")
}

func not(t *both) {
	t.declare(1, 2)
	a := t.get(t.a, "w1")
	notThat := func(ask *upstream.Ask) { ask.Not = a.Token }
	b := t.get(t.a, "w1", notThat)
	if b.Token == a.Token || b.URL == a.URL {
		t.Errorf("it got %+v again", b)
	}
	if next := t.get(t.a, "w1", notThat); next.Token != b.Token {
		t.Errorf("then it got %+v, want the second again", next)
	}
	t.refused(t.a, "w2", upstream.Full)
}

func only(t *both) {
	t.declare(1, 2)
	t.rest(url(2), upstream.Rest{Reason: upstream.Dial, Base: time.Minute, Limit: time.Minute})
	want := func(a *upstream.Ask) { a.Only = url(2) }
	if a := t.get(t.a, "check:1", want); a.URL != url(2) || a.Rests <= 0 || a.Failures != 1 {
		t.Errorf("the check got %+v", a)
	}
	t.refused(t.b, "check:2", upstream.Full, want)
	t.refused(t.b, "check:3", upstream.Full, func(a *upstream.Ask) { a.Only = url(7) })
	if a := t.get(t.b, "w1"); a.URL != url(1) {
		t.Errorf("an owner got %s", a.URL)
	}
}

func empty(t *both) {
	t.declare(1, 0)
	t.refused(t.a, "w1", upstream.Empty)
	if list := t.list(t.a); len(list) != 0 {
		t.Errorf("listed: %v", list)
	}
}

func turn(t *both) {
	t.declare(1, 1)
	n := 0
	for _, l := range []upstream.Ledger{t.a, t.b, t.a} {
		ours, err := l.Turn(t.Context(), pool, "check", LeaseTime)
		t.ok(err)
		if ours {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d turns, want 1", n)
	}
	t.pass(LeaseTime + 10*time.Millisecond)
	if ours, err := t.b.Turn(t.Context(), pool, "check", LeaseTime); err != nil || !ours {
		t.Errorf("when it was time again: %v, %v", ours, err)
	}
}

func crowd(t *both) {
	t.declare(2, 5)
	var mu sync.Mutex
	load := map[string]int{}
	granted := 0
	count := func(url string, n int) {
		mu.Lock()
		defer mu.Unlock()
		if load[url] += n; load[url] > 2 {
			t.Errorf("%s has %d leases, want 2 at most", url, load[url])
		}
		if n > 0 {
			granted++
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	var wg sync.WaitGroup
	for w := range 16 {
		l := []upstream.Ledger{t.a, t.b}[w%2]
		wg.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				owner := fmt.Sprint("w", w)
				answers, err := l.Acquire(t.Context(), pool, []upstream.Ask{{Owner: owner, Token: fmt.Sprint(owner, "#", n)}})
				if err != nil {
					t.Error(err)
					return
				}
				a := answers[0]
				if a.Token == "" {
					continue
				}
				count(a.URL, 1)
				count(a.URL, -1)
				if err := l.Release(t.Context(), pool, []upstream.Return{{Token: a.Token}}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if granted < 100 {
		t.Errorf("%d leases were given, want many", granted)
	}
	for _, s := range t.list(t.a) {
		if len(s.Leases) > 0 {
			t.Errorf("%s is left with %v", s.URL, s.Leases)
		}
	}
}
