package redisstore

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

func TestClockFollowsReplies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		ahead time.Duration // Redis' clock before ours
		waits []time.Duration
		off   time.Duration // by how much the clock may be wrong in the end
	}{
		{"one that agrees stays as it is, however long replies take", 0, []time.Duration{200 * time.Millisecond, time.Millisecond}, 0},
		{"one that is ahead is known to within the shortest wait", time.Hour, []time.Duration{200 * time.Millisecond, 2 * time.Millisecond}, 2 * time.Millisecond},
		{"one that is behind too", -time.Hour, []time.Duration{2 * time.Millisecond, 200 * time.Millisecond}, 2 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newClock()
				there := func() int64 { return time.Now().Add(tt.ahead).UnixMicro() }
				for _, wait := range tt.waits {
					sent := time.Now()
					time.Sleep(wait / 2)
					told := there()
					time.Sleep(wait / 2)
					c.learn(told, sent)
				}
				if off := time.Duration(c.now()-there()) * time.Microsecond; off.Abs() > tt.off+time.Microsecond {
					t.Errorf("off by %v, want at most %v", off, tt.off)
				}
			})
		})
	}
}

func TestVersionsNeverGoBack(t *testing.T) {
	t.Parallel()
	c := newClock()
	c.learn(time.Now().Add(time.Hour).UnixMicro(), time.Now())
	before := c.tick()
	c.learn(time.Now().UnixMicro(), time.Now())
	if c.now() > before-int64(30*time.Minute/time.Microsecond) {
		t.Fatal("the clock did not follow the replies back")
	}
	if after := c.tick(); after < before {
		t.Errorf("version %d after %d", after, before)
	}
}

// After a failover to a Redis whose clock is behind, versions stay ahead of it.
func TestAfterTheClockWentBackShortLivesAreKept(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	s := open(t, Options{Client: client, Prefix: newPrefix()})
	s.clock.version = s.clock.now() + time.Hour.Microseconds()
	c := session.Cookie{Name: "cart", Value: "3", Domain: "shop.test", HostOnly: true, Path: "/", Expires: s.Now().Add(10 * time.Minute)}
	if _, _, err := s.Apply(t.Context(), shop, session.Update{Base: session.Latest, Writer: session.ByReply, Cookies: []session.Cookie{c}}, hourly); err != nil {
		t.Fatal(err)
	}
	jar, err := s.Load(t.Context(), shop)
	if err != nil || len(jar.Cookies()) != 1 || jar.Cookies()[0].Expired(s.Now()) {
		t.Errorf("%v, %v: want the cookie", jar, err)
	}
}
