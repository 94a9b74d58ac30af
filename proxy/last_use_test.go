package proxy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/world"
	"github.com/sessionproxy/sessionproxy/session"
)

// Who looks at a session learns by whom it was used last, whichever way.
func TestTheLastUseOfASession(t *testing.T) {
	t.Parallel()
	for _, via := range world.Ways {
		t.Run(via.Name, func(t *testing.T) {
			t.Parallel()
			w := world.New(t, world.Options{Handler: hello})
			begin := time.Now().Truncate(time.Microsecond)
			w.GetAs(t, via, worker1, "/")
			w.GetAs(t, via, worker2, "/")
			w.GetAs(t, via, world.User{Name: "qa-session-qa1"}, "/")
			w.GetAs(t, via, world.User{Name: "qa-session-none"}, "/")
			seen := map[string]string{}
			w.EachUse(func(key session.Key, at time.Time, client, worker string) {
				if at.Before(begin) || at.After(time.Now()) {
					t.Errorf("%v used at %s", key, at)
				}
				seen[key.Site+" "+key.ID] = client + "/" + worker
			})
			if got, want := fmt.Sprint(seen), "map[shop.test default:crawler/2 shop.test qa1:qa/127.0.0.1]"; got != want {
				t.Errorf("uses %s, want %s", got, want)
			}
		})
	}
}
