package ledgertest

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

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
