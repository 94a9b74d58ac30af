package proxy

import (
	"fmt"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

func TestUsesAreBounded(t *testing.T) {
	p := &Proxy{uses: newUses()}
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	seen := func(id string) (found string) {
		p.EachUse(func(key session.Key, at time.Time, client, worker string) {
			if key.ID == id {
				found += fmt.Sprint(at.Sub(noon), client, worker)
			}
		})
		return found
	}
	note := func(id, client string, after time.Duration) {
		p.uses.note(session.Key{Site: "shop.test", ID: id}, &identity{name: client, worker: "w"}, noon.Add(after))
	}
	note("first", "a", 0)
	note("first", "b", time.Second)
	if got := seen("first"); got != "1sbw" {
		t.Errorf("the last use is %q, want that of b", got)
	}
	for i := range 2 * maxUses {
		note(fmt.Sprint(i), "a", 0)
		if i%1000 == 0 {
			note("busy", "a", time.Minute)
		}
	}
	count := 0
	p.EachUse(func(session.Key, time.Time, string, string) { count++ })
	if count > 2*maxUses || seen("first") != "" || seen("busy") != "1m0saw" {
		t.Errorf("%d uses, first %q, busy %q; want at most %d, and the busy one among them", count, seen("first"), seen("busy"), 2*maxUses)
	}
}

func BenchmarkNoteUse(b *testing.B) {
	u, key, id := newUses(), session.Key{Site: "shop.test", ID: "default"}, &identity{name: "crawler", worker: "w1"}
	at := time.Now()
	b.ReportAllocs()
	for b.Loop() {
		u.note(key, id, at)
	}
}
