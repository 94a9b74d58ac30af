package upstream_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// A request that moves from one lease to another waits no longer for both than
// for one.
func TestTheWaitIsThatOfTheWholeRequest(t *testing.T) {
	t.Parallel()
	const wait = 3 * time.Second
	p := newPool(t, 1, func(c *upstream.Config) { c.Wait = wait })
	defer lease(t, p, worker(0)).Done()
	var request upstream.Patience
	for _, first := range []bool{true, false} {
		began := time.Now()
		_, err := p.Lease(t.Context(), worker(1), &request)
		if full, ok := errors.AsType[*upstream.Exhausted](err); !ok || full.Why != upstream.Full {
			t.Errorf("%v, want that the pool is full", err)
		}
		if waited := time.Since(began) >= wait; waited != first {
			t.Errorf("it waited %v; the first time: %v", time.Since(began), first)
		}
	}
	free := newPool(t, 1, func(c *upstream.Config) { c.Wait = wait })
	l, err := free.Lease(t.Context(), worker(1), &request)
	if err != nil {
		t.Fatalf("it has waited long enough, and does not get what is free: %v", err)
	}
	l.Done()
}

// slow is a ledger that takes its time.
type slow struct{ upstream.Ledger }

func (s slow) Acquire(ctx context.Context, pool string, asks []upstream.Ask) ([]upstream.Answer, error) {
	select {
	case <-time.After(100 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.Ledger.Acquire(ctx, pool, asks)
}

// However short a request may wait, it gets what is free, and hears why there
// is nothing.
func TestAWaitThatIsShorterThanTheLedgerTakes(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, time.Millisecond} {
		t.Run(fmt.Sprint(wait), func(t *testing.T) {
			t.Parallel()
			ps := newPools(t, slow{upstream.NewMemory(quick)})
			c := config(t, 1)
			c.Wait = wait
			ps.Reload(map[string]upstream.Config{"eu": c})
			defer lease(t, ps.Pool("eu"), worker(1)).Done()
			_, err := ps.Pool("eu").Lease(t.Context(), worker(2), new(upstream.Patience))
			if full, ok := errors.AsType[*upstream.Exhausted](err); !ok || full.Why != upstream.Full {
				t.Errorf("another: %v, want that the pool is full", err)
			}
		})
	}
}

// Those that stand too far behind for one call of the ledger hear why they wait,
// too.
func TestACrowdThatWaitsInVainLearnsWhy(t *testing.T) {
	t.Parallel()
	const crowd = 2000
	ps := newPools(t, upstream.NewMemory(upstream.LeaseTime)) // a busy machine may take a while for so many
	c := config(t, 1)
	c.Wait = time.Second
	ps.Reload(map[string]upstream.Config{"eu": c})
	p := ps.Pool("eu")
	defer lease(t, p, worker(0)).Done()
	var wg sync.WaitGroup
	for n := range crowd {
		wg.Go(func() {
			_, err := p.Lease(t.Context(), worker(n+1), new(upstream.Patience))
			if full, ok := errors.AsType[*upstream.Exhausted](err); !ok || full.Why != upstream.Full {
				t.Errorf("%v, want that the pool is full", err)
			}
		})
	}
	wg.Wait()
	if n := waiting(t, p); n != 0 {
		t.Errorf("%d wait yet", n)
	}
}
