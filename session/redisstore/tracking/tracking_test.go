package tracking_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/redisstore/tracking"
)

const (
	prefix = "session:"
	key    = "session:cookies:shop"
)

func TestMain(m *testing.M) {
	conn.LogTo(slog.New(slog.DiscardHandler))
	// A pool that could not dial tries each second, and sees then that it was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/go-redis/v9/internal/pool.(*ConnPool).tryDial"))
}

// memory is the least of a store: what it read, while the tracker answers for it.
type memory struct {
	*tracking.Tracker

	client *conn.Client

	mu       sync.Mutex // guards what follows
	values   map[string]int
	filling  map[string]bool
	armings  []tracking.Arming
	heard    []string // keys that changed
	through  int      // reads that went to Redis
	inMemory int
}

func remember(t testing.TB, url string) *memory {
	t.Helper()
	o, err := conn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := conn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	m := &memory{client: c, values: map[string]int{}, filling: map[string]bool{}}
	m.Tracker = tracking.New(tracking.Options{
		Client: c, Prefix: prefix, Invalidate: m.invalidate, Log: slog.New(slog.DiscardHandler),
		Armed: func(a tracking.Arming) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.armings = append(m.armings, a)
		},
	})
	t.Cleanup(func() { m.Close(); c.Close() })
	return m
}

func (m *memory) invalidate(keys []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if keys == nil {
		clear(m.values)
		clear(m.filling)
		return
	}
	m.heard = append(m.heard, keys...)
	for _, k := range keys {
		delete(m.values, k)
		delete(m.filling, k)
	}
}

// load returns the value of a key, from memory where that counts.
func (m *memory) load(ctx context.Context, key string) (int, error) {
	m.mu.Lock()
	v, ok := m.values[key]
	if ok && m.Coherent(key) {
		m.inMemory++
		m.mu.Unlock()
		return v, nil
	}
	m.filling[key] = true
	m.through++
	m.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, 250*time.Millisecond)
	defer cancel()
	v, err := m.client.Get(ctx, key).Int()
	if err != nil {
		return 0, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.filling[key] { // nothing overtook the reply
		m.values[key] = v
	}
	return v, nil
}

func (m *memory) arms() []tracking.Arming {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]tracking.Arming(nil), m.armings...)
}

func (m *memory) waitCoherent(t testing.TB, keys ...string) {
	t.Helper()
	for _, k := range append(keys, key) {
		redistest.Eventually(t, 20*time.Second, k+" is coherent", func() bool { return m.Coherent(k) })
	}
}

// watch writes rising numbers to a key and reads them through m, while a fault
// happens. It returns for how long a read gave a number at most after a higher
// one was acknowledged. A write returns the number that it found. Where that is
// lower than the last one a failover lost those between, as Redis does: no read
// can give them.
func watch(t testing.TB, m *memory, key string, write func(ctx context.Context, n int) (found int, err error), fault func()) (worst time.Duration) {
	t.Helper()
	type event struct {
		n  int
		at time.Time
	}
	var (
		acks, reads           []event
		lost, refused, failed int
		taken                 atomic.Int64
		wg                    sync.WaitGroup
		ctx, stop             = context.WithCancel(t.Context())
	)
	defer stop()
	wg.Go(func() {
		for n := 1; ctx.Err() == nil; n++ {
			found, err := write(ctx, n)
			if err != nil {
				refused++
				time.Sleep(5 * time.Millisecond)
				continue
			}
			for len(acks) > 0 && acks[len(acks)-1].n > found {
				acks = acks[:len(acks)-1]
				lost++
			}
			acks = append(acks, event{n, time.Now()})
			taken.Add(1)
			time.Sleep(2 * time.Millisecond)
		}
	})
	wg.Go(func() {
		for ctx.Err() == nil {
			before := time.Now()
			if v, err := m.load(ctx, key); err == nil {
				reads = append(reads, event{v, before})
			} else {
				failed++
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
	time.Sleep(200 * time.Millisecond) // of quiet, for figures to compare with
	fault()
	before := taken.Load()
	redistest.Eventually(t, 20*time.Second, "writes are taken again", func() bool { return taken.Load() > before+10 })
	stop()
	wg.Wait()
	stale := 0
	for _, r := range reads {
		i, _ := slices.BinarySearchFunc(acks, r.n, func(a event, n int) int { return a.n - n - 1 })
		if i < len(acks) && r.at.After(acks[i].at) {
			stale++
			worst = max(worst, r.at.Sub(acks[i].at))
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	t.Logf("%d writes, %d refused, %d lost by Redis; %d reads: %d from memory, %d through, %d failed, %d stale, worst %v",
		len(acks), refused, lost, len(reads), m.inMemory, m.through, failed, stale, worst.Round(10*time.Microsecond))
	if m.inMemory == 0 {
		t.Error("no read was answered from memory")
	}
	return worst
}

// set writes as a worker does who knows nothing of us.
func set(c redis.Cmdable, key string) func(context.Context, int) (int, error) {
	return func(ctx context.Context, n int) (int, error) {
		found, err := c.SetArgs(ctx, key, n, redis.SetArgs{Get: true}).Result()
		if errors.Is(err, redis.Nil) {
			return 0, nil
		} else if err != nil {
			return 0, err
		}
		return strconv.Atoi(found)
	}
}

func TestAChangeByAnyoneIsHeard(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	companion := "{session:cookies:shop}:jar"
	for _, tt := range []struct {
		name, key string
		args      []any
	}{
		{"SET", key, []any{"SET", key, 2}},
		{"an equal SET", key, []any{"SET", key, 1}},
		{"a script", key, []any{"EVAL", "return redis.call('SET', KEYS[1], 3)", 1, key}},
		{"a shorter life", key, []any{"PEXPIRE", key, 60000}},
		{"UNLINK", key, []any{"UNLINK", key}},
		{"RENAME", key, []any{"RENAME", key, "session:cookies:other"}},
		{"a companion", companion, []any{"HSET", companion, "f", "v"}},
		{"FLUSHALL", key, []any{"FLUSHALL"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s.Do("DEL", companion)
			s.Do("SET", key, 1)
			// The pushes of what stands above may still be on their way.
			redistest.Eventually(t, 5*time.Second, "the key stays in memory", func() bool {
				if tt.key == companion {
					m.mu.Lock()
					m.values[companion] = 1
					m.mu.Unlock()
				} else if _, err := m.load(t.Context(), key); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
				m.mu.Lock()
				defer m.mu.Unlock()
				_, ok := m.values[tt.key]
				return ok
			})
			s.Do(tt.args...)
			redistest.Eventually(t, time.Second, "it is forgotten", func() bool {
				m.mu.Lock()
				defer m.mu.Unlock()
				_, ok := m.values[tt.key]
				return !ok
			})
		})
	}
}

func TestAnExpiredKeyIsHeard(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	s.Do("SET", key, 1, "PX", 50)
	if _, err := m.load(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, 5*time.Second, "it is forgotten", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.values) == 0
	})
}

// What others keep in the same database is none of our concern.
func TestOnlyOurKeysAreHeard(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	for _, k := range []string{"other", "session:lock:shop", "session:cookiesX", "{session:lock:shop}:jar", key} {
		s.Do("SET", k, 1)
	}
	redistest.Eventually(t, 5*time.Second, "the last key is heard", func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.heard) > 0
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Equal(m.heard, []string{key}) {
		t.Errorf("heard %q, want %q alone", m.heard, key)
	}
}

func TestUnderLoadNothingIsLost(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	m := remember(t, s.URL())
	m.waitCoherent(t)
	var wg sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	defer func() { stop(); wg.Wait() }()
	wg.Go(func() { // others write too
		for i := 0; ctx.Err() == nil; i++ {
			p := s.Client().Pipeline()
			for j := range 50 {
				p.HSet(ctx, "session:cookies:other"+strconv.Itoa(j), "f", i)
			}
			_, _ = p.Exec(ctx)
		}
	})
	worst := watch(t, m, key, set(s.Client(), key), func() { time.Sleep(time.Second) })
	if worst > 250*time.Millisecond {
		t.Errorf("a number was read %v after a higher one", worst)
	}
	redistest.Eventually(t, 5*time.Second, "the last number is read", func() bool {
		want, err := s.Client().Get(t.Context(), key).Int()
		got, err2 := m.load(t.Context(), key)
		return err == nil && err2 == nil && got == want
	})
}

func BenchmarkCoherent(b *testing.B) {
	s := redistest.Single(b)
	m := remember(b, s.URL())
	m.waitCoherent(b)
	for b.Loop() {
		if !m.Coherent(key) {
			b.Fatal("not coherent")
		}
	}
}

func BenchmarkCoherentInACluster(b *testing.B) {
	c := redistest.Cluster(b)
	m := remember(b, c.URL())
	m.waitCoherent(b)
	for b.Loop() {
		if !m.Coherent(key) {
			b.Fatal("not coherent")
		}
	}
}
