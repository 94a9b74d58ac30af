// Package ledgertest is the contract of [upstream.Ledger] as a suite of tests,
// written from its comments. Every ledger passes it; what is particular to one
// is tested beside it.
package ledgertest

import (
	"fmt"
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
