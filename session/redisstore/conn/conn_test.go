package conn_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

func TestSlotIsWhatRedisSays(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t, redistest.Conf("cluster-enabled yes"))
	for _, key := range []string{
		"", "k", "session:cookies:42", "{session:cookies:42}:jar", "{session:cookies:42}:private:w", "a{b}c{d}", "a{}b", "{}", "a{b", "a}b{c}", "{{a}}", "é{ü}", strings.Repeat("x", 300),
	} {
		if want := s.Do("CLUSTER", "KEYSLOT", key); int64(conn.Slot(key)) != want {
			t.Errorf("Slot(%q) = %d, Redis says %v", key, conn.Slot(key), want)
		}
	}
}

func TestMasterKeyIsInItsSlots(t *testing.T) {
	t.Parallel()
	for first := 0; first < conn.SlotCount; first += 4096 {
		m := conn.Master{Slots: []conn.Range{{First: first, Last: first + 127}}}
		if key := m.Key("{k", "}:"); !m.Serves(conn.Slot(key)) {
			t.Errorf("Key of slots from %d is %s in slot %d", first, key, conn.Slot(key))
		}
	}
}

// A caller's deadline holds whatever the network does, and what is not there
// is known at once.
func TestEveryWaitIsBounded(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	gone := redistest.Single(t)
	gone.Kill()
	stalled := redistest.NewRelay(t, s.Addr)
	frozen := redistest.NewRelay(t, s.Addr)
	frozen.Stall()
	for _, tt := range []struct {
		name, addr string
		before     func(*conn.Client)
		deadline   time.Duration
		within     time.Duration
	}{
		{"a port that is closed", gone.Addr, nil, 0, time.Second},
		{"a server that never answered, and a deadline", frozen.Addr, nil, 200 * time.Millisecond, 450 * time.Millisecond},
		{"a server that stopped answering, and a deadline", stalled.Addr, func(c *conn.Client) {
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			stalled.Stall()
		}, 200 * time.Millisecond, 450 * time.Millisecond},
		{"a server that never answered, and no deadline", frozen.Addr, nil, 0, 2500 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := open(t, "redis://"+tt.addr)
			if tt.before != nil {
				tt.before(c)
			}
			ctx := t.Context()
			if tt.deadline > 0 {
				var cancel context.CancelFunc
				ctx, cancel = context.WithTimeout(ctx, tt.deadline)
				defer cancel()
			}
			began := time.Now()
			err := c.Get(ctx, "k").Err()
			if took := time.Since(began); err == nil || took > tt.within {
				t.Errorf("GET: %v after %v, want an error within %v", err, took, tt.within)
			} else {
				t.Logf("%v: %v", took.Round(time.Millisecond), err)
			}
		})
	}
}

// Who says that a master was replaced sees no answer of the old one any more,
// though it still answers.
func TestSwitchedLeavesTheOldMaster(t *testing.T) {
	t.Parallel()
	old, heir := redistest.Single(t), redistest.Single(t)
	old.Do("SET", "who", "old")
	heir.Do("SET", "who", "heir")
	c := open(t, old.URL())
	who := func() string {
		t.Helper()
		v, err := c.Get(t.Context(), "who").Result()
		if err != nil {
			v, err = c.Get(t.Context(), "who").Result() // on a connection that was closed under it
		}
		return fmt.Sprint(v, err)
	}
	if got := who(); got != "old<nil>" {
		t.Fatalf("before: %s", got)
	}
	c.Switched(old.Addr, heir.Addr)
	if got := who(); got != "heir<nil>" {
		t.Errorf("after: %s", got)
	}
	c.Switched(heir.Addr, old.Addr)
	if got := who(); got != "old<nil>" {
		t.Errorf("and back: %s", got)
	}
	if n := connections(old); n == 0 {
		t.Error("the connections to a master are not counted as its own")
	}
	c.Drop(old.Addr)
	if got := who(); got != "old<nil>" {
		t.Errorf("after Drop: %s", got)
	}
}

// A pool does not find out one by one that a router forgot its connections.
func TestForgottenConnectionsAreLeftAtOnce(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	r := redistest.NewRelay(t, s.Addr)
	c := open(t, "redis://"+r.Addr)
	get := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		defer cancel()
		return c.Get(ctx, "k").Err()
	}
	s.Do("SET", "k", "v")
	redistest.Eventually(t, 5*time.Second, "the pool is warm", func() bool { return get() == nil && c.PoolStats().IdleConns >= 4 })
	r.Lose()
	if err := get(); err == nil {
		t.Error("a forgotten connection answered")
	}
	if err := get(); err != nil {
		t.Errorf("after the first time-out: %v", err)
	}
}

// One command that takes long is no lost road.
func TestASlowCommandEndsNoOtherConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	c := open(t, s.URL())
	var wg sync.WaitGroup
	defer wg.Wait()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var failed atomic.Int64
	wg.Go(func() {
		for ctx.Err() == nil {
			if err := c.Ping(t.Context()).Err(); err != nil {
				failed.Add(1)
			}
		}
	})
	for range 3 {
		slow, cancel := context.WithTimeout(t.Context(), 250*time.Millisecond)
		if err := c.BLPop(slow, 0, "none").Err(); err == nil {
			t.Error("BLPOP of nothing ended")
		}
		cancel()
	}
	if n := failed.Load(); n > 0 {
		t.Errorf("%d other commands failed", n)
	}
}

// connections counts those of our clients.
func connections(s *redistest.Server) int {
	list, _ := s.Do("CLIENT", "LIST").(string)
	return strings.Count(list, "name=sessionproxy")
}

func TestCloseLeavesNoConnection(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	c := open(t, s.URL())
	redistest.Eventually(t, 5*time.Second, "the pool is warm", func() bool {
		list, _ := s.Do("CLIENT", "LIST").(string)
		return strings.Count(list, "\n") >= 5
	})
	c.Close()
	redistest.Eventually(t, 5*time.Second, "no connection is left", func() bool {
		list, _ := s.Do("CLIENT", "LIST").(string)
		return strings.Count(list, "\n") == 1
	})
}
