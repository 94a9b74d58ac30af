package redislock

import (
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
)

// Redis tells times from its own now: a proxy whose clock differs by an hour
// lets a session rest no longer for that.
func TestTimesDoNotDependOnTheProxysClock(t *testing.T) {
	within := func(what string, got, want time.Duration) {
		t.Helper()
		if (got - want).Abs() > 5*time.Second {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	g, err := grant([]string{"3", "2", "60000", "wrong password", "1"})
	if err != nil || g.Failures != 2 || g.Why != "wrong password" || g.Cause != login.Hindered {
		t.Fatalf("%+v, %v", g, err)
	}
	within("a rest", time.Until(g.Until), time.Minute)
	g, err = grant([]string{"1", "7", "0", "0", "30000", "10000"})
	if err != nil || len(g.Won) != 2 {
		t.Fatalf("%+v, %v", g, err)
	}
	within("the first login that succeeded", time.Since(g.Won[0]), 30*time.Second)
	within("the last", time.Since(g.Won[1]), 10*time.Second)
}
