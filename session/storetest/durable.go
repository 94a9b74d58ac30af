package storetest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// RunDurable tests what survives Close. open opens the store that lives in dir,
// empty at first; the suite closes it.
func RunDurable(t *testing.T, open func(t *testing.T, dir string) session.Store) {
	for _, tt := range []struct {
		name string
		run  func(f fixture, reopen func() fixture)
	}{
		{"cookies come back with every attribute and version", func(f fixture, reopen func() fixture) {
			odd := oddCookies()
			f.set(shop, odd...)
			f.apply(shop, by(session.ByOperator, cookie("mine", "1")), hourly)
			before := f.load(shop)
			f = reopen()
			after := f.load(shop)
			if after == nil {
				f.Fatal("the session is absent")
			}
			wantCookies(f, shop, append(odd, cookie("mine", "1")))
			if after.Version() != before.Version() {
				f.Errorf("version %d, want %d", after.Version(), before.Version())
			}
			if got, want := written(after), written(before); !reflect.DeepEqual(got, want) {
				f.Errorf("cookies were %+v, are %+v", want, got)
			}
		}},
		{"a list is the same", func(f fixture, reopen func() fixture) {
			f.set(shop, cookie("sid", "1"))
			f.set(session.Key{Site: "shop.test", ID: "qa"}, cookie("sid", "2"), cookie("lang", "en"))
			before := f.list("")
			f = reopen()
			if after := f.list(""); !slices.EqualFunc(after, before, sameInfo) {
				f.Errorf("list was %+v, is %+v", before, after)
			}
		}},
		{"late replies stay late", func(f fixture, reopen func() fixture) {
			f.set(shop, cookie("sid", "1"), cookie("del", "1"))
			left := f.leave(shop)
			f.apply(shop, by(session.ByLogin, cookie("sid", "2")), hourly)
			f.apply(shop, by(session.ByOperator, gone("del")), hourly)
			f = reopen()
			f.wantOutcomes(shop, reply(left, cookie("sid", "1"), cookie("del", "1")), session.Late, session.Late)
			f.wantJar(shop, "sid=2")
		}},
		{"revoked stays revoked", func(f fixture, reopen func() fixture) {
			f.set(shop, cookie("sid", "1"))
			f.set(worker("w"), cookie("csrf", "1"))
			left := f.leave(shop)
			f.revoke(shop)
			f = reopen()
			f.wantForgotten(shop)
			f.wantForgotten(worker("w"))
			f.wantOutcomes(shop, reply(left, cookie("sid", "1")), session.Revoked)
			f.wantOutcomes(worker("w"), reply(0, cookie("csrf", "1")), session.Revoked)
			f.wantOutcomes(shop, reply(f.leave(shop), cookie("sid", "2")), session.Changed)
		}},
		{"cleared stays cleared", func(f fixture, reopen func() fixture) {
			f.set(shop, cookie("sid", "1"))
			f.set(worker("w"), cookie("csrf", "1"))
			f.clear(shop)
			f = reopen()
			f.wantForgotten(shop)
			f.wantForgotten(worker("w"))
		}},
		{"private jars come back", func(f fixture, reopen func() fixture) {
			f.set(worker("w1"), cookie("csrf", "1"))
			f.set(worker("w2"), cookie("csrf", "2"))
			f = reopen()
			f.wantJar(worker("w1"), "csrf=1")
			f.wantJar(worker("w2"), "csrf=2")
			f.wantJar(shop, absent)
		}},
		{"private jars end with their session, before and after", func(f fixture, reopen func() fixture) {
			start := time.Now()
			f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
			f.set(worker("w"), cookie("csrf", "1"))
			f = reopen()
			f.wantEnd(worker("w"), start, brief)
			f.set(worker("new"), cookie("csrf", "2"))
			f.set(shop, cookie("sid", "2"))
			f = reopen()
			f.wantJar(worker("w"), absent)
			f.wantJar(worker("new"), "csrf=2")
		}},
		{"a life goes on while the store is closed", func(f fixture, reopen func() fixture) {
			start := time.Now()
			f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
			f = reopen()
			f.wantEnd(shop, start, brief)
		}},
		{"a use counts, however soon the store is closed", func(f fixture, reopen func() fixture) {
			f.apply(shop, reply(0, cookie("sid", "1")), session.Life{Idle: brief})
			f.renew(shop, hourly)
			want := f.info(shop)
			f = reopen()
			if got := f.info(shop); !sameInfo(got, want) {
				f.Errorf("%+v, want %+v", got, want)
			}
		}},
		{"versions go on rising", func(f fixture, reopen func() fixture) {
			before := f.set(shop, cookie("sid", "1")).Version()
			f = reopen()
			if after := f.set(shop, cookie("sid", "2")).Version(); after <= before {
				f.Errorf("version %d after %d", after, before)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			f := fixture{t, open(t, dir)}
			defer func() { f.close() }()
			reopen := func() fixture {
				f.close()
				f = fixture{t, open(t, dir)}
				return f
			}
			tt.run(f, reopen)
		})
	}
}

func (f fixture) close() {
	f.Helper()
	if err := f.store.Close(); err != nil {
		f.Errorf("Close: %v", err)
	}
}

// written is what a store keeps of a jar's cookies: times as instants.
func written(jar *session.Jar) []session.Cookie {
	cookies := slices.Clone(jar.Cookies())
	for i := range cookies {
		c := &cookies[i]
		c.Expires, c.Created, c.Used = instant(c.Expires), instant(c.Created), instant(c.Used)
	}
	return cookies
}

func instant(t time.Time) time.Time {
	if t.IsZero() {
		return time.Time{}
	}
	return time.UnixMicro(t.UnixMicro())
}

func sameInfo(a, b session.Info) bool {
	return a.Key == b.Key && a.Cookies == b.Cookies && a.Version == b.Version &&
		a.Created.Equal(b.Created) && a.Used.Equal(b.Used) && a.Expires.Equal(b.Expires)
}
