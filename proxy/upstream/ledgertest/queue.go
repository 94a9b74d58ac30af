package ledgertest

import (
	"fmt"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

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
