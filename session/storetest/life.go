package storetest

import (
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// brief is a life that a test can outlive.
const brief = 400 * time.Millisecond

// living: how long sessions live.
var living = []test{
	{"an unused session ends with its idle life, and not before", func(f fixture) {
		start := time.Now()
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		f.wantEnd(shop, start, brief)
	}},
	{"use prolongs a life", func(f fixture) {
		f.outlive(func() { f.renew(shop, session.Life{Idle: brief}) })
	}},
	{"a reply that changes nothing prolongs it too", func(f fixture) {
		f.outlive(func() { f.apply(shop, reply(session.Latest, cookie("sid", "1")), session.Life{Idle: brief}) })
	}},
	{"a change prolongs it", func(f fixture) {
		f.outlive(func() {
			f.apply(shop, reply(session.Latest, cookie("at", time.Now().String())), session.Life{Idle: brief})
		})
	}},
	{"a life of which nine tenths are left is not written again", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		before := f.info(shop)
		f.renew(shop, hourly)
		if after := f.info(shop); after != before {
			f.Errorf("%+v after Renew, %+v before", after, before)
		}
	}},
	{"a life that is a tenth over is written again", func(f fixture) {
		life := session.Life{Idle: 10 * brief}
		f.apply(shop, reply(0, cookie("sid", "1")), life)
		before := f.info(shop)
		f.waitUntil("Renew moves Used and Expires", func() bool {
			f.renew(shop, life)
			after := f.info(shop)
			return after.Used.After(before.Used) && after.Expires.After(before.Expires)
		})
	}},
	{"no use prolongs a session beyond its absolute end", func(f fixture) {
		start, life := time.Now(), session.Life{Idle: time.Hour, Max: brief}
		f.apply(shop, reply(0, cookie("sid", "1")), life)
		f.waitUntil("the session ends", func() bool {
			if f.load(shop) == nil {
				return true
			}
			f.renew(shop, life)
			return false
		})
		f.wantEnd(shop, start, brief)
	}},
	{"a session without cookies' own lives lives 30 minutes", func(f fixture) {
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{})
		f.wantLife(shop, 30*time.Minute)
	}},
	{"a session lives 95 % of its longest cookie's life", func(f fixture) {
		f.apply(shop, reply(0, cookie("sid", "1"), lasting("a", time.Hour), lasting("b", 100*time.Hour)), session.Life{})
		f.wantLife(shop, 95*time.Hour)
	}},
	{"an absolute end cuts the idle life", func(f fixture) {
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: 10 * time.Hour, Max: time.Hour})
		f.wantLife(shop, time.Hour)
	}},
	{"a use that nobody's session sees is no error, and makes none", func(f fixture) {
		f.renew(shop, hourly)
		f.wantJar(shop, absent)
	}},
	{"a use does not bring back a session that is over", func(f fixture) {
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		f.waitUntil("the session ends", func() bool { return f.load(shop) == nil })
		f.renew(shop, hourly)
		f.wantJar(shop, absent)
	}},
	{"after its end a session starts anew, with none of its cookies", func(f fixture) {
		old, _ := f.apply(shop, by(session.ByOperator, cookie("sid", "1"), cookie("old", "1"), gone("x")), session.Life{Idle: brief})
		f.waitUntil("the session ends", func() bool { return f.load(shop) == nil })
		start := time.Now()
		f.wantOutcomes(shop, timid(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
		if version := f.leave(shop); version <= old.Version() {
			f.Errorf("version %d after %d", version, old.Version())
		}
		if created := f.info(shop).Created; created.Before(start.Add(-time.Second)) {
			f.Errorf("created %v, want now: %v", created, start)
		}
	}},
	{"a floor outlives the session that was filled after it", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.revoke(shop)
		f.apply(shop, reply(session.Latest, cookie("sid", "2")), session.Life{Idle: brief})
		f.waitUntil("the session ends", func() bool { return len(f.list(shop.Site)) == 0 })
		f.wantForgotten(shop)
		f.wantOutcomes(shop, reply(left, cookie("sid", "1")), session.Revoked)
		f.wantOutcomes(shop, timid(f.leave(shop), cookie("sid", "3")), session.Changed)
		f.wantJar(shop, "sid=3")
	}},
}

// wantEnd waits for the end of a session that was last used after start, which
// may not come before life is over.
func (f fixture) wantEnd(key session.Key, start time.Time, life time.Duration) {
	f.Helper()
	f.waitUntil("the session ends", func() bool { return f.load(key) == nil })
	// A server's clock is another, and counts milliseconds.
	if lived := time.Since(start); lived < life-2*time.Millisecond {
		f.Errorf("ended after %v, want %v", lived, life)
	}
}

// outlive uses the session of a brief life for longer than that life, and wants
// it there all the time. A use may not be written within a tenth of a life.
func (f fixture) outlive(use func()) {
	f.Helper()
	f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
	for start := time.Now(); time.Since(start) < brief*3/2; {
		used := time.Now()
		use()
		time.Sleep(brief / 8)
		jar := f.load(shop)
		if time.Since(used) > brief*9/10 {
			f.Skip("too slow a machine: it slept through a session's life")
		}
		if jar == nil {
			f.Fatalf("ended %v after a use", time.Since(used))
		}
	}
	f.waitUntil("the session ends unused", func() bool { return f.load(shop) == nil })
}

// wantLife wants the session to end a life after its last use.
func (f fixture) wantLife(key session.Key, want time.Duration) {
	f.Helper()
	info := f.info(key)
	if got := info.Expires.Sub(info.Used); (got - want).Abs() > 5*time.Second {
		f.Errorf("lives %v, want %v", got, want)
	}
}

func lasting(name string, life time.Duration) session.Cookie {
	c := cookie(name, "1")
	c.Expires = time.Now().Add(life)
	return c
}

// listing: what List shows.
var listing = []test{
	{"a list is in order of site and ID", func(f fixture) {
		want := []session.Key{
			{Site: "a.test", ID: "b"},
			{Site: "shop.test", ID: "Z"}, {Site: "shop.test", ID: "a"}, {Site: "shop.test", ID: "b"}, {Site: "shop.test", ID: "default"},
			{Site: "shop.test.b", ID: "a"},
		}
		for _, key := range slices.Backward(want) {
			f.set(key, cookie("sid", "1"))
		}
		f.wantList("", want...)
		f.wantList("shop.test", want[1:5]...)
		f.wantList("none.test")
	}},
	{"a list shows shared jars only", func(f fixture) {
		f.set(worker("w"), cookie("csrf", "1"))
		f.wantList("")
		f.set(shop, cookie("sid", "1"))
		f.wantList("", shop)
	}},
	{"a list shows no session that is over, revoked, cleared or empty", func(f fixture) {
		over, revoked, cleared, empty := session.Key{Site: "shop.test", ID: "over"}, session.Key{Site: "shop.test", ID: "revoked"},
			session.Key{Site: "shop.test", ID: "cleared"}, session.Key{Site: "shop.test", ID: "empty"}
		f.apply(over, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		for _, key := range []session.Key{revoked, cleared, empty, shop} {
			f.set(key, cookie("sid", "1"))
		}
		f.revoke(revoked)
		f.clear(cleared)
		f.set(empty, gone("sid"))
		f.waitUntil("the session ends", func() bool { return f.load(over) == nil })
		f.wantList("", shop)
	}},
	{"a list tells of each session", func(f fixture) {
		start := time.Now()
		f.set(shop, cookie("a", "1"), cookie("b", "1"))
		jar := f.set(shop, cookie("c", "1"), gone("b"))
		end := time.Now()

		info := f.info(shop)
		if info.Cookies != 2 || info.Version != jar.Version() {
			f.Errorf("%d cookies, version %d, want 2 and %d", info.Cookies, info.Version, jar.Version())
		}
		const clocks = time.Second // a server's clock is another
		for what, at := range map[string]time.Time{"Created": info.Created, "Used": info.Used, "Expires less the idle life": info.Expires.Add(-time.Hour)} {
			if at.Before(start.Add(-clocks)) || at.After(end.Add(clocks)) {
				f.Errorf("%s is %v, want about %v", what, at, start)
			}
		}
	}},
	{"a session is as old as its first cookie", func(f fixture) {
		f.set(shop, cookie("a", "1"))
		first := f.info(shop).Created
		time.Sleep(10 * time.Millisecond)
		f.set(shop, cookie("b", "1"))
		f.set(shop, gone("a"))
		if got := f.info(shop).Created; !got.Equal(first) {
			f.Errorf("created %v, want %v", got, first)
		}
	}},
}

func (f fixture) wantList(site string, want ...session.Key) {
	f.Helper()
	var got []session.Key
	for _, info := range f.list(site) {
		got = append(got, info.Key)
	}
	if !slices.Equal(got, want) {
		f.Errorf("List(%q) = %v, want %v", site, got, want)
	}
}
