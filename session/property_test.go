package session

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world is a store, two proxies whose snapshots lag behind it, and the requests
// that clients have under way through them.
type world struct {
	*testing.T
	stored    *Jar
	clock     int64
	snapshots [2]*Jar
	underWay  []*exchange
	values    int

	login int64           // version of the login's cookie that the jar has, or 0
	dead  map[string]bool // values of requests that left before a revoke
	held  map[string]bool // those of them that clients got, until the name is set anew
}

// exchange is a request that left with a version, and what its reply will do.
type exchange struct {
	base  int64
	u     Update
	value string
}

// leave sends a request through one of the proxies. Its reply sets or deletes
// the cookie that all fight for, with a value that nobody else has.
func (w *world) leave(rt *rapid.T) {
	w.values++
	e := &exchange{
		base:  w.snapshots[rapid.IntRange(0, 1).Draw(rt, "proxy")].Version(),
		value: fmt.Sprintf("v%d", w.values),
	}
	line := "sid=" + e.value
	switch rapid.IntRange(0, 4).Draw(rt, "reply") {
	case 0:
		line = "sid=; Max-Age=0"
	case 1:
		e.u.Writer = ByLogin
	case 2:
		e.u.Timid = true
	case 3:
		line += "; Max-Age=60"
	}
	e.u.Base = e.base
	e.u.Cookies = mustParse(w.T, shop, microTime(w.clock), line)
	w.underWay = append(w.underWay, e)
}

// arrive lets one of the replies under way arrive, the oldest or any other.
func (w *world) arrive(rt *rapid.T) {
	if len(w.underWay) == 0 {
		rt.Skip("nothing is under way")
	}
	i := rapid.IntRange(0, len(w.underWay)-1).Draw(rt, "which")
	e := w.underWay[i]
	w.underWay = slices.Delete(w.underWay, i, i+1)

	before, raw := w.stored, mustMarshal(w.T, w.stored)
	after, outcomes := before.Apply(e.u, w.clock)
	if !bytes.Equal(raw, mustMarshal(w.T, before)) {
		rt.Fatal("Apply changed the jar it was called on")
	}
	if (after == before) != (outcomes[0] != Changed) {
		rt.Fatalf("outcome %d, but same jar: %t", outcomes[0], after == before)
	}
	if after != before && after.Version() <= before.Version() {
		rt.Fatalf("version went from %d to %d", before.Version(), after.Version())
	}
	if e.base < before.Floor() && outcomes[0] != Revoked {
		rt.Fatalf("left with %d, below the floor %d: outcome %d", e.base, before.Floor(), outcomes[0])
	}
	if w.login > e.base && !slices.Equal(before.pairs(), after.pairs()) {
		rt.Fatalf("left with %d, before the login %d: jar went from %q to %q", e.base, w.login, before.pairs(), after.pairs())
	}
	if outcomes[0] == Changed {
		clear(w.held)
		w.login = 0
		if len(after.Cookies()) > 0 && after.Cookies()[0].Writer == ByLogin {
			w.login = after.Cookies()[0].Version
		}
	}
	w.stored = after
}

func (w *world) revoke(*rapid.T) {
	for _, e := range w.underWay {
		w.dead[e.value] = true
	}
	for _, c := range w.stored.Cookies() {
		w.dead[c.Value], w.held[c.Value] = true, true
	}
	w.stored, w.login = w.stored.Revoke(w.clock), 0
}

// check holds after every step.
func (w *world) check(rt *rapid.T) {
	for _, c := range w.stored.Cookies() {
		if w.dead[c.Value] {
			rt.Fatalf("a revoked value is back: %s", c.Value)
		}
		if c.Version > w.stored.Version() {
			rt.Fatalf("cookie of version %d in a jar of version %d", c.Version, w.stored.Version())
		}
	}
	for value := range w.held {
		if sent := merged(w.T, w.stored, "sid="+value); sent != "" {
			rt.Fatalf("a revoked value leaves: %q", sent)
		}
	}
	back := new(Jar)
	if err := back.UnmarshalBinary(mustMarshal(w.T, w.stored)); err != nil || !equalJars(back, w.stored) {
		rt.Fatalf("jar does not come back from bytes: %v", err)
	}
}

// Over any interleaving of clients and two proxies with stale snapshots: a
// reply that left before a login neither deletes nor replaces it, and what was
// revoked never comes back by a request that left before.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{T: t, stored: new(Jar), clock: at(0), dead: make(map[string]bool), held: make(map[string]bool)}
		w.snapshots = [2]*Jar{w.stored, w.stored}
		rt.Repeat(map[string]func(*rapid.T){
			"leave":  w.leave,
			"arrive": w.arrive,
			"revoke": w.revoke,
			"sync":   func(rt *rapid.T) { w.snapshots[rapid.IntRange(0, 1).Draw(rt, "proxy")] = w.stored },
			"time":   func(rt *rapid.T) { w.clock += rapid.Int64Range(0, 100).Draw(rt, "µs") },
			"":       w.check,
		})
	})
}

// Whatever comes over whatever, a jar keeps its promises: identities once,
// RFC order, limits, and bytes that give the same jar.
func TestJarsStayInOrder(t *testing.T) {
	t.Parallel()
	sites := []string{"https://a.shop.test/x/y", "http://shop.test/", "https://b.shop.test/x/", "https://shop.example/"}
	rapid.Check(t, func(rt *rapid.T) {
		jar := new(Jar)
		for range rapid.IntRange(1, 30).Draw(rt, "replies") {
			line := rapid.SampledFrom([]string{"a=", "b=", "c=", ""}).Draw(rt, "name") +
				rapid.StringMatching(`[a-z0-9"\\, ]{0,8}`).Draw(rt, "value") +
				rapid.SampledFrom([]string{"", "; Path=/", "; Path=/x", "; Path=/x/y"}).Draw(rt, "path") +
				rapid.SampledFrom([]string{"", "; Domain=shop.test"}).Draw(rt, "domain") +
				rapid.SampledFrom([]string{"", "; Max-Age=0", "; Max-Age=5"}).Draw(rt, "life") +
				rapid.SampledFrom([]string{"", "; Secure", "; Secure; Partitioned"}).Draw(rt, "flags")
			from := rapid.SampledFrom(sites).Draw(rt, "site")
			clock := at(time.Duration(rapid.IntRange(0, 10).Draw(rt, "seconds")) * time.Second)
			jar, _ = jar.Apply(Update{Base: Latest, Insecure: strings.HasPrefix(from, "http:"), Cookies: parse(t, from, noon, line)}, clock)
		}
		cookies := jar.Cookies()
		if !slices.IsSortedFunc(cookies, func(a, b Cookie) int { return compareOrder(&a, &b) }) {
			rt.Fatalf("order: %+v", cookies)
		}
		seen := make(map[Identity]bool)
		for _, c := range cookies {
			if seen[c.Identity()] || c.Check() != nil {
				rt.Fatalf("twice, or not to be stored: %+v, %v", c, c.Check())
			}
			seen[c.Identity()] = true
		}
		back := new(Jar)
		if err := back.UnmarshalBinary(mustMarshal(t, jar)); err != nil || !equalJars(back, jar) {
			rt.Fatalf("jar does not come back from bytes: %v\n%+v\n%+v", err, back, jar)
		}
	})
}
