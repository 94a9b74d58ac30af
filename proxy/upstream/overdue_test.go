package upstream

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"
)

// A process that slept past its leases' deadlines asks for none of them: a
// ledger that settles would bring them back, though others had them since.
func TestALeasePastItsDeadlineIsNotRenewed(t *testing.T) {
	t.Parallel()
	ledger := &renewals{Ledger: NewMemory(LeaseTime)}
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	u, err := Parse("http://10.0.0.1:3128")
	if err != nil {
		t.Fatal(err)
	}
	p := newPool("eu", &Options{
		Ledger: ledger, Dial: new(net.Dialer).DialContext, Log: slog.New(slog.DiscardHandler),
		Unused: func(*Exit) {}, Failed: func(string, Reason) {}, Waited: func(string, time.Duration) {},
	}, Config{Proxies: []Upstream{u}, Capacity: 1, Idle: time.Hour, Wait: 10 * time.Second}, nil)
	l, err := p.Lease(t.Context(), Worker("crawler", "w1"), new(Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Done()
	defer p.close(hurried)
	p.stop()
	p.running.Wait() // or it would renew, and see to deadlines, by itself
	ledger.held = nil
	p.renew(t.Context())
	if len(ledger.held) != 1 {
		t.Fatalf("renewed: %v, want the lease", ledger.held)
	}
	l.deadline.Store(int64(now()))
	p.renew(t.Context())
	if len(ledger.held) != 0 {
		t.Errorf("renewed: %v, past its deadline", ledger.held)
	}
}

// renewals is a ledger that notes what it was last asked to renew.
type renewals struct {
	Ledger
	held []Hold
}

func (r *renewals) Renew(ctx context.Context, pool string, held []Hold) ([]Standing, error) {
	r.held = held
	return r.Ledger.Renew(ctx, pool, held)
}
