package storetest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
)

func claim(t *testing.T, s captcha.Store, c captcha.Claim) captcha.Grant {
	t.Helper()
	g, err := s.Threads(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func wantGrant(t *testing.T, g captcha.Grant, open int, ids ...string) {
	t.Helper()
	if !slices.Equal(g.IDs, ids) || g.Open != open {
		t.Fatalf("%v granted and %d open, want %v and %d", g.IDs, g.Open, ids, open)
	}
}

func bounded(t *testing.T, w World) {
	var mu sync.Mutex
	var granted []string
	var wg sync.WaitGroup
	for p := range 6 {
		s := []captcha.Store{w.A, w.B}[p%2]
		var waiting []string
		for i := range 4 {
			waiting = append(waiting, fmt.Sprintf("p%d/%d", p, i))
		}
		wg.Go(func() {
			for range 3 {
				g := claim(t, s, captcha.Claim{Proxy: fmt.Sprint("p", p), Limit: 5, Waiting: waiting})
				mu.Lock()
				granted = append(granted, g.IDs...)
				mu.Unlock()
				waiting = slices.DeleteFunc(waiting, func(id string) bool { return slices.Contains(g.IDs, id) })
			}
		})
	}
	wg.Wait()
	if len(granted) != 5 {
		t.Errorf("%d threads were given, want 5: %v", len(granted), granted)
	}
	g := claim(t, w.A, captcha.Claim{Proxy: "p0", Limit: 5})
	if g.Proxies != 6 {
		t.Errorf("%d proxies, want 6", g.Proxies)
	}
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "p1", Limit: 2}), 5)
}

func inOrder(t *testing.T, w World) {
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Waiting: []string{"a1", "a2"}}), 1, "a1")
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Waiting: []string{"b1"}}), 1)
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Open: []string{"a1"}, Waiting: []string{"a2", "a3"}}), 1)
	// a2 came before b1, and b1 before a3.
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Waiting: []string{"b1"}}), 1)
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Over: []string{"a1"}, Waiting: []string{"a2", "a3"}}), 1, "a2")
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Over: []string{"a2"}, Waiting: []string{"a3"}}), 0)
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Waiting: []string{"b1"}}), 1, "b1")
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 2, Waiting: []string{"a3"}}), 2, "a3")
}

func silent(t *testing.T, w World) {
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 2, Waiting: []string{"a1", "a2"}}), 2, "a1", "a2")
	w.Age(captcha.LeaseTime - time.Second)
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 2, Open: []string{"a1"}}), 2)
	w.Age(2 * time.Second)
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 2, Waiting: []string{"b1", "b2"}}), 2, "b1")
}

func silentWaiter(t *testing.T, w World) {
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Waiting: []string{"a1", "a2"}}), 1, "a1")
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Waiting: []string{"b1"}}), 1)
	w.Age(captcha.QueueTime + time.Millisecond)
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Over: []string{"a1"}, Waiting: []string{"b1"}}), 1, "b1")
}

func leaves(t *testing.T, w World) {
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Waiting: []string{"a1", "a2"}}), 1, "a1")
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Waiting: []string{"b1"}}), 1)
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 1, Over: []string{"a1", "a2"}}), 0)
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 1, Waiting: []string{"b1"}}), 1, "b1")
}

func renewed(t *testing.T, w World) {
	wantGrant(t, claim(t, w.A, captcha.Claim{Proxy: "a", Limit: 2, Open: []string{"a1", "a2"}}), 2)
	wantGrant(t, claim(t, w.B, captcha.Claim{Proxy: "b", Limit: 2, Waiting: []string{"b1"}}), 2)
}

func lostAnswer(t *testing.T, w World) {
	c := captcha.Claim{Proxy: "a", Limit: 1, Waiting: []string{"a1", "a2"}}
	wantGrant(t, claim(t, w.A, c), 1, "a1")
	wantGrant(t, claim(t, w.A, c), 1, "a1")
}
