package ledgertest

import (
	"slices"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

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

func empty(t *both) {
	t.declare(1, 0)
	t.refused(t.a, "w1", upstream.Empty)
	if list := t.list(t.a); len(list) != 0 {
		t.Errorf("listed: %v", list)
	}
}
