package upstream

import (
	"context"
	"crypto/x509"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config is a pool's configuration.
type Config struct {
	Proxies  []Upstream
	Discover bool           // take what others add to the pool
	Capacity int            // leases per upstream
	Idle     time.Duration  // an unused lease goes back after it
	MaxAge   time.Duration  // of a lease; 0: any
	Wait     time.Duration  // for a lease
	Strict   bool           // an owner whose upstream is out of order gets no other
	CheckURL string         // asked for through each upstream; "" never
	Every    time.Duration  // between checks
	Ban      Ban            // answers of sites that have an upstream rest
	Roots    *x509.CertPool // that https upstreams are verified against; nil: the system's
}

// Ban says when an upstream rests that a site refuses.
type Ban struct {
	Status []int         // of the site's answers; empty: never
	After  int           // so many in a row
	For    time.Duration // so long
}

// Options are the parts that all pools share. All are needed.
type Options struct {
	Ledger Ledger
	Dial   DialFunc // connects to upstreams; refuses listeners of our own with [ErrOwn]
	Limits Limits
	Log    *slog.Logger

	// Fetch asks for a URL through an exit, and returns the answer's status.
	Fetch func(ctx context.Context, x *Exit, url string) (status int, err error)
	// Unused is told of exits whose connections no new request is to use. It
	// must not wait.
	Unused func(*Exit)
	// Failed and Waited are told of failures, and of waits for leases.
	Failed func(pool string, reason Reason)
	Waited func(pool string, d time.Duration)
}

// Pools are the pools of a configuration.
type Pools struct {
	shared *Options

	ctx   context.Context // ends when nothing is waited for any more
	abort context.CancelFunc

	mu   sync.RWMutex // guards what follows
	all  map[string]*Pool
	last map[string]*Pool // those that were, and may be closing yet
	done sync.WaitGroup   // pools that close
}

// NewPools makes none yet; Reload does.
func NewPools(o Options) *Pools {
	ps := &Pools{shared: &o, all: map[string]*Pool{}, last: map[string]*Pool{}}
	ps.ctx, ps.abort = context.WithCancel(context.Background())
	return ps
}

// Reload puts a configuration in force. Pools that it does not have close once
// their leases are no longer in use.
func (ps *Pools) Reload(conf map[string]Config) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	for name, p := range ps.all {
		if _, ok := conf[name]; !ok {
			delete(ps.all, name)
			ps.last[name] = p
			ps.done.Go(func() { p.close(ps.ctx) })
		}
	}
	for name, c := range conf {
		if p := ps.all[name]; p != nil {
			p.reconfigure(&c)
		} else {
			ps.all[name] = newPool(name, ps.shared, c, ps.last[name])
			delete(ps.last, name)
		}
	}
}

// reconfigure puts a configuration in force, for what is open already, too.
func (p *Pool) reconfigure(c *Config) {
	if was := p.conf.Swap(c); !was.Roots.Equal(c.Roots) {
		p.mu.Lock()
		for _, x := range p.exits {
			x.dialer.trust(c.Roots)
			p.shared.Unused(x)
		}
		p.mu.Unlock()
	}
	notify(p.redeclare)
}

// Pool returns the pool of that name, or nil.
func (ps *Pools) Pool(name string) *Pool {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	return ps.all[name]
}

// All returns the pools in order of their names.
func (ps *Pools) All() []*Pool {
	ps.mu.RLock()
	defer ps.mu.RUnlock()
	var all []*Pool
	for _, p := range ps.all {
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b *Pool) int { return strings.Compare(a.name, b.name) })
	return all
}

// Close gives all leases back, once they are no longer in use or ctx ends.
func (ps *Pools) Close(ctx context.Context) {
	ps.mu.Lock()
	for name, p := range ps.all {
		delete(ps.all, name)
		ps.done.Go(func() { p.close(ps.ctx) })
	}
	ps.mu.Unlock()
	defer ps.abort()
	defer context.AfterFunc(ctx, ps.abort)()
	ps.done.Wait()
}

// List shows a pool's upstreams.
func (p *Pool) List(ctx context.Context) ([]Status, error) { return p.ledger.List(ctx, p.name) }

// Add puts an upstream into the pool.
func (p *Pool) Add(ctx context.Context, u Upstream) error {
	if err := p.ledger.Add(ctx, p.name, u.URL()); err != nil {
		return err
	}
	notify(p.seek)
	return nil
}

// Remove takes an upstream out of the pool. It reports whether there was one.
func (p *Pool) Remove(ctx context.Context, u Upstream) (bool, error) {
	was, err := p.ledger.Remove(ctx, p.name, u.URL())
	if err == nil {
		p.renewNow()
	}
	return was, err
}

// End ends a lease: its owner asks for another.
func (p *Pool) End(ctx context.Context, token string) error {
	if err := p.ledger.End(ctx, p.name, token); err != nil {
		return err
	}
	p.renewNow()
	return nil
}

// Usage is how a pool's places are used.
type Usage struct {
	Held, Waiting int // leases of this process, and requests that wait for one
	Free, Resting int // places of all processes
}

// Usage counts.
func (p *Pool) Usage(ctx context.Context) (Usage, error) {
	p.mu.RLock()
	u := Usage{Held: len(p.held), Waiting: p.queue.requests}
	p.mu.RUnlock()
	list, err := p.List(ctx)
	if err != nil {
		return u, fmt.Errorf("list pool %s: %w", p.name, err)
	}
	for _, s := range list {
		room := s.Room()
		if s.Rests > 0 {
			u.Resting += room
		} else {
			u.Free += room
		}
	}
	return u, nil
}

// Room is how many leases the upstream could take, if it did not rest.
func (s Status) Room() int {
	room := s.Capacity - len(s.Leases)
	if s.Foreign {
		room--
	}
	return max(0, room)
}
