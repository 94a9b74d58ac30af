package tracking_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/redisstore/tracking"
)

// few is what a read may be late where Redis tells of each loss: delays of
// scheduling on a busy machine, under the race detector.
const few = 250 * time.Millisecond

func bounded(t *testing.T, worst, bound time.Duration) {
	t.Helper()
	if worst > bound {
		t.Errorf("a number was read %v after a higher one, want %v at most", worst, bound)
	}
}

func TestARoadThatBrokeSilentlyIsNoticed(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	r := redistest.NewRelay(t, s.Addr)
	m := remember(t, "redis://"+r.Addr)
	m.waitCoherent(t)
	var writing sync.Mutex
	write := set(s.Client(), key)
	worst := watch(t, m, key, func(ctx context.Context, n int) (int, error) {
		writing.Lock()
		defer writing.Unlock()
		return write(ctx, n)
	}, func() {
		writing.Lock()                    // so that the value is in memory when the road breaks
		time.Sleep(50 * time.Millisecond) // the push of the last write may be on its way
		redistest.Eventually(t, 5*time.Second, "the value is in memory", func() bool {
			m.mu.Lock()
			defer m.mu.Unlock()
			_, ok := m.values[key]
			return ok
		})
		began := time.Now()
		r.Stall()
		writing.Unlock()
		redistest.Eventually(t, 5*time.Second, "the key is not coherent", func() bool { return !m.Coherent(key) })
		t.Logf("half open for %v, and noticed", time.Since(began).Round(time.Millisecond))
		r.Resume()
		m.waitCoherent(t)
	})
	bounded(t, worst, tracking.MaxStale)
	if worst < 100*time.Millisecond {
		t.Errorf("a number was read %v after a higher one: the road did not break", worst)
	}
}

func TestAFrozenServerIsNoticed(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	began := time.Now()
	s.Freeze()
	redistest.Eventually(t, 5*time.Second, "the key is not coherent", func() bool { return !m.Coherent(key) })
	took := time.Since(began)
	s.Thaw()
	t.Logf("noticed after %v", took.Round(time.Millisecond))
	if took > tracking.MaxStale {
		t.Errorf("noticed after %v, want %v at most", took, tracking.MaxStale)
	}
	m.waitCoherent(t)
	if arms := m.arms(); arms[len(arms)-1].Restarted {
		t.Error("the same process counts as another")
	}
}

// A connection that is killed together with a write has no push of it.
func TestAKilledConnectionHidesNoWrite(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	worst := watch(t, m, key, func(ctx context.Context, n int) (int, error) {
		_, err := s.Client().TxPipelined(ctx, func(p redis.Pipeliner) error {
			if n%10 == 0 {
				p.ClientKillByFilter(ctx, "TYPE", "pubsub")
			}
			p.Set(ctx, key, n, 0)
			return nil
		})
		return n - 1, err
	}, func() { time.Sleep(2 * time.Second) })
	bounded(t, worst, few)
	if n := len(m.arms()); n < 10 {
		t.Errorf("armed %d times, want it again and again", n)
	}
}

func TestARestartedServerIsToldFromALostConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	restarted := func() bool {
		arms := m.arms()
		return arms[len(arms)-1].Restarted
	}
	if restarted() {
		t.Error("the first process counts as another")
	}
	s.Do("CLIENT", "KILL", "TYPE", "pubsub")
	redistest.Eventually(t, 5*time.Second, "it is armed again", func() bool { return len(m.arms()) > 1 })
	if restarted() {
		t.Error("a killed connection counts as a restart")
	}
	first := m.arms()[0].RunID
	for _, wipe := range []bool{false, true} {
		n := len(m.arms())
		s.Kill()
		redistest.Eventually(t, 5*time.Second, "the key is not coherent", func() bool { return !m.Coherent(key) })
		if wipe {
			s.Wipe()
		}
		s.Start()
		redistest.Eventually(t, 10*time.Second, "it is armed again", func() bool { return len(m.arms()) > n && m.Coherent(key) })
		if arms := m.arms(); !restarted() || arms[len(arms)-1].RunID == first || arms[len(arms)-1].RunID == "" {
			t.Errorf("after kill -9: %+v, want it restarted, under another run id", arms[len(arms)-1])
		}
	}
}

func TestAKilledServerComesBack(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	bounded(t, watch(t, m, key, set(s.Client(), key), func() {
		s.Kill()
		time.Sleep(300 * time.Millisecond)
		s.Start()
		m.waitCoherent(t)
	}), few)
}

// writeMaster writes by a client of its own, as other proxies do.
func writeMaster(t *testing.T, url, key string) func(context.Context, int) (int, error) {
	t.Helper()
	o, err := conn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := conn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return set(c, key)
}

func TestAMasterThatWasReplacedIsLeftThoughItAnswers(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	m := remember(t, g.URL())
	m.waitCoherent(t)
	old := g.Master()
	worst := watch(t, m, key, writeMaster(t, g.URL(), key), func() {
		g.Failover()
		redistest.Eventually(t, 10*time.Second, "another master is heard", func() bool {
			arms := m.arms()
			return m.Coherent(key) && arms[len(arms)-1].Master.Addr == g.Master().Addr
		})
		time.Sleep(2 * time.Second) // in which a tracker that stayed would be stale
	})
	bounded(t, worst, few)
	if arms := m.arms(); !arms[len(arms)-1].Restarted || arms[len(arms)-1].Master.Addr == old.Addr {
		t.Errorf("armed last: %+v", arms[len(arms)-1])
	}
}

func TestAMasterThatIsKilledIsFollowedByAnother(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	m := remember(t, g.URL())
	m.waitCoherent(t)
	old := g.Master()
	bounded(t, watch(t, m, key, writeMaster(t, g.URL(), key), func() {
		began := time.Now()
		old.Kill()
		redistest.Eventually(t, 30*time.Second, "another master is heard", func() bool { return m.Coherent(key) && len(m.arms()) > 1 })
		t.Logf("heard again %v after kill -9", time.Since(began).Round(time.Millisecond))
	}), few)
}

// One Sentinel that knows, of one that was named, is enough.
func TestAFailoverIsHeardThoughTheNamedSentinelIsGone(t *testing.T) {
	t.Parallel()
	g := redistest.Sentinel(t)
	m := remember(t, "redis+sentinel://"+g.Sentinels[2].Addr+"/"+redistest.MasterName)
	m.waitCoherent(t)
	time.Sleep(1200 * time.Millisecond) // the others are met at the second question
	g.Sentinels[2].Kill()
	g.Sentinels = g.Sentinels[:2]
	began := time.Now()
	g.Failover()
	redistest.Eventually(t, 20*time.Second, "another master is heard", func() bool {
		arms := m.arms()
		return m.Coherent(key) && arms[len(arms)-1].Master.Addr == g.Master().Addr
	})
	t.Logf("followed within %v of the command", time.Since(began).Round(time.Millisecond))
}

// keyOf is a key that a node of the Cluster serves.
func keyOf(t *testing.T, c *redistest.Nodes, n *redistest.Server) string {
	t.Helper()
	for i := range 10000 {
		k := fmt.Sprintf("session:cookies:shop%d", i)
		if c.Master(conn.Slot(k)) == n {
			return k
		}
	}
	t.Fatal("no key found")
	return ""
}

func TestALostNodeOfAClusterLeavesTheOthers(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	m := remember(t, c.URL())
	lost, other := keyOf(t, c, c.Nodes[0]), keyOf(t, c, c.Nodes[1])
	m.waitCoherent(t, lost, other)
	bounded(t, watch(t, m, lost, writeMaster(t, c.URL(), lost), func() {
		began := time.Now()
		c.Nodes[0].Kill()
		redistest.Eventually(t, 5*time.Second, "its keys are not coherent", func() bool { return !m.Coherent(lost) })
		if !m.Coherent(other) {
			t.Error("the keys of another node are not coherent either")
		}
		redistest.Eventually(t, 30*time.Second, "its heir is heard", func() bool { return m.Coherent(lost) })
		t.Logf("heard again %v after kill -9", time.Since(began).Round(time.Millisecond))
	}), few)
	if arms := m.arms(); !arms[len(arms)-1].Restarted {
		t.Errorf("the heir of a node is not told from the node: %+v", arms[len(arms)-1])
	}
}

func TestAMasterOfAClusterThatWasReplacedIsLeft(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	m := remember(t, c.URL())
	k := keyOf(t, c, c.Nodes[0])
	m.waitCoherent(t, k)
	worst := watch(t, m, k, writeMaster(t, c.URL(), k), func() {
		c.Nodes[3].Do("CLUSTER", "FAILOVER")
		redistest.Eventually(t, 20*time.Second, "the heir is heard", func() bool {
			arms := m.arms()
			return m.Coherent(k) && arms[len(arms)-1].Master.Addr == c.Nodes[3].Addr
		})
		time.Sleep(time.Second)
	})
	bounded(t, worst, tracking.MaxStale)
}

func TestASlotThatMovesIsHeardAtBothEnds(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	m := remember(t, c.URL())
	k := keyOf(t, c, c.Nodes[0])
	m.waitCoherent(t, k)
	bounded(t, watch(t, m, k, writeMaster(t, c.URL(), k), func() {
		c.MoveSlot(conn.Slot(k), c.Nodes[1])
		time.Sleep(time.Second)
		c.MoveSlot(conn.Slot(k), c.Nodes[2])
		time.Sleep(time.Second)
	}), few)
}
