package session

import (
	"slices"
	"testing"
	"time"
)

func TestCombine(t *testing.T) {
	t.Parallel()
	second := int64(time.Second / time.Microsecond)
	begin := func(lines ...string) *history {
		h := newHistory(t)
		for _, l := range lines {
			h.apply(Update{Base: Latest}, l)
		}
		return h
	}
	and := func(h *history, lines ...string) *history {
		next := &history{T: t, jar: h.jar, clock: h.clock}
		for _, l := range lines {
			next.apply(Update{Base: Latest}, l)
		}
		return next
	}
	end := func(h *history, how func(*Jar, int64) *Jar) *history {
		return &history{T: t, jar: how(h.jar, h.clock+second), clock: h.clock + second}
	}
	old := begin("sid=1", "lang=en")
	for _, tt := range []struct {
		name       string
		own, other *history // own: nil for nothing
		want       []string
		floor      bool
	}{
		{"all, where there is nothing", nil, old, []string{"sid=1", "lang=en"}, false},
		{"nothing, of the same", old, old, []string{"sid=1", "lang=en"}, false},
		{"newer values and names", old, and(old, "sid=2", "new=1"), []string{"sid=2", "lang=en", "new=1"}, false},
		{"newer deletions", old, and(old, "lang=; Max-Age=0"), []string{"sid=1"}, false},
		{"nothing that was changed since", and(old, "x=1", "sid=3"), and(old, "x=1"), []string{"sid=3", "lang=en", "x=1"}, false},
		{"nothing that was deleted since", and(old, "lang=; Max-Age=0"), old, []string{"sid=1"}, false},
		{"what is older than a session that began later", begin("a=1", "a=; Max-Age=0", "a=; Max-Age=0", "sid=9"), old, []string{"sid=9", "lang=en"}, false},
		{"nothing that was cleared since", end(old, (*Jar).Clear), old, nil, false},
		{"nothing that was revoked since", end(old, (*Jar).Revoke), old, nil, true},
		{"a newer revocation", old, end(old, (*Jar).Revoke), nil, true},
		{"a revocation, where there is nothing", nil, end(old, (*Jar).Revoke), nil, true},
		{"a login after a newer revocation", and(end(old, (*Jar).Revoke), "sid=5"), end(old, (*Jar).Revoke), []string{"sid=5"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := at(0) + 60*second
			var own *Record
			if tt.own != nil {
				own = &Record{Jar: tt.own.jar, Used: now, Ends: now + second}
			}
			other := &Record{Jar: tt.other.jar, Used: now, Ends: now + 2*second}
			got := own.Combine(other, nil, now)
			if pairs := got.Jar.pairs(); !slices.Equal(pairs, tt.want) {
				t.Errorf("the jar has %q, want %q", pairs, tt.want)
			}
			if (got.Jar.Floor() > 0) != tt.floor {
				t.Errorf("its floor is %d", got.Jar.Floor())
			}
			if again := got.Combine(other, nil, now); again != got {
				t.Errorf("once more, and it is %q", again.Jar.pairs())
			}
		})
	}
	over := &Record{Jar: old.jar, Used: old.clock, Ends: old.clock + second}
	if got := (*Record)(nil).Combine(over, nil, old.clock+2*second); got != nil {
		t.Errorf("a session that is over came along: %q", got.Jar.pairs())
	}
}

// What is taken in keeps its version: a change of it that waits in a proxy's
// memory is newer still.
func TestCombineMakesNothingNewer(t *testing.T) {
	t.Parallel()
	old, own := newHistory(t), newHistory(t)
	old.apply(Update{Base: Latest}, "sid=1")
	own.clock = old.clock + int64(time.Minute/time.Microsecond)
	own.apply(Update{Base: Latest}, "x=1")
	now := own.clock
	life := func(h *history) *Record {
		return &Record{Jar: h.jar, Used: now, Ends: now + int64(time.Hour/time.Microsecond)}
	}
	got := life(own).Combine(life(old), nil, now).Jar
	for id, version := range old.jar.Versions() {
		if have := got.Versions()[id]; have != version {
			t.Errorf("%s has version %d, want %d as before", id.Name, have, version)
		}
	}
	if got.Version() != own.jar.Version() {
		t.Errorf("the jar has version %d, want its own %d", got.Version(), own.jar.Version())
	}
}

// What is taken in stays of the login that it comes from: of a later one, late
// replies would be refused that are not late, and of none they would replace it.
func TestCombineKeepsTheLogin(t *testing.T) {
	t.Parallel()
	old, own := newHistory(t), newHistory(t)
	old.apply(Update{Base: Latest, Writer: ByLogin}, "sid=1")
	old.apply(Update{Base: Latest, Writer: ByLogin}, "lang=en")
	old.apply(Update{Base: Latest}, "sid=2") // the site has moved on; the login has not
	own.clock = old.clock + int64(time.Minute/time.Microsecond)
	own.apply(Update{Base: Latest}, "x=1")
	now := own.clock
	life := func(h *history) *Record {
		return &Record{Jar: h.jar, Used: now, Ends: now + int64(time.Hour/time.Microsecond)}
	}
	got := life(own).Combine(life(old), nil, now).Jar
	for _, want := range old.jar.Cookies() {
		if have := cookieOf(got, want.Name); have == nil || have.Login != want.Login || have.Writer != want.Writer {
			t.Errorf("%s came along as %+v, want %+v", want.Name, have, want)
		}
	}
}
