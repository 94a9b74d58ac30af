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

// world is a store, two proxies whose snapshots lag behind it and whose clocks
// are wrong, and the requests that clients have under way through them.
type world struct {
	*testing.T
	stored    *Jar
	clock     int64    // the store's
	skew      [2]int64 // of the proxies' clocks
	snapshots [2]*Jar
	underWay  []*exchange
	values    int

	dead map[string]bool   // values of requests that left before a revoke
	held map[string]string // name → value of revoked cookies that clients got, until the name is set anew
}

// exchange is a request that left with a version, and what its reply will do.
type exchange struct {
	base   int64
	u      Update
	values []string
}

// leave sends a request through one of the proxies. Its reply sets or deletes
// one or both of the cookies that all fight for, with values that nobody else
// has: a login, a rotation, a refresh, a logout.
func (w *world) leave(rt *rapid.T) {
	proxy := rapid.IntRange(0, 1).Draw(rt, "proxy")
	e := &exchange{base: w.snapshots[proxy].Version()}
	e.u.Base = e.base
	switch rapid.IntRange(0, 4).Draw(rt, "reply") {
	case 0:
		e.u.Writer = ByLogin
	case 1:
		e.u.Timid = true
	case 2:
		e.u.LoggedOut = true
	}
	var lines []string
	for _, name := range rapid.SampledFrom([][]string{{"sid"}, {"cart"}, {"sid", "cart"}}).Draw(rt, "names") {
		w.values++
		value := fmt.Sprintf("v%d", w.values)
		e.values = append(e.values, value)
		lines = append(lines, name+rapid.SampledFrom([]string{"=" + value, "=" + value, "=" + value + "; Max-Age=60", "=; Max-Age=0"}).Draw(rt, "line"))
	}
	e.u.Cookies = mustParse(w.T, shop, microTime(w.clock+w.skew[proxy]), lines...)
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
	if changed := slices.Contains(outcomes, Changed); changed != (after != before) {
		rt.Fatalf("outcomes %d, but same jar: %t", outcomes, after == before)
	}
	if after != before && after.Version() <= before.Version() {
		rt.Fatalf("version went from %d to %d", before.Version(), after.Version())
	}
	set := map[string]bool{}
	for i, c := range e.u.Cookies {
		set[c.Name] = true
		w.judge(rt, e, outcomes[i], c, cookieOf(before, c.Name), cookieOf(after, c.Name))
	}
	for _, c := range before.Cookies() {
		if got := cookieOf(after, c.Name); !set[c.Name] && !c.Expired(microTime(after.Version())) && (got == nil || *got != c) {
			rt.Fatalf("the reply does not name %s, and it went from %+v to %+v", c.Name, c, got)
		}
	}
	w.stored = after
}

// judge says what may become of one cookie: had is what the jar has of that
// name, and got what it has afterwards.
func (w *world) judge(rt *rapid.T, e *exchange, o Outcome, c Cookie, had, got *Cookie) {
	deletes := c.Expired(microTime(w.stored.nextVersion(w.clock)))
	late := had != nil && had.Version > e.base
	login := late && (had.Writer == ByLogin || had.Login > e.base) // it left before the login
	guarded := e.u.LoggedOut && had != nil && had.Login > 0
	switch {
	case e.base < w.stored.Floor():
		if o != Revoked {
			rt.Fatalf("left with %d, below the floor %d: outcome %d", e.base, w.stored.Floor(), o)
		}
	case (late && deletes || login) && (got == nil || got.Value != had.Value):
		rt.Fatalf("left with %d, and %+v became %+v", e.base, had, got)
	case guarded && (got == nil || *got != *had):
		rt.Fatalf("a logged-out reply made %+v of the login's %+v", got, had)
	case o == Guarded && !guarded:
		rt.Fatalf("a reply to %+v is guarded against: %+v", had, e.u)
	case o == Late && !late && !w.marked(c.Name, e.base):
		rt.Fatalf("left with %d, is late for nothing, and was lost: %+v, jar %+v", e.base, c, had)
	case o == Late && late && !deletes && !e.u.Timid && !login:
		rt.Fatalf("left with %d, comes last, and was lost: %+v, jar %+v", e.base, c, had)
	case o == Changed && !deletes && (got == nil || got.Value != c.Value):
		rt.Fatalf("set %+v, got %+v", c, got)
	}
	if o == Changed && !deletes {
		delete(w.held, c.Name)
	}
}

// marked says whether the cookie of that name was deleted after the version.
func (w *world) marked(name string, version int64) bool {
	return slices.ContainsFunc(w.stored.marks, func(m Mark) bool { return m.Name == name && m.Version > version })
}

func cookieOf(j *Jar, name string) *Cookie {
	for _, c := range j.Cookies() {
		if c.Name == name {
			return &c
		}
	}
	return nil
}

func (w *world) revoke(*rapid.T) {
	for _, e := range w.underWay {
		for _, value := range e.values {
			w.dead[value] = true
		}
	}
	for _, c := range w.stored.Cookies() {
		w.dead[c.Value] = true
		w.held[c.Name] = c.Value
	}
	w.stored = w.stored.Revoke(w.clock)
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
	for name, value := range w.held {
		if sent := merged(w.T, w.stored, name+"="+value); slices.Contains(strings.Split(sent, "; "), name+"="+value) {
			rt.Fatalf("a revoked value leaves: %q", sent)
		}
	}
	back := new(Jar)
	if err := back.UnmarshalBinary(mustMarshal(w.T, w.stored)); err != nil || !equalJars(back, w.stored) {
		rt.Fatalf("jar does not come back from bytes: %v", err)
	}
}

// Over any interleaving of clients and two proxies with stale snapshots and
// wrong clocks: a reply that left before a login neither deletes nor replaces
// it, nor what the site has made of it since; a logged-out one does neither
// whenever it left; what was revoked never comes back by a request that left
// before; and nothing else is lost.
func TestInterleavings(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{T: t, stored: new(Jar), clock: at(0), dead: map[string]bool{}, held: map[string]string{}}
		w.snapshots = [2]*Jar{w.stored, w.stored}
		for i := range w.skew {
			w.skew[i] = rapid.Int64Range(-5e6, 5e6).Draw(rt, "skew in µs")
		}
		rt.Repeat(map[string]func(*rapid.T){
			"leave":  w.leave,
			"arrive": w.arrive,
			"revoke": w.revoke,
			"sync":   func(rt *rapid.T) { w.snapshots[rapid.IntRange(0, 1).Draw(rt, "proxy")] = w.stored },
			"time":   func(rt *rapid.T) { w.clock += rapid.SampledFrom([]int64{0, 1, 100, 20e6}).Draw(rt, "µs") },
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
