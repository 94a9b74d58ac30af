package redispool_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
)

// A proxy that starts can't see whether a Redis without leases has none, or has
// lost them.

// answers declares a pool and asks it for a lease.
func answers(t *testing.T, l upstream.Ledger, pool string) upstream.Answer {
	t.Helper()
	if err := l.Declare(t.Context(), pool, upstream.Declaration{URLs: urls(1), Capacity: 1}); err != nil {
		t.Fatal(err)
	}
	got, err := l.Acquire(t.Context(), pool, []upstream.Ask{{Owner: "w1", Token: fmt.Sprint(pool, "#1")}})
	if err != nil {
		t.Fatal(err)
	}
	return got[0]
}

func wantLease(t *testing.T, who string, a upstream.Answer) {
	t.Helper()
	if a.Token == "" {
		t.Errorf("%s was answered %+v, want a lease", who, a)
	}
}

func wantSettling(t *testing.T, who string, a upstream.Answer) {
	t.Helper()
	if a.Why != upstream.Settling || a.After <= 0 || a.After > ledgertest.LeaseTime {
		t.Errorf("%s was answered %+v, want that the ledger settles", who, a)
	}
}

func TestTheFirstProxyOnANewRedisLeasesAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	c := client(t, s)
	wantLease(t, "the first proxy", answers(t, newcomer(t, c, "session:", true), "eu"))
	wantLease(t, "its next pool", answers(t, newcomer(t, c, "session:", true), "us"))
	later := newcomer(t, c, "session:", false)
	wantLease(t, "a later proxy, of its own pool", answers(t, later, "asia"))
	wantLease(t, "another installation", answers(t, newcomer(t, c, "other:", true), "eu"))
}

// A Redis that has just started, and knows nothing, may have known leases before.
func TestAYoungRedisSettles(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := newcomer(t, client(t, s), "session:", false)
	wantSettling(t, "a proxy that is not of the first", answers(t, l, "eu"))
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "it gives leases", func() bool { return answers(t, l, "eu").Token != "" })
}

// One that has run for longer than a lease, and was never used, has none to
// lose.
func TestARedisThatHasRunForAWhileLeasesAtOnce(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	s := redistest.Single(t, redistest.By(clock))
	clock.Set(time.Hour)
	wantLease(t, "a proxy that is not of the first", answers(t, newcomer(t, client(t, s), "session:", false), "eu"))
}

// After FLUSHALL a proxy that starts may come before those that hold leases say
// so.
func TestAProxyThatStartsAfterFlushallLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprint("it made the CA: ", first), func(t *testing.T) {
			t.Parallel()
			clock := redistest.NewClock(t)
			s := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1}, redistest.By(clock))
			clock.Set(time.Hour) // so long it has run
			held := s.get(s.a, "w0")
			s.server.Do("FLUSHALL")
			next := newcomer(t, s.redis, "session:", first)
			wantSettling(t, "the next proxy", answers(t, next, pool))
			hold := upstream.Hold{Token: held.Token, Owner: "w0", URL: held.URL}
			for end := time.Now().Add(2 * ledgertest.LeaseTime); time.Now().Before(end); time.Sleep(ledgertest.LeaseTime / 10) {
				if st := s.renew(s.a, hold); st[0].State != upstream.Kept {
					t.Fatalf("the lease of who holds it stands at %v", st[0].State)
				}
				if a := s.ask(next, "w1"); a.Token != "" {
					t.Fatalf("%s was leased twice", a.URL)
				}
			}
			wantLease(t, "a pool that is new then", answers(t, next, "us"))
		})
	}
}
