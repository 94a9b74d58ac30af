package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// applying: what one writer after the other may change.
var applying = []test{
	{"a session that was never set is not found", func(f fixture) {
		f.wantJar(shop, absent)
	}},
	{"what Apply returned is what Load returns", func(f fixture) {
		jar := f.set(shop, cookie("sid", "1"), cookie("lang", "en"))
		if got, want := show(jar), "lang=en sid=1"; got != want {
			f.Errorf("Apply returned %q, want %q", got, want)
		}
		f.wantJar(shop, "lang=en sid=1")
		if loaded := f.load(shop); loaded.Version() != jar.Version() {
			f.Errorf("version %d loaded, %d returned", loaded.Version(), jar.Version())
		}
	}},
	{"a cookie keeps its bytes and attributes", func(f fixture) {
		odd := oddCookies()
		f.set(shop, odd...)
		wantCookies(f, shop, odd)
	}},
	{"a later value replaces the earlier", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.wantOutcomes(shop, reply(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"each change raises the version", func(f fixture) {
		var last int64
		for i, u := range []session.Update{
			reply(session.Latest, cookie("a", "1")),
			reply(session.Latest, cookie("b", "1")),
			reply(session.Latest, cookie("a", "2")),
			reply(session.Latest, gone("a")),
			reply(session.Latest, gone("b")),
		} {
			jar, _ := f.apply(shop, u, hourly)
			if jar.Version() <= last {
				f.Errorf("change %d: version %d after %d", i, jar.Version(), last)
			}
			last = jar.Version()
		}
	}},
	{"a change that changes nothing is not written", func(f fixture) {
		before := f.set(shop, cookie("sid", "1"))
		f.wantOutcomes(shop, reply(session.Latest, cookie("sid", "1")), session.Unchanged)
		f.wantOutcomes(shop, reply(session.Latest, gone("other")), session.Unchanged)
		f.wantOutcomes(shop, reply(session.Latest))
		if got, want := f.load(shop).Version(), before.Version(); got != want {
			f.Errorf("version %d after changes of nothing, want %d", got, want)
		}
	}},
	{"a change of nothing makes no session", func(f fixture) {
		f.wantOutcomes(shop, reply(0, gone("sid")), session.Unchanged)
		f.wantJar(shop, absent)
	}},
	{"a session whose last cookie was deleted is empty, not absent", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.wantOutcomes(shop, reply(f.leave(shop), gone("sid")), session.Changed)
		f.wantJar(shop, "")
	}},
	{"Replace deletes what it does not name", func(f fixture) {
		f.set(shop, cookie("a", "1"), cookie("b", "1"))
		u := by(session.ByImport, cookie("b", "2"))
		u.Replace = true
		f.wantOutcomes(shop, u, session.Changed)
		f.wantJar(shop, "b=2")
	}},
	{"a jar that was loaded stays as it was", func(f fixture) {
		f.set(shop, cookie("a", "1"), cookie("b", "1"))
		jar := f.load(shop)
		cookies, version := slices.Clone(jar.Cookies()), jar.Version()

		f.set(shop, cookie("a", "2"), gone("b"), cookie("c", "1"))
		f.clear(shop)
		f.revoke(shop)
		if !slices.Equal(jar.Cookies(), cookies) || jar.Version() != version || jar.Floor() != 0 {
			f.Errorf("jar became %q, version %d, floor %d", show(jar), jar.Version(), jar.Floor())
		}
	}},
	{"a late reply sets what a reply set, and nobody else's", func(f fixture) {
		for w, want := range map[session.Writer]session.Outcome{
			session.ByReply:    session.Changed,
			session.ByLogin:    session.Late,
			session.ByRecipe:   session.Late,
			session.ByImport:   session.Late,
			session.ByOperator: session.Late,
			session.ByWorker:   session.Late,
		} {
			key := session.Key{Site: "shop.test", ID: fmt.Sprint("by", w)}
			f.set(key, cookie("sid", "old"))
			left := f.leave(key)
			f.apply(key, by(w, cookie("sid", "new")), hourly)
			f.wantOutcomes(key, reply(left, cookie("sid", "late")), want)
			if want == session.Late {
				f.wantJar(key, "sid=new")
			} else {
				f.wantJar(key, "sid=late")
			}
		}
	}},
	{"a logged-out reply leaves what comes from a login", func(f fixture) {
		f.set(shop, cookie("lang", "en"))
		f.apply(shop, by(session.ByLogin, cookie("sid", "1")), hourly)
		login := f.load(shop).Login()
		f.set(shop, cookie("sid", "2")) // as sites renew it
		if jar := f.load(shop); login == 0 || jar.Login() != login || jar.Renewed() != jar.Version() {
			f.Errorf("login %d, then %d; renewed at %d of %d", login, jar.Login(), jar.Renewed(), jar.Version())
		}
		u := reply(f.leave(shop), cookie("sid", "anonymous"), gone("sid"), cookie("lang", "de"))
		u.LoggedOut = true
		f.wantOutcomes(shop, u, session.Guarded, session.Guarded, session.Changed)
		f.wantJar(shop, "lang=de sid=2")
	}},
	{"a late reply deletes nothing", func(f fixture) {
		f.set(shop, cookie("sid", "old"))
		left := f.leave(shop)
		f.set(shop, cookie("sid", "new"))
		f.wantOutcomes(shop, reply(left, gone("sid")), session.Late)
		f.wantJar(shop, "sid=new")
	}},
	{"a late reply brings back no value that the cookie had before", func(f fixture) {
		f.apply(shop, by(session.ByLogin, cookie("sid", "1")), hourly)
		for _, value := range []string{"2", "3", "4"} {
			left := f.leave(shop)
			f.set(shop, cookie("sid", value))
			f.wantOutcomes(shop, reply(left, cookie("sid", value)), session.Unchanged)
		}
		left := f.leave(shop)
		f.set(shop, cookie("sid", "5"))
		f.wantOutcomes(shop, reply(left, cookie("sid", "2")), session.Late)
		f.wantOutcomes(shop, reply(left, cookie("sid", "4")), session.Late)
		f.wantJar(shop, "sid=5")
		f.wantOutcomes(shop, reply(left, cookie("sid", "6")), session.Changed)
		f.wantOutcomes(shop, reply(f.leave(shop), cookie("sid", "2")), session.Changed) // in time
		f.wantJar(shop, "sid=2")
	}},
	{"a late and timid reply sets nothing", func(f fixture) {
		f.set(shop, cookie("sid", "old"))
		left := f.leave(shop)
		f.set(shop, cookie("sid", "new"))
		f.wantOutcomes(shop, timid(left, cookie("sid", "anonymous")), session.Late)
		f.wantJar(shop, "sid=new")
	}},
	{"a timid reply in time sets", func(f fixture) {
		f.wantOutcomes(shop, timid(f.leave(shop), cookie("sid", "1")), session.Changed)
		f.wantOutcomes(shop, timid(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"a reply is late for the cookies that changed, and no others", func(f fixture) {
		f.set(shop, cookie("sid", "1"), cookie("lang", "en"))
		left := f.leave(shop)
		f.apply(shop, by(session.ByLogin, cookie("sid", "2")), hourly)
		f.wantOutcomes(shop, reply(left, cookie("sid", "late"), cookie("lang", "de"), gone("none")),
			session.Late, session.Changed, session.Unchanged)
		f.wantJar(shop, "lang=de sid=2")
	}},
	{"a deletion is remembered: a late reply does not undo an operator's", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.apply(shop, by(session.ByOperator, gone("sid")), hourly)
		f.wantOutcomes(shop, reply(left, cookie("sid", "1")), session.Late)
		f.wantJar(shop, "")
		f.wantOutcomes(shop, reply(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"a deletion is remembered: a late and timid reply does not undo a reply's", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.set(shop, gone("sid"))
		f.wantOutcomes(shop, timid(left, cookie("sid", "1")), session.Late)
		f.wantOutcomes(shop, reply(left, cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"writers that are no reply are late for nothing", func(f fixture) {
		f.apply(shop, by(session.ByOperator, cookie("sid", "1")), hourly)
		f.wantOutcomes(shop, by(session.ByLogin, cookie("sid", "2")), session.Changed)
		f.wantOutcomes(shop, by(session.ByImport, gone("sid")), session.Changed)
		f.wantOutcomes(shop, by(session.ByRecipe, cookie("sid", "3")), session.Changed)
		f.wantJar(shop, "sid=3")
	}},
	{"each key has a jar of its own", func(f fixture) {
		keys := []session.Key{
			{Site: "shop.test", ID: "default"},
			{Site: "shop.test", ID: "Default"},
			{Site: "shop.test", ID: "a"},
			{Site: "shop.test", ID: "a", Worker: "b"},
			{Site: "shop.test", ID: "a~b"},
			{Site: "shop.test", ID: "a", Worker: "b~c"},
			{Site: "shop.test", ID: "a~b", Worker: "c"},
			{Site: "shop.test:8443", ID: "default"},
			{Site: "[2001:db8::1]:8443", ID: "default", Worker: "fd00::1"},
			{Site: "[2001:db8::1]:8443", ID: "default", Worker: "fd00"},
			{Site: "shop.test", ID: "odd \x00\xff*?[a]\r\n", Worker: "\x00"},
			{Site: "shop.test", ID: "odd \x00\xff*?[a]\r\n", Worker: "\x00\x00"},
			{Site: "shop.test", ID: "odd \x00\xff*?[a]\r\n"},
		}
		for i, key := range keys {
			f.set(key, cookie("n", fmt.Sprint(i)))
		}
		for i, key := range keys {
			f.wantJar(key, fmt.Sprintf("n=%d", i))
		}
	}},
}

// oddCookies are cookies that a store could spoil.
func oddCookies() []session.Cookie {
	expires := time.Now().Add(48 * time.Hour).Truncate(time.Second)
	raw := cookie("n\xe9", "\xff\xfe {\"k\":\"v\"}, \"q\" a=b")
	nameless := cookie("", "nameless")
	full := session.Cookie{
		Name: "__Secure-full", Value: "", Domain: "example.test", Path: "/cart",
		Secure: true, SameSite: session.SameSiteStrict, Partitioned: true, Priority: "High",
		Expires: expires, Created: time.Now(), Used: time.Now(),
	}
	plain := session.Cookie{
		Name: "plain", Value: "1", Domain: "a.shop.test", HostOnly: true, Path: "/",
		HTTPOnly: true, SameSite: session.SameSiteLax, Created: time.Now(), Used: time.Now(),
	}
	return []session.Cookie{raw, nameless, full, plain}
}

// wantCookies compares all that a Set-Cookie line says.
func wantCookies(f fixture, key session.Key, want []session.Cookie) {
	f.Helper()
	jar := f.load(key)
	if jar == nil {
		f.Fatalf("jar of %v is absent", key)
	}
	if len(jar.Cookies()) != len(want) {
		f.Errorf("%d cookies, want %d", len(jar.Cookies()), len(want))
	}
	for _, w := range want {
		i := slices.IndexFunc(jar.Cookies(), func(c session.Cookie) bool { return c.Identity() == w.Identity() })
		if i < 0 {
			f.Errorf("no cookie %+v", w.Identity())
			continue
		}
		got := jar.Cookies()[i]
		if !got.Expires.Equal(w.Expires) {
			f.Errorf("cookie %q expires %v, want %v", w.Name, got.Expires, w.Expires)
		}
		w.Expires, w.Created, w.Used, w.Version, w.Writer, w.Login = got.Expires, got.Created, got.Used, got.Version, got.Writer, got.Login
		if got != w {
			f.Errorf("cookie %+v, want %+v", got, w)
		}
	}
}
