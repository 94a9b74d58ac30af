package redisstore

import (
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// life gives a session's history: each step a second after the last.
type life struct {
	jar *session.Jar
	now int64
}

func (l *life) set(pairs ...string) *life {
	u := session.Update{Base: session.Latest}
	for _, p := range pairs {
		u.Cookies = append(u.Cookies, cookie(p))
	}
	l.now += 1e6
	l.jar, _ = l.jar.Apply(u, l.now)
	return l
}

func (l *life) delete(name string) *life {
	c := cookie(name + "=")
	c.Expires = past
	l.now += 1e6
	l.jar, _ = l.jar.Apply(session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, l.now)
	return l
}

func (l *life) then() *life { return &life{l.jar, l.now} }

func (l *life) revoke() *life {
	l.now += 1e6
	l.jar = l.jar.Revoke(l.now)
	return l
}

func (l *life) clear() *life {
	l.now += 1e6
	l.jar = l.jar.Clear(l.now)
	return l
}

func TestWhatIsWrittenBack(t *testing.T) {
	t.Parallel()
	begin := func() *life { return &life{none, noon} }
	old := begin().set("sid=1", "lang=en")
	for _, tt := range []struct {
		name      string
		own, held *life // what Redis has, nil for nothing; what memory has
		want      string
		floor     bool
	}{
		{"all, where Redis is empty", nil, old.then(), "lang=en sid=1", false},
		{"nothing, where Redis has the same", old.then(), old.then(), "lang=en sid=1", false},
		{"what a replica lacks", old.then(), old.then().set("sid=2", "new=1"), "lang=en new=1 sid=2", false},
		{"a deletion that it lacks", old.then(), old.then().delete("lang"), "sid=1", false},
		{"nothing that others changed since", old.then().set("x=1").set("sid=3"), old.then().set("x=1"), "lang=en sid=3 x=1", false},
		{"nothing that others deleted since", old.then().delete("lang"), old.then(), "sid=1", false},
		{"what is older than a session that was begun meanwhile", begin().set().set().set("sid=9"), old.then(), "lang=en sid=9", false},
		{"nothing that was cleared since", old.then().clear(), old.then(), "", false},
		{"nothing that was revoked since", old.then().revoke(), old.then(), "", true},
		{"a revocation that it lacks", old.then(), old.then().revoke(), "", true},
		{"a revocation, where Redis is empty", nil, old.then().revoke(), "", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			now := noon + 60e6
			var own *session.Record
			if tt.own != nil {
				own = &session.Record{Jar: tt.own.jar, Used: now, Ends: now + 60e6}
			}
			held := &session.Record{Jar: tt.held.jar, Used: now, Ends: now + 60e6}
			got, _ := restored(held)(own, nil, now)
			want(t, "the jar", pairs(got.Jar), tt.want)
			if (got.Jar.Floor() > 0) != tt.floor {
				t.Errorf("its floor is %d", got.Jar.Floor())
			}
			// Another proxy that has the same does nothing more.
			if again, _ := restored(held)(got, nil, now); again != got {
				t.Errorf("once more, and it is %q", pairs(again.Jar))
			}
		})
	}
	over := &session.Record{Jar: old.jar, Used: noon, Ends: noon + int64(time.Second/time.Microsecond)}
	if got, _ := restored(over)(nil, nil, noon+60e6); got != nil {
		t.Errorf("a session that is over was written back: %q", pairs(got.Jar))
	}
}
