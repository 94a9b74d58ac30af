package redisstore

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session"
)

// soon is how long another proxy's change may take on a machine that is busy.
const soon = 5 * time.Second

func wantSoon(t testing.TB, what string, s *Store, key session.Key, value string) {
	t.Helper()
	redistest.Eventually(t, soon, what+" is "+value, func() bool { return load(t, s, key) == value })
}

// counter counts the commands of a client, and its writes.
type counter struct{ commands, writes atomic.Int64 }

func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.commands.Add(1)
		if len(cmd.Args()) > 8 { // read.lua has three keys and two arguments
			c.writes.Add(1)
		}
		return next(ctx, cmd)
	}
}

func TestOtherProxiesChangesAreSeen(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	a, b := follow(t, Options{Client: client}), follow(t, Options{Client: dial(t, r.URL())})
	private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
	want(t, "the jar", load(t, b, shop), "absent")
	want(t, "the private jar", load(t, b, private), "absent")
	set(t, a, shop, "sid=1")
	wantSoon(t, "a capture", b, shop, "sid=1")
	set(t, a, private, "csrf=1")
	wantSoon(t, "a private one", b, private, "csrf=1")
	r.Do("HSET", mirrorKey, "sid", "2")
	wantSoon(t, "a worker's write", a, shop, "sid=2")
	wantSoon(t, "a worker's write", b, shop, "sid=2")
	if err := b.Clear(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	want(t, "the cleared jar", load(t, b, shop), "")
	want(t, "the private jar that was cleared", load(t, b, private), "absent")
	wantSoon(t, "the cleared jar", a, shop, "")
	wantSoon(t, "the private jar that was cleared", a, private, "absent")
	set(t, b, shop, "sid=3")
	wantSoon(t, "a login after it", a, shop, "sid=3")
	if err := a.Revoke(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, soon, "the floor is seen", func() bool {
		jar, err := b.Load(t.Context(), shop)
		return err == nil && jar.Floor() > 0
	})
	r.Do("FLUSHALL")
	wantSoon(t, "the jar after FLUSHALL", a, shop, "absent")
	wantSoon(t, "the jar after FLUSHALL", b, shop, "absent")
}

func TestAWorkersWriteIsTakenThoughNobodyAsks(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	s := follow(t, Options{Client: client})
	set(t, s, shop, "sid=1")
	set(t, s, shop, "sid=2")
	r.Do("HSET", mirrorKey, "sid", "1", "new", "1")
	redistest.Eventually(t, soon, "the old value is overwritten", func() bool { return mirror(t, r) == "new=1 sid=2" })
	r.Do("EXPIRE", mirrorKey, "10")
	redistest.Eventually(t, soon, "the shorter life is put right", func() bool { return about(ttl(t, r, mirrorKey), time.Hour) })
}

func TestARequestThatChangesNothingAsksNobody(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	s := follow(t, Options{Client: client})
	private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
	u := session.Update{Base: session.Latest, Cookies: []session.Cookie{cookie("sid=1")}}
	set(t, s, shop, "sid=1")
	settled := func() { // our own writes are told to us too
		redistest.Eventually(t, soon, "memory knows", func() bool {
			load(t, s, shop)
			load(t, s, private)
			steady, _ := s.clock.read()
			_, _, ok := s.known(shop, steady)
			_, _, too := s.known(private, steady)
			return ok && too
		})
	}
	settled()
	time.Sleep(50 * time.Millisecond)
	settled()
	commands := new(counter)
	client.AddHook(commands)
	for range 1000 {
		want(t, "the jar", load(t, s, shop), "sid=1")
		want(t, "the private jar", load(t, s, private), "absent")
		if err := s.Renew(t.Context(), shop, hourly); err != nil {
			t.Fatal(err)
		}
		if _, outcomes, err := s.Apply(t.Context(), shop, u, hourly); err != nil || outcomes[0] != session.Unchanged {
			t.Fatalf("%v, %v", outcomes, err)
		}
	}
	// The tracker's answers may have been late once, on a machine that is busy.
	if got := commands.commands.Load(); got > 20 {
		t.Errorf("1000 requests that changed nothing took %d commands", got)
	}
	ctx := t.Context()
	if _, _, err := s.Apply(ctx, shop, session.Update{Base: session.Latest, Cookies: []session.Cookie{cookie("sid=2")}}, hourly); err != nil {
		t.Fatal(err)
	}
	if got := commands.writes.Load(); got != 1 {
		t.Errorf("a captured change took %d writes, want 1", got)
	}
}

// holder holds back the answers of reads while a test says so.
type holder struct {
	counter
	mu   sync.Mutex
	gate chan struct{} // nil: open
	held chan struct{}
}

func (h *holder) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		h.mu.Lock()
		gate := h.gate
		h.mu.Unlock()
		if gate != nil && len(cmd.Args()) == 8 { // read.lua: three keys, two arguments
			h.held <- struct{}{}
			<-gate
		}
		return err
	}
}

func TestAnOldAnswerIsNotShown(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	h := &holder{held: make(chan struct{}, 8)}
	client.AddHook(h)
	s := follow(t, Options{Client: client})
	other := open(t, Options{Client: dial(t, r.URL())})
	set(t, other, shop, "sid=1")
	want(t, "the jar", load(t, s, shop), "sid=1")

	for name, change := range map[string]func(value string){
		"another's change": func(value string) { set(t, other, shop, value) },
		"a worker's":       func(value string) { r.Do("HSET", mirrorKey, "sid", strings.TrimPrefix(value, "sid=")) },
		"our own":          func(value string) { set(t, s, shop, value) },
	} {
		gate := make(chan struct{})
		h.mu.Lock()
		h.gate = gate
		h.mu.Unlock()
		answered := holdARead(t, s, h)
		h.mu.Lock()
		h.gate = nil
		h.mu.Unlock()
		value := "sid=" + strings.ReplaceAll(name, " ", "_")
		e := s.cache.get(shop)
		before := e.generation()
		change(value)
		redistest.Eventually(t, soon, name+" is told", func() bool { return e.generation() != before })
		wantSoon(t, name, s, shop, value)
		close(gate)
		<-answered
		want(t, "after "+name+" the jar", load(t, s, shop), value)
	}
}

// holdARead has s read the shop, and returns once the answer is held back. The
// channel is closed when the read is over.
func holdARead(t *testing.T, s *Store, h *holder) <-chan struct{} {
	t.Helper()
	for {
		s.forget(shop)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			_, _ = s.Load(t.Context(), shop) // may see the old one: it asked before
		}()
		select {
		case <-h.held:
			return answered
		case <-answered: // by a read that was under way
		case <-time.After(soon):
			t.Fatal("no read was held back")
		}
	}
}

func TestRestarts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		wipe bool
	}{{"with its data", false}, {"empty", true}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, client := single(t)
			a := follow(t, Options{Client: client, budget: defaultBudget})
			b := follow(t, Options{Client: dial(t, r.URL()), budget: defaultBudget})
			private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
			over := session.Key{Site: "over.test", ID: session.DefaultID}
			left := set(t, a, shop, "sid=1", "lang=en").Version()
			set(t, a, private, "csrf=1")
			set(t, a, over, "sid=1")
			wantSoon(t, "the jar", b, shop, "lang=en sid=1")
			wantSoon(t, "the other jar", b, over, "sid=1")
			if err := a.Revoke(t.Context(), over); err != nil {
				t.Fatal(err)
			}
			redistest.Eventually(t, soon, "the other is revoked", func() bool { return load(t, b, over) == "" })

			r.Kill()
			if tt.wipe {
				r.Wipe()
			}
			// One captures while Redis is away, the other asks all the time.
			u := session.Update{Base: left, Cookies: []session.Cookie{cookie("new=1")}}
			if _, _, err := a.Apply(t.Context(), shop, u, hourly); err != nil {
				t.Fatal(err)
			}
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						jar, err := b.Load(context.Background(), shop)
						if err != nil || !strings.Contains(pairs(jar), "lang=en") {
							t.Errorf("in the outage the jar is %v, %v", jar, err)
							return
						}
					}
				}
			}()
			r.Start()
			wantUp(t, a)
			const all = "lang=en new=1 sid=1"
			wantSoon(t, "the jar", a, shop, all)
			wantSoon(t, "the jar of the other", b, shop, all)
			redistest.Eventually(t, soon, "the hash is "+all, func() bool { return mirror(t, r) == all })
			wantSoon(t, "the private jar", a, private, "csrf=1")
			want(t, "the revoked jar", load(t, b, over), "")
			close(stop)
			<-done
			fresh := open(t, Options{Client: dial(t, r.URL())})
			want(t, "the jar of a third", load(t, fresh, shop), all)
			wantSoon(t, "its private jar", fresh, private, "csrf=1")
			if jar, err := fresh.Load(t.Context(), shop); err != nil || jar.Version() < left {
				t.Errorf("its version is %v, %v, want at least %d", jar, err, left)
			}
		})
	}
}

func TestWhatWasFlushedIsNotWrittenBack(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	s := follow(t, Options{Client: client})
	set(t, s, shop, "sid=1")
	r.Do("FLUSHALL")
	wantSoon(t, "the jar after FLUSHALL", s, shop, "absent")
	r.Kill()
	r.Wipe()
	r.Start()
	redistest.Eventually(t, soon, "the tracker follows", func() bool { return s.tracker.Coherent(mirrorKey) })
	wantSoon(t, "the jar", s, shop, "absent")
	want(t, "the hash", mirror(t, r), "")
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	const limit = 64 << 10
	s := follow(t, Options{Client: client, CacheBytes: limit})
	key := func(i int) session.Key { return session.Key{Site: "shop.test", ID: fmt.Sprint("s", i)} }
	for i := range 100 {
		set(t, s, key(i), "sid="+fmt.Sprint(i), "large="+strings.Repeat("x", 3000))
	}
	for i := range 100 {
		want(t, "a jar", load(t, s, key(i)), "large="+strings.Repeat("x", 3000)+" sid="+fmt.Sprint(i))
	}
	redistest.Eventually(t, soon, "memory is within its limit", func() bool {
		s.cache.mu.RLock()
		defer s.cache.mu.RUnlock()
		return s.cache.size <= limit
	})
	// What is in use stays.
	hot := key(1000)
	set(t, s, hot, "sid=hot")
	for i := range 100 {
		want(t, "the jar in use", load(t, s, hot), "sid=hot")
		load(t, s, key(i))
	}
	if s.cache.get(hot) == nil {
		t.Error("the jar in use was evicted")
	}
}

// Nobody tells an evicted session of changes, so no private jar is shown by it.
func TestAPrivateJarIsNotShownByAnEvictedSession(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	s := follow(t, Options{Client: client})
	private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
	set(t, s, shop, "sid=1")
	set(t, s, private, "csrf=1")
	shown := func() bool {
		steady, _ := s.clock.read()
		_, _, ok := s.known(private, steady)
		return ok
	}
	redistest.Eventually(t, soon, "the private jar is in memory", func() bool {
		want(t, "the private jar", load(t, s, private), "csrf=1")
		return shown()
	})
	own, shared := s.cache.get(private), s.cache.get(shop)
	redistest.Eventually(t, soon, "the session is evicted", func() bool {
		s.cache.mu.Lock()
		defer s.cache.mu.Unlock()
		own.recent.Store(true)
		shared.recent.Store(false)
		limit := s.cache.limit
		s.cache.limit = s.cache.size - 1
		s.cache.resize(own, own.size)
		s.cache.limit = limit
		return shared.gone.Load()
	})
	if shown() {
		t.Error("the private jar is shown, and nobody would tell that its session was revoked")
	}
	want(t, "the private jar, asked for", load(t, s, private), "csrf=1")
}

// The way of a change from one proxy to the others.
func TestChangesReachOtherProxiesInTime(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	a, b, c := follow(t, Options{Client: client}), follow(t, Options{Client: dial(t, r.URL())}), follow(t, Options{Client: dial(t, r.URL())})
	const rounds = 500
	var took []time.Duration
	for i := range rounds {
		value := fmt.Sprintf("sid=%d", i)
		set(t, a, shop, value)
		start := time.Now()
		for _, s := range []*Store{b, c} {
			for load(t, s, shop) != value {
				if time.Since(start) > soon {
					t.Fatalf("round %d: not within %v", i, soon)
				}
				time.Sleep(20 * time.Microsecond) // the two that wait would take a whole core
			}
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	t.Logf("from the capture to both others: p50 %v, p99 %v, worst %v", took[rounds/2], took[rounds*99/100], took[rounds-1])
}
