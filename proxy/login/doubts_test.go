package login_test

import (
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/locktest"
)

func TestDoubts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var d login.Doubts
		key, other := locktest.Of.Key, locktest.Of.Key
		other.ID = "qa"
		want := func(when string, erred, closed bool) {
			t.Helper()
			if d.HasErred(key) != erred || d.Closed(key, "shop.test/admin") != closed {
				t.Errorf("%s: erred %t, closed %t; want %t, %t", when, d.HasErred(key), d.Closed(key, "shop.test/admin"), erred, closed)
			}
		}
		want("at first", false, false)
		d.Erred(other)
		d.Close(other, "shop.test/admin")
		d.Close(key, "shop.test/other")
		want("after another's", false, false)
		d.Erred(key)
		d.Close(key, "shop.test/admin")
		want("once seen", true, true)
		d.Open(key, "shop.test/admin")
		want("when it is open", true, false)
		d.Close(key, "shop.test/admin")
		time.Sleep(11 * time.Minute)
		want("long after", false, false)

		long := "shop.test/" + strings.Repeat("x", 2000)
		d.Close(key, long)
		if d.Closed(key, long) {
			t.Error("a page with a long name is remembered")
		}
		for i := range 10_100 {
			d.Close(key, "shop.test/"+strconv.Itoa(i))
		}
		n := 0
		for i := range 10_100 {
			if d.Closed(key, "shop.test/"+strconv.Itoa(i)) {
				n++
			}
		}
		if n > 10_000 {
			t.Errorf("%d pages are remembered", n)
		}
	})
}
