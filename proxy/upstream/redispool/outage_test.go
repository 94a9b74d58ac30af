package redispool_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
)

// After a restart nobody gets what somebody else may hold yet, whatever Redis
// has lost; who holds a lease keeps it.
func TestARestartLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*redistest.Server)
	}{
		{"with what was on its disk", func(s *redistest.Server) { s.Kill(); s.Start() }},
		{"empty", func(s *redistest.Server) { s.Kill(); s.Wipe(); s.Start() }},
		{"emptied while it runs", func(s *redistest.Server) { s.Do("FLUSHALL") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 1})
			held := s.get(s.a, "w1")
			began := time.Now()
			tt.change(s.server)
			if a := s.ask(s.b, "w2"); a.Token != "" || a.Why != upstream.Settling || a.After <= 0 {
				t.Fatalf("another was answered %+v, want that the ledger settles", a)
			}
			s.wantSet("while it settles")
			hold := upstream.Hold{Token: held.Token, Owner: "w1", URL: held.URL}
			redistest.Eventually(t, 10*ledgertest.LeaseTime, "another gets a lease", func() bool {
				if st := s.renew(s.a, hold); st[0].State != upstream.Kept {
					t.Fatalf("the lease of who holds it stands at %v", st[0].State)
				}
				a := s.ask(s.b, "w2")
				if a.URL == held.URL {
					t.Fatal("it was leased twice")
				}
				return a.Token != ""
			})
			if took := time.Since(began); took < ledgertest.LeaseTime/2 {
				t.Errorf("another got one after %v, before leases had run out", took)
			}
			if a := s.ask(s.a, "w3"); a.Token != "" {
				t.Errorf("a third got %s", a.URL)
			}
		})
	}
}

// What Redis read from its disk may be older than what it has told: there a
// lease stands that was given back since, and its upstream is another's.
func TestARestartFromAnOlderStateLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(2), Capacity: 1}, redistest.Conf("appendonly no"))
	kept, old := s.get(s.a, "w0"), s.get(s.a, "w1")
	s.server.Do("SAVE")
	s.ok(s.a.Release(t.Context(), pool, []upstream.Return{{Token: old.Token}}))
	held := s.get(s.b, "w2")
	if held.URL != old.URL {
		t.Fatalf("w2 got %s, want %s", held.URL, old.URL)
	}
	s.server.Kill()
	s.server.Start()
	for _, owner := range []string{"w0", "w1", "w2"} {
		if a := s.ask(s.b, owner); a.Token != "" || a.Why != upstream.Settling {
			t.Errorf("%s was answered %+v, though no holder has said yet what it has", owner, a)
		}
	}
	keep := func() {
		s.renew(s.a, upstream.Hold{Token: kept.Token, Owner: "w0", URL: kept.URL})
		s.renew(s.b, upstream.Hold{Token: held.Token, Owner: "w2", URL: held.URL})
	}
	keep()
	if got := s.get(s.b, "w0"); got.Token != kept.Token {
		t.Errorf("w0 got %+v through another proxy, want its lease", got)
	}
	for end := time.Now().Add(2 * ledgertest.LeaseTime); time.Now().Before(end); time.Sleep(ledgertest.LeaseTime / 10) {
		keep()
		if a := s.ask(s.a, "w1"); a.Token != "" {
			t.Fatalf("w1 got %s, which is w2's", a.URL)
		}
	}
	s.ok(s.b.Release(t.Context(), pool, []upstream.Return{{Token: held.Token}}))
	if got := s.get(s.a, "w1"); got.URL != held.URL {
		t.Errorf("w1 got %s, want what was given back", got.URL)
	}
}

func TestAnOutageIsAnErrorAndNotAnEmptyPool(t *testing.T) {
	t.Parallel()
	s := share(t, upstream.Declaration{URLs: urls(1), Capacity: 1})
	s.server.Kill()
	if answers, err := s.a.Acquire(t.Context(), pool, []upstream.Ask{{Owner: "w1", Token: "1"}}); err == nil {
		t.Errorf("Acquire: %v, no error", answers)
	}
	if _, err := s.a.Renew(t.Context(), pool, nil); err == nil {
		t.Error("Renew: no error")
	}
	if _, err := s.a.List(t.Context(), pool); err == nil {
		t.Error("List: no error")
	}
}

func TestACluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	var addrs []string
	for _, n := range nodes.Nodes[:3] {
		addrs = append(addrs, n.Addr)
	}
	ledgertest.Run(t, func(t *testing.T) (a, b upstream.Ledger) {
		c := redis.NewClusterClient(&redis.ClusterOptions{Addrs: slices.Clone(addrs)})
		t.Cleanup(func() { c.Close() })
		prefix := t.Name() + ":"
		return open(t, c, prefix), open(t, c, prefix)
	})
}

func TestAFailoverLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	var addrs []string
	for _, n := range group.Sentinels {
		addrs = append(addrs, n.Addr)
	}
	c := redis.NewFailoverClient(&redis.FailoverOptions{MasterName: redistest.MasterName, SentinelAddrs: addrs})
	t.Cleanup(func() { c.Close() })
	s := &shared{T: t, redis: c, a: open(t, c, "session:"), b: open(t, c, "session:")}
	d := upstream.Declaration{URLs: urls(2), Capacity: 1}
	s.ok(s.a.Declare(t.Context(), pool, d))
	s.ok(s.b.Declare(t.Context(), pool, d))
	s.get(s.a, "w1")
	old := run(t, c)
	group.Failover()
	// The old master serves on until it hears of the new one. What it gives
	// then is lost, but for who renews it while the new one settles.
	redistest.Eventually(t, 20*time.Second, "the client has the new master", func() bool {
		is := run(t, c)
		return is != "" && is != old
	})
	if a := s.ask(s.b, "w2"); a.Why != upstream.Settling {
		t.Errorf("the new master answered %+v, want that it settles", a)
	}
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "it gives leases", func() bool { return s.ask(s.b, "w2").Token != "" })
}

// run names the run of the server that answers, "" where none does.
func run(t *testing.T, c redis.UniversalClient) string {
	info, err := c.InfoMap(t.Context(), "server").Result()
	if err != nil {
		return ""
	}
	return info["Server"]["run_id"]
}
