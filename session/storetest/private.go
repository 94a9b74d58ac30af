package storetest

import (
	"fmt"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

const year = 365 * 24 * time.Hour

// private: the jars of workers, their lives and their number.
var private = []test{
	{"a private jar is its worker's alone", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		f.set(worker("w1"), cookie("csrf", "1"))
		f.set(worker("w2"), cookie("csrf", "2"))
		f.wantJar(shop, "sid=1")
		f.wantJar(worker("w1"), "csrf=1")
		f.wantJar(worker("w2"), "csrf=2")
		f.wantJar(worker("w3"), absent)
	}},
	{"a private jar needs no shared one", func(f fixture) {
		f.set(worker("w"), cookie("csrf", "1"))
		f.wantJar(worker("w"), "csrf=1")
		f.wantJar(shop, absent)
	}},
	{"a private jar has a life of its own", func(f fixture) {
		start := time.Now()
		f.set(shop, cookie("sid", "1"))
		f.apply(worker("w"), reply(0, cookie("csrf", "1")), session.Life{Idle: brief})
		f.wantEnd(worker("w"), start, brief)
		f.wantJar(shop, "sid=1")
	}},
	{"a private jar ends with its session", func(f fixture) {
		start := time.Now()
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		f.apply(worker("w"), reply(0, lasting("csrf", year)), session.Life{})
		f.wantEnd(worker("w"), start, brief)
	}},
	{"use does not prolong a private jar beyond its session", func(f fixture) {
		start := time.Now()
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		f.set(worker("w"), cookie("csrf", "1"))
		f.waitUntil("the private jar ends", func() bool {
			if f.load(worker("w")) == nil {
				return true
			}
			f.renew(worker("w"), session.Life{Idle: year})
			return false
		})
		f.wantEnd(worker("w"), start, brief)
	}},
	{"a use of the session prolongs the private jars", func(f fixture) {
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		f.set(worker("w"), cookie("csrf", "1"))
		f.renew(shop, hourly)
		if f.load(shop) == nil {
			f.Skip("too slow a machine: it slept through a session's life")
		}
		time.Sleep(brief)
		f.wantJar(worker("w"), "csrf=1")
	}},
	{"a session that starts anew has the private jars that were made for it, and none from before", func(f fixture) {
		f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
		f.set(worker("old"), cookie("csrf", "1"))
		f.waitUntil("the session ends", func() bool { return f.load(shop) == nil })
		f.set(worker("new"), cookie("csrf", "2"))
		f.wantJar(worker("new"), "csrf=2")
		f.set(shop, cookie("sid", "2"))
		f.wantJar(worker("new"), "csrf=2")
		f.wantJar(worker("old"), absent)
		f.renew(worker("old"), hourly)
		f.wantJar(worker("old"), absent)
		f.set(worker("old"), cookie("other", "1"))
		f.wantJar(worker("old"), "other=1")
	}},
	{"a private jar without a shared one lives its idle life", func(f fixture) {
		start := time.Now()
		f.apply(worker("w"), reply(0, lasting("csrf", year)), session.Life{Idle: brief})
		f.wantEnd(worker("w"), start, brief)
	}},
	{"one private jar too many takes the place of the least recently used", func(f fixture) {
		const clock = 2 * time.Millisecond // a server counts milliseconds
		other := session.Key{Site: shop.Site, ID: "other", Worker: "w"}
		f.set(shop, cookie("sid", "1"))
		for _, key := range []session.Key{other, worker("used"), worker("unused")} {
			f.set(key, cookie("csrf", "1"))
		}
		time.Sleep(clock)
		rest := make([]session.Key, session.MaxPrivate-2)
		var wg sync.WaitGroup
		for i := range rest {
			rest[i] = worker(fmt.Sprint("w", i))
			wg.Go(func() {
				if _, _, err := f.store.Apply(f.Context(), rest[i], reply(0, cookie("csrf", "1")), hourly); err != nil {
					f.Errorf("Apply: %v", err)
				}
			})
		}
		wg.Wait()
		f.wantJar(worker("unused"), "csrf=1")
		f.set(worker("used"), cookie("csrf", "2"))
		time.Sleep(clock)

		f.set(worker("new"), cookie("csrf", "1"))
		f.wantJar(worker("unused"), absent)
		f.wantJar(worker("used"), "csrf=2")
		f.wantJar(worker("new"), "csrf=1")
		for _, key := range append(rest, other) {
			f.wantJar(key, "csrf=1")
		}
		f.wantJar(shop, "sid=1")
	}},
}
