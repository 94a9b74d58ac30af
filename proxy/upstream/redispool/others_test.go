package redispool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
)

const (
	pool     = "eu"
	set      = "session:proxy_pool:eu"
	assigned = "session:proxy_assigned:eu"
)

func url(n int) string { return fmt.Sprintf("http://user:p%%40ss@10.0.0.%d:3128", n) }

func urls(n int) (all []string) {
	for i := range n {
		all = append(all, url(i+1))
	}
	return all
}

// shared is one server, and two proxies' ledgers of a pool on it.
type shared struct {
	*testing.T
	server *redistest.Server
	redis  redis.UniversalClient
	a, b   upstream.Ledger
	tokens int
}

func share(t *testing.T, d upstream.Declaration, options ...redistest.Option) *shared {
	t.Helper()
	s := &shared{T: t, server: redistest.Single(t, options...)}
	s.redis = client(t, s.server)
	s.a, s.b = open(t, s.redis, "session:"), open(t, client(t, s.server), "session:")
	for _, l := range []upstream.Ledger{s.a, s.b} {
		s.ok(l.Declare(t.Context(), pool, d))
	}
	return s
}

func (s *shared) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *shared) ask(l upstream.Ledger, owner string) upstream.Answer {
	s.Helper()
	s.tokens++
	answers, err := l.Acquire(s.Context(), pool, []upstream.Ask{{Owner: owner, Token: fmt.Sprint(owner, "#", s.tokens)}})
	s.ok(err)
	return answers[0]
}

func (s *shared) get(l upstream.Ledger, owner string) upstream.Answer {
	s.Helper()
	a := s.ask(l, owner)
	if a.Token == "" {
		s.Fatalf("%s got no lease: %s", owner, a.Why)
	}
	return a
}

func (s *shared) renew(l upstream.Ledger, holds ...upstream.Hold) []upstream.Standing {
	s.Helper()
	standings, err := l.Renew(s.Context(), pool, holds)
	s.ok(err)
	return standings
}

func (s *shared) members() []string {
	s.Helper()
	members, err := s.redis.SMembers(s.Context(), set).Result()
	s.ok(err)
	slices.Sort(members)
	return members
}

func (s *shared) wantSet(what string, want ...string) {
	s.Helper()
	if got := s.members(); !slices.Equal(got, want) {
		s.Errorf("%s the set holds %v, want %v", what, got, want)
	}
}

func TestTheSetHoldsWhatHasRoom(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 2})
	s.wantSet("at first", urls(2)...)
	var held []upstream.Answer
	for _, owner := range []string{"w1", "w2", "w3"} {
		held = append(held, s.get(s.a, owner))
	}
	s.wantSet("with one full", held[1].URL)
	s.get(s.a, "w4")
	s.wantSet("with both full")
	s.ok(s.a.Release(t.Context(), pool, []upstream.Return{{Token: held[0].Token}}))
	s.wantSet("after one was given back", held[0].URL)
	got, err := s.redis.HGetAll(t.Context(), assigned).Result()
	s.ok(err)
	if len(got) != 3 || got["w2"] != held[1].URL || got["w1"] != "" {
		t.Errorf("the hash of what is assigned holds %v", got)
	}
	if _, err := s.b.Rest(t.Context(), pool, held[0].URL, upstream.Rest{Reason: upstream.Dial, Base: time.Minute, Limit: time.Minute}); err != nil {
		t.Fatal(err)
	}
	s.wantSet("while it rests")
}

func TestAPopCountsAsOnePlaceUntilItIsReturned(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 1})
	popped := s.redis.SPop(t.Context(), set).Val()
	got := s.get(s.a, "w1")
	if got.URL == popped {
		t.Fatalf("%s was leased, though another has it", popped)
	}
	if a := s.ask(s.b, "w2"); a.Token != "" {
		t.Fatalf("%s was leased, though another has it", a.URL)
	}
	list, err := s.a.List(t.Context(), pool)
	s.ok(err)
	for _, u := range list {
		if u.Foreign != (u.URL == popped) {
			t.Errorf("%s is listed as taken by others: %v", u.URL, u.Foreign)
		}
	}
	s.redis.SAdd(t.Context(), set, popped)
	if a := s.get(s.b, "w2"); a.URL != popped {
		t.Errorf("%s was leased, want what was returned", a.URL)
	}
	s.wantSet("with both leased")
}

func TestAPopThatNeverComesBackIsNotLost(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1})
	s.redis.SPop(t.Context(), set)
	if a := s.ask(s.a, "w1"); a.Token != "" {
		t.Fatal("it was leased at once")
	}
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "it comes back", func() bool { return s.ask(s.b, "w1").Token != "" })
}

func TestASetThatIsFilledAnewLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 1})
	popped := s.redis.SPop(t.Context(), set).Val()
	s.redis.HSet(t.Context(), assigned, "python-7", popped)
	s.renew(s.a)
	s.get(s.a, "w1")
	for range 3 { // as each worker does at its start
		s.redis.SAdd(t.Context(), set, url(1), url(2))
		if a := s.ask(s.b, "w2"); a.Token != "" {
			t.Fatalf("%s was leased again", a.URL)
		}
		s.wantSet("after that")
	}
	s.redis.HDel(t.Context(), assigned, "python-7")
	s.redis.SAdd(t.Context(), set, popped)
	s.renew(s.a)
	if a := s.get(s.b, "w2"); a.URL != popped {
		t.Errorf("%s was leased, want what was returned", a.URL)
	}
}

func TestAHolderThatDiedIsForgottenThoughTheHashLives(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1})
	s.redis.HSet(t.Context(), assigned, "python-7", s.redis.SPop(t.Context(), set).Val())
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "its upstream comes back", func() bool {
		s.redis.Expire(t.Context(), assigned, time.Hour) // as every other worker does
		s.renew(s.a)
		return s.ask(s.b, "w1").Token != ""
	})
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "its entry goes", func() bool {
		s.renew(s.a)
		return !s.redis.HExists(t.Context(), assigned, "python-7").Val()
	})
}

func TestAHashThatExpiresLosesNothing(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 1})
	a := s.get(s.a, "w1")
	s.redis.Del(t.Context(), assigned)
	hold := upstream.Hold{Token: a.Token, Owner: "w1", URL: a.URL}
	if st := s.renew(s.a, hold); st[0].State != upstream.Kept {
		t.Errorf("the lease stands at %v", st[0].State)
	}
	if got := s.redis.HGet(t.Context(), assigned, "w1").Val(); got != a.URL {
		t.Errorf("the hash says that w1 has %q, want %q", got, a.URL)
	}
	if other := s.get(s.b, "w2"); other.URL == a.URL {
		t.Error("it was leased twice")
	}
}

func TestALeaseThatIsGoneLeavesNoCopy(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1})
	a := s.get(s.a, "w1")
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "it expires", func() bool { return len(s.members()) == 1 || s.ask(s.b, "w2").Token != "" })
	if st := s.renew(s.a, upstream.Hold{Token: a.Token, Owner: "w1", URL: a.URL}); st[0].State != upstream.Gone {
		t.Fatalf("it stands at %v, want gone", st[0].State)
	}
	if got := s.redis.HGet(t.Context(), assigned, "w1").Val(); got != "" {
		t.Errorf("the hash says yet that w1 has %s", got)
	}
	list, err := s.a.List(t.Context(), pool)
	s.ok(err)
	if list[0].Foreign {
		t.Error("our own copy was taken for another program's claim")
	}
}

func TestWhatOthersAddIsDiscovered(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1, Discover: true})
	s.redis.SAdd(t.Context(), set, "http://10.0.0.9:3128/", "no URL", url(1))
	s.renew(s.a)
	got := []string{s.get(s.a, "w1").URL, s.get(s.b, "w2").URL}
	slices.Sort(got)
	if want := []string{"http://10.0.0.9:3128", url(1)}; !slices.Equal(got, want) {
		t.Errorf("leased: %v, want %v", got, want)
	}
	s.wantSet("what is no URL stays in", "no URL")
	other := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1})
	other.redis.SAdd(t.Context(), set, "http://10.0.0.9:3128")
	other.renew(other.a)
	other.get(other.a, "w1")
	if a := other.ask(other.a, "w2"); a.Token != "" {
		t.Errorf("%s was leased, which nobody asked to be discovered", a.URL)
	}
}

// naive is the class that workers of other programs use: SADD of all at its
// start, SPOP and HSET to take one, EXPIRE on the whole hash.
type naive struct {
	redis redis.UniversalClient
	name  string
}

func (n naive) start(ctx context.Context, all []string) {
	n.redis.SAdd(ctx, set, all)
}

func (n naive) take(ctx context.Context) string {
	got := n.redis.SPop(ctx, set).Val()
	if got != "" {
		n.redis.HSet(ctx, assigned, n.name, got)
		n.redis.Expire(ctx, assigned, 600*time.Second)
	}
	return got
}

func (n naive) giveBack(ctx context.Context, url string) {
	n.redis.HDel(ctx, assigned, n.name)
	n.redis.SAdd(ctx, set, url)
}

func TestNaiveWorkersBesideTheProxies(t *testing.T) {
	t.Parallel()
	all := urls(8)
	s := share(t, upstream.Declaration{URLs: all, Capacity: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
	defer cancel()
	var mu sync.Mutex
	holders := map[string]string{}
	leases, pops := 0, 0
	var wg sync.WaitGroup
	for n := range 3 {
		w := naive{s.redis, fmt.Sprint("python-", n)}
		wg.Go(func() {
			w.start(t.Context(), all)
			for ctx.Err() == nil {
				url := w.take(t.Context())
				pause(ctx)
				if url == "" {
					continue
				}
				mu.Lock()
				pops++
				mu.Unlock()
				switch rand.IntN(10) {
				case 0: // it crashes, and is started again
					w.start(t.Context(), all)
				default:
					w.giveBack(t.Context(), url)
				}
			}
		})
	}
	for n := range 6 {
		l := []upstream.Ledger{s.a, s.b}[n%2]
		owner := fmt.Sprint("w", n)
		wg.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				answers, err := l.Acquire(t.Context(), pool, []upstream.Ask{{Owner: owner, Token: fmt.Sprint(owner, "#", i)}})
				if err != nil {
					t.Error(err)
					return
				}
				a := answers[0]
				if a.Token == "" {
					pause(ctx)
					continue
				}
				mu.Lock()
				if other := holders[a.URL]; other != "" {
					t.Errorf("%s is leased to %s and %s", a.URL, other, owner)
				}
				holders[a.URL] = owner
				leases++
				mu.Unlock()
				pause(ctx)
				if _, err := l.Renew(t.Context(), pool, []upstream.Hold{{Token: a.Token, Owner: owner, URL: a.URL}}); err != nil {
					t.Error(err)
				}
				mu.Lock()
				delete(holders, a.URL)
				mu.Unlock()
				if err := l.Release(t.Context(), pool, []upstream.Return{{Token: a.Token}}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	t.Logf("%d leases, %d pops", leases, pops)
	if leases < 50 || pops < 20 {
		t.Errorf("%d leases and %d pops, want many of both", leases, pops)
	}
	redistest.Eventually(t, 20*ledgertest.LeaseTime, "all upstreams are free again", func() bool {
		s.renew(s.a)
		return slices.Equal(s.members(), all)
	})
}

func pause(ctx context.Context) {
	select {
	case <-time.After(rand.N(20 * time.Millisecond)):
	case <-ctx.Done():
	}
}
