package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// quick is how long leases live here: the pool looks after them 30 times in it.
const quick = 1500 * time.Millisecond

// newPool is a pool of n upstreams that are never connected.
func newPool(t testing.TB, n int, change func(*upstream.Config)) *upstream.Pool {
	t.Helper()
	ps := newPools(t, upstream.NewMemory(quick))
	c := config(t, n)
	if change != nil {
		change(&c)
	}
	ps.Reload(map[string]upstream.Config{"eu": c})
	return ps.Pool("eu")
}

func newPools(t testing.TB, ledger upstream.Ledger) *upstream.Pools {
	t.Helper()
	ps := upstream.NewPools(upstream.Options{
		Ledger: ledger, Dial: new(net.Dialer).DialContext, Log: slog.New(slog.DiscardHandler),
		Unused: func(*upstream.Exit) {}, Failed: func(string, upstream.Reason) {}, Waited: func(string, time.Duration) {},
	})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		ps.Close(ctx)
		if ctx.Err() != nil {
			t.Error("the pools do not close: a lease is in use yet")
		}
	})
	return ps
}

func config(t testing.TB, n int) upstream.Config {
	t.Helper()
	c := upstream.Config{Capacity: 1, Idle: time.Minute, Wait: 10 * time.Second}
	for i := range n {
		u, err := upstream.Parse(fmt.Sprintf("http://10.0.0.%d:3128", i+1))
		if err != nil {
			t.Fatal(err)
		}
		c.Proxies = append(c.Proxies, u)
	}
	return c
}

func worker(n int) upstream.Owner { return upstream.Worker("crawler", fmt.Sprint("w", n)) }

// lease takes the owner's lease, which the test gives back.
func lease(t *testing.T, p *upstream.Pool, o upstream.Owner) *upstream.Lease {
	t.Helper()
	l, err := p.Lease(t.Context(), o, new(upstream.Patience))
	if err != nil {
		t.Fatalf("lease of %s: %v", o, err)
	}
	return l
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not seen in 10 s: %s", what)
		}
	}
}

func waiting(t *testing.T, p *upstream.Pool) int {
	u, err := p.Usage(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return u.Waiting
}

func TestAnOwnerKeepsItsUpstream(t *testing.T) {
	t.Parallel()
	p := newPool(t, 3, nil)
	first := lease(t, p, worker(1))
	defer first.Done()
	for range 3 {
		l := lease(t, p, worker(1))
		if l.Exit() != first.Exit() {
			t.Errorf("it left by %s, then by %s", first.Exit().Upstream(), l.Exit().Upstream())
		}
		l.Done()
	}
	other := lease(t, p, worker(2))
	if other.Exit() == first.Exit() {
		t.Error("another owner has the same upstream")
	}
	other.Done()
}

func TestRequestsOfOneOwnerWaitTogether(t *testing.T) {
	t.Parallel()
	p := newPool(t, 1, func(c *upstream.Config) { c.Idle = 50 * time.Millisecond })
	held := lease(t, p, worker(1))
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			l, err := p.Lease(t.Context(), worker(2), new(upstream.Patience))
			if err != nil {
				t.Error(err)
				return
			}
			l.Done()
		})
	}
	eventually(t, "all wait", func() bool { return waiting(t, p) == 5 })
	held.Done()
	wg.Wait()
}

func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	p := newPool(t, 1, func(c *upstream.Config) { c.Idle = 20 * time.Millisecond })
	held := lease(t, p, worker(0))
	var mu sync.Mutex
	var served []int
	var wg sync.WaitGroup
	const owners = 5
	for n := 1; n <= owners; n++ {
		wg.Go(func() {
			l, err := p.Lease(t.Context(), worker(n), new(upstream.Patience))
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			served = append(served, n)
			mu.Unlock()
			l.Done()
		})
		eventually(t, "one more waits", func() bool { return waiting(t, p) == n })
	}
	held.Done()
	wg.Wait()
	for i, n := range served {
		if n != i+1 {
			t.Fatalf("served in the order %v", served)
		}
	}
}

func TestWhoLeavesTheQueueHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	p := newPool(t, 1, nil)
	held := lease(t, p, worker(0))
	defer held.Done()
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := p.Lease(ctx, worker(1), new(upstream.Patience))
		gone <- err
	}()
	eventually(t, "it waits", func() bool { return waiting(t, p) == 1 })
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want that of the context", err)
	}
	if n := waiting(t, p); n != 0 {
		t.Errorf("%d wait yet", n)
	}
}

func TestWhoWaitsInVainLearnsWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		n    int
		want upstream.Why
	}{{"a pool without upstreams", 0, upstream.Empty}, {"a pool that is full", 1, upstream.Full}} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t, tt.n, func(c *upstream.Config) { c.Wait = 200 * time.Millisecond })
			for n := range tt.n {
				defer lease(t, p, worker(n)).Done()
			}
			_, err := p.Lease(t.Context(), worker(9), new(upstream.Patience))
			full, ok := errors.AsType[*upstream.Exhausted](err)
			if !ok || full.Why != tt.want || full.Pool != "eu" {
				t.Errorf("%v, want that it is %s", err, tt.want)
			}
		})
	}
}

func TestALeaseThatIsOldGivesWayToAnother(t *testing.T) {
	t.Parallel()
	p := newPool(t, 2, func(c *upstream.Config) { c.MaxAge = 200 * time.Millisecond })
	first := lease(t, p, worker(1))
	eventually(t, "new requests have another", func() bool {
		l := lease(t, p, worker(1))
		l.Done()
		return l.Exit() != first.Exit()
	})
	if u, err := p.Usage(t.Context()); err != nil || u.Held != 2 {
		t.Errorf("%d leases are held, %v; want that of the request under way, too", u.Held, err)
	}
	first.Done()
	eventually(t, "the old one is given back", func() bool {
		u, err := p.Usage(t.Context())
		return err == nil && u.Free == 1
	})
}

func TestAPoolThatGoesServesWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	ps := newPools(t, upstream.NewMemory(quick))
	ps.Reload(map[string]upstream.Config{"eu": config(t, 1)})
	p := ps.Pool("eu")
	l := lease(t, p, worker(1))
	waits := make(chan error, 1)
	go func() {
		_, err := p.Lease(t.Context(), worker(2), new(upstream.Patience))
		waits <- err
	}()
	eventually(t, "another waits", func() bool { return waiting(t, p) == 1 })
	ps.Reload(nil)
	if err := <-waits; !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("who waited got %v", err)
	}
	if _, err := p.Lease(t.Context(), worker(1), new(upstream.Patience)); !errors.Is(err, upstream.ErrClosed) {
		t.Errorf("a new request got %v", err)
	}
	if u, err := p.Usage(t.Context()); err != nil || u.Held != 1 {
		t.Errorf("%d leases are held, %v; want the one in use", u.Held, err)
	}
	l.Done()
	eventually(t, "it is given back", func() bool {
		u, err := p.Usage(t.Context())
		return err == nil && u.Held == 0
	})
}

// A pool that goes, and comes back while one of its leases is still in use, does
// not share that lease with itself: it ends with the use that it was taken for.
func TestAPoolThatComesBackLeasesNothingTwice(t *testing.T) {
	t.Parallel()
	ps := newPools(t, upstream.NewMemory(upstream.LeaseTime))
	conf := map[string]upstream.Config{"eu": config(t, 1)}
	ps.Reload(conf)
	old := lease(t, ps.Pool("eu"), worker(1))
	for range 3 {
		ps.Reload(nil)
		ps.Reload(conf)
	}
	p := ps.Pool("eu")
	again := make(chan *upstream.Lease, 1)
	go func() {
		l, err := p.Lease(context.Background(), worker(1), new(upstream.Patience))
		if err != nil {
			t.Error(err)
		}
		again <- l
	}()
	eventually(t, "its owner waits, or has it", func() bool { return waiting(t, p) > 0 || len(again) > 0 })
	old.Done()
	l := <-again
	if l == nil {
		return
	}
	defer l.Done()
	time.Sleep(200 * time.Millisecond) // for the old one to be given back, where it is the same
	c := conf["eu"]
	c.Wait = 0
	ps.Reload(map[string]upstream.Config{"eu": c})
	if other, err := p.Lease(t.Context(), worker(2), new(upstream.Patience)); err == nil {
		t.Error("another owner was given the upstream, too")
		other.Done()
	}
}

// The upstream may yet pass on what it was sent before the connections to it
// were cut.
func TestALeaseThatIsCutInUseRunsOutInTheLedger(t *testing.T) {
	t.Parallel()
	ledger := upstream.NewMemory(quick)
	ps := newPools(t, ledger)
	ps.Reload(map[string]upstream.Config{"eu": config(t, 2)})
	inUse, unused := lease(t, ps.Pool("eu"), worker(1)), lease(t, ps.Pool("eu"), worker(2))
	unused.Done()
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	ps.Close(hurried)
	inUse.Done()
	list, err := ledger.List(t.Context(), "eu")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list {
		if used := s.URL == inUse.Exit().Upstream().URL(); len(s.Leases) > 0 != used {
			t.Errorf("%s was in use: %v, and has the leases %v", s.URL, used, s.Leases)
		}
	}
	next := newPools(t, ledger)
	next.Reload(map[string]upstream.Config{"eu": config(t, 2)})
	again := lease(t, next.Pool("eu"), worker(1))
	defer again.Done()
	if again.Exit().Upstream() != inUse.Exit().Upstream() {
		t.Error("its owner got another upstream")
	}
}

// A lease costs a request next to nothing once it is held.
func BenchmarkHeldLease(b *testing.B) {
	p := newPool(b, 1, nil)
	l, err := p.Lease(b.Context(), worker(1), new(upstream.Patience))
	if err != nil {
		b.Fatal(err)
	}
	l.Done()
	b.ReportAllocs()
	for b.Loop() {
		l, err := p.Lease(b.Context(), upstream.Worker("crawler", "w1"), new(upstream.Patience))
		if err != nil {
			b.Fatal(err)
		}
		l.Answered(200)
		l.Done()
	}
}
