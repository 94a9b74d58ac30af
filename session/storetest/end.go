package storetest

import (
	"github.com/sessionproxy/sessionproxy/session"
)

// ending: Revoke and Clear.
var ending = []test{
	{"a revoked session has no cookies", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.revoke(shop)
		f.wantForgotten(shop)
	}},
	{"a revocation raises the floor that requests leave with", func(f fixture) {
		before := f.set(shop, cookie("sid", "1")).Version()
		f.revoke(shop)
		jar := f.load(shop)
		if jar == nil {
			f.Fatal("a revoked session is absent: nobody learns of its floor")
		}
		if jar.Floor() <= before || jar.Version() < jar.Floor() {
			f.Errorf("floor %d, version %d, after a jar of version %d", jar.Floor(), jar.Version(), before)
		}
	}},
	{"a reply that left before the revocation is refused", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.revoke(shop)
		f.wantOutcomes(shop, reply(left, cookie("sid", "1"), cookie("new", "1"), gone("sid")),
			session.Revoked, session.Revoked, session.Revoked)
		f.wantForgotten(shop)
	}},
	{"a reply that left before stays refused once the session is filled anew", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.revoke(shop)
		f.wantOutcomes(shop, reply(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantOutcomes(shop, reply(left, cookie("other", "1")), session.Revoked)
		f.wantJar(shop, "sid=2")
	}},
	{"a reply that left after the revocation fills the session, timid or not", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.revoke(shop)
		f.wantOutcomes(shop, timid(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantOutcomes(shop, reply(f.leave(shop), cookie("lang", "en")), session.Changed)
		f.wantJar(shop, "lang=en sid=2")
	}},
	{"a session that nobody set is revoked too", func(f fixture) {
		left := f.leave(shop)
		f.revoke(shop)
		f.wantOutcomes(shop, reply(left, cookie("sid", "1")), session.Revoked)
		f.wantOutcomes(shop, reply(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"a second revocation raises the floor again", func(f fixture) {
		f.revoke(shop)
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.revoke(shop)
		f.wantOutcomes(shop, reply(left, cookie("sid", "2")), session.Revoked)
		f.wantForgotten(shop)
	}},
	{"a cleared session has no cookies", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.clear(shop)
		f.wantForgotten(shop)
	}},
	{"a reply that left before Clear may fill the session anew", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.clear(shop)
		f.wantOutcomes(shop, reply(left, cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"a reply that left after Clear fills the session, timid or not", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.clear(shop)
		f.wantOutcomes(shop, timid(f.leave(shop), cookie("sid", "2")), session.Changed)
		f.wantJar(shop, "sid=2")
	}},
	{"Clear does not lift a floor", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		left := f.leave(shop)
		f.revoke(shop)
		f.set(shop, cookie("sid", "2"))
		f.clear(shop)
		f.wantOutcomes(shop, reply(left, cookie("sid", "3")), session.Revoked)
		f.wantForgotten(shop)
	}},
	{"to clear a session that nobody set is no error, and makes none", func(f fixture) {
		f.clear(shop)
		f.wantJar(shop, absent)
	}},
	{"versions go on rising over Revoke and Clear", func(f fixture) {
		last := f.set(shop, cookie("sid", "1")).Version()
		for _, end := range []func(session.Key){f.clear, f.revoke, f.clear} {
			end(shop)
			version := f.set(shop, cookie("sid", "1")).Version()
			if version <= last {
				f.Errorf("version %d after %d", version, last)
			}
			last = version
		}
	}},
	{"other sessions and sites are neither revoked nor cleared", func(f fixture) {
		others := []session.Key{
			{Site: shop.Site, ID: "other"}, {Site: shop.Site, ID: "default2"}, {Site: "shop.test2", ID: shop.ID},
			{Site: shop.Site, ID: "other", Worker: "w"},
		}
		for _, key := range append(others, shop) {
			f.set(key, cookie("sid", "1"))
		}
		f.revoke(shop)
		f.clear(shop)
		for _, key := range others {
			f.wantJar(key, "sid=1")
		}
	}},
	{"Revoke ends the private jars, by whichever key it is called", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.set(worker("w1"), cookie("csrf", "1"))
		f.set(worker("w2"), cookie("csrf", "2"))
		f.revoke(worker("w1"))
		f.wantForgotten(shop)
		f.wantForgotten(worker("w1"))
		f.wantForgotten(worker("w2"))
	}},
	{"the floor lies under private jars too", func(f fixture) {
		f.set(worker("w"), cookie("csrf", "1"))
		left, leftNew := f.leave(worker("w")), f.leave(worker("unknown"))
		f.revoke(shop)
		f.wantOutcomes(worker("w"), reply(left, cookie("csrf", "2")), session.Revoked)
		f.wantOutcomes(worker("unknown"), reply(leftNew, cookie("csrf", "2")), session.Revoked)
		for _, key := range []session.Key{worker("w"), worker("unknown")} {
			f.wantForgotten(key)
			f.wantOutcomes(key, timid(f.leave(key), cookie("csrf", "3")), session.Changed)
			f.wantJar(key, "csrf=3")
		}
	}},
	{"Clear empties the private jars", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.set(worker("w1"), cookie("csrf", "1"))
		f.set(worker("w2"), cookie("csrf", "2"))
		f.clear(shop)
		for _, name := range []string{"w1", "w2"} {
			f.wantForgotten(worker(name))
			f.wantOutcomes(worker(name), timid(f.leave(worker(name)), cookie("csrf", "3")), session.Changed)
			f.wantJar(worker(name), "csrf=3")
		}
	}},
	{"Clear empties private jars where there is no shared one", func(f fixture) {
		f.set(worker("w"), cookie("csrf", "1"))
		f.clear(shop)
		f.wantForgotten(worker("w"))
	}},
}
