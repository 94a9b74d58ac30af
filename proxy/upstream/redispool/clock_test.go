package redispool_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
)

// Redis' time of day is set now and then. No lease ends early by that, and none
// that is given up stays.
func TestAClockThatIsSetLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		ahead time.Duration
	}{
		{"a little ahead", 2 * time.Second},
		{"far ahead", 1000 * time.Hour},
		{"far behind", -1000 * time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := redistest.NewClock(t)
			s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 1}, redistest.By(clock))
			held := s.get(s.a, "w1")
			s.get(s.a, "w2") // whose holder dies
			hold := upstream.Hold{Token: held.Token, Owner: "w1", URL: held.URL}
			clock.Set(tt.ahead)
			if a := s.ask(s.b, "w3"); a.Token != "" {
				t.Fatalf("%s was leased twice", a.URL)
			}
			redistest.Eventually(t, 10*ledgertest.LeaseTime, "what its holder gave up is another's", func() bool {
				if st := s.renew(s.a, hold); st[0].State != upstream.Kept {
					t.Fatalf("the lease of who holds it stands at %v", st[0].State)
				}
				a := s.ask(s.b, "w3")
				if a.URL == held.URL {
					t.Fatal("it was leased twice")
				}
				return a.Token != ""
			})
			clock.Set(0)
			s.renew(s.a, hold)
			if a := s.ask(s.b, "w4"); a.Token != "" {
				t.Fatalf("%s was leased twice once the clock was right again", a.URL)
			}
		})
	}
}

// The replica that takes over may have another time of day.
func TestAFailoverToAnotherClockLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			t.Parallel()
			clock := redistest.NewClock(t)
			clock.Set(ahead)
			old := redistest.Single(t)
			host, port, _ := net.SplitHostPort(old.Addr)
			next := redistest.Single(t, redistest.By(clock), redistest.Conf("replicaof "+host+" "+port))
			var master atomic.Value
			master.Store(old.Addr)
			c := redis.NewClient(&redis.Options{Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, master.Load().(string))
			}})
			t.Cleanup(func() { c.Close() })
			s := &shared{T: t, server: old, redis: c, a: open(t, c, "session:"), b: open(t, c, "session:")}
			d := upstream.Declaration{URLs: urls(2), Capacity: 1}
			s.ok(s.a.Declare(t.Context(), pool, d))
			s.ok(s.b.Declare(t.Context(), pool, d))
			held := s.get(s.a, "w1")
			s.get(s.a, "w2") // whose holder dies
			if n := old.Do("WAIT", 1, 10_000); n != int64(1) {
				t.Fatalf("%v replicas follow", n)
			}
			next.Do("REPLICAOF", "NO", "ONE")
			master.Store(next.Addr)
			old.Kill()
			hold := upstream.Hold{Token: held.Token, Owner: "w1", URL: held.URL}
			redistest.Eventually(t, 10*ledgertest.LeaseTime, "what its holder gave up is another's", func() bool {
				if st := s.renew(s.a, hold); st[0].State != upstream.Kept {
					t.Fatalf("the lease of who holds it stands at %v", st[0].State)
				}
				a := s.ask(s.b, "w3")
				if a.URL == held.URL {
					t.Fatal("it was leased twice")
				}
				return a.Token != ""
			})
		})
	}
}
