package ledgertest

import (
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

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
