package upstream

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// Pool leases the upstreams of one pool. [Pools] makes it.
type Pool struct {
	name   string
	ledger Ledger
	shared *Options
	log    *slog.Logger
	conf   atomic.Pointer[Config]
	serial atomic.Uint64 // of tokens
	hurry  atomic.Bool   // renew now
	prefix string        // of tokens: this process's own

	mu       sync.RWMutex // guards what follows
	closed   bool
	drained  chan struct{}     // closed once it is closed and nothing is held; nil before
	owned    map[Owner]*Lease  // that new requests use
	held     map[string]*Lease // all of them, by token
	exits    map[Upstream]*Exit
	queue    queue
	left     []string             // owners that wait no longer
	settling bool                 // the last answer was that the ledger settles
	returned map[string]*returned // leases given back not long ago, by token
	suspects map[string]suspect   // targets that failed not long ago
	before   *Pool                // the one of that name that closes, or has not long ago; nil none
	ended    time.Duration        // when it had closed; 0 not yet

	ctx       context.Context // ends with the pool
	stop      context.CancelFunc
	declared  chan struct{} // closed once the ledger knows what the pool is
	seek      chan struct{} // there is something to ask the ledger for
	sweep     chan struct{} // there is something to give back
	redeclare chan struct{} // the configuration has changed
	running   sync.WaitGroup
	checking  atomic.Bool   // a round of checks is under way
	renewed   time.Duration // when the last renewal began; of tend's goroutine alone
}

// The errors of Lease.
var (
	// ErrLost says that the upstream of a strict pool's owner is out of order.
	ErrLost = errors.New("the owner's upstream is out of order")
	// ErrClosed says that the pool is no longer there.
	ErrClosed = errors.New("the pool is closed")
)

// Exhausted says that no lease came free in time.
type Exhausted struct {
	Pool  string
	Why   Why
	After time.Duration // when one may; 0 unknown
}

func (e *Exhausted) Error() string { return fmt.Sprintf("pool %s: no lease: %s", e.Pool, e.Why) }

// Unavailable says that the ledger could not be asked.
type Unavailable struct{ error }

func (e *Unavailable) Unwrap() error { return e.error }

// newPool makes a pool. before is the last one of that name, which may be closing
// yet; nil where there was none.
func newPool(name string, shared *Options, c Config, before *Pool) *Pool {
	p := &Pool{
		name: name, ledger: shared.Ledger, shared: shared, log: shared.Log.With("pool", name), prefix: rand.Text() + "-",
		before: before, owned: map[Owner]*Lease{}, held: map[string]*Lease{}, exits: map[Upstream]*Exit{},
		queue: newQueue(), returned: map[string]*returned{}, suspects: map[string]suspect{},
		declared: make(chan struct{}), seek: make(chan struct{}, 1), sweep: make(chan struct{}, 1), redeclare: make(chan struct{}, 1),
	}
	p.conf.Store(&c)
	p.ctx, p.stop = context.WithCancel(context.Background())
	p.running.Go(func() { p.seekLeases(p.ctx) })
	p.running.Go(func() { p.tend(p.ctx) })
	p.running.Go(func() { p.keepDeadlines(p.ctx) })
	return p
}

// Name is the pool's name.
func (p *Pool) Name() string { return p.name }

// Lease returns the owner's lease, waiting for one as long as the pool's
// configuration says, less what the request has waited before. Its error is
// [ErrLost], [ErrClosed], an *[Exhausted], an *[Unavailable], or that of ctx.
func (p *Pool) Lease(ctx context.Context, o Owner, request *Patience) (*Lease, error) {
	if l, err := p.take(o); l != nil || err != nil {
		return l, err
	}
	return p.wait(ctx, o, request)
}

// take returns the lease that the owner has, or nil.
func (p *Pool) take(o Owner) (*Lease, error) {
	p.mu.RLock()
	l := p.owned[o]
	p.mu.RUnlock()
	if l == nil {
		return nil, nil
	}
	switch l.use(p.conf.Load().Strict) {
	case yes:
		return l, nil
	case lost:
		return nil, ErrLost
	}
	p.retire(l)
	return nil, nil
}

// retire has a lease end once nobody uses it.
func (p *Pool) retire(l *Lease) {
	p.mu.Lock()
	if p.owned[l.owner] == l {
		delete(p.owned, l.owner)
	}
	p.mu.Unlock()
	l.retired.Store(true)
	p.wake()
}

func (p *Pool) wake() { notify(p.sweep) }

// notify leaves a message where none is waiting yet.
func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// token returns a new one.
func (p *Pool) token() string { return p.prefix + strconv.FormatUint(p.serial.Add(1), 36) }

// close stops the pool once its leases are no longer in use, or ctx ends, and
// gives them back.
func (p *Pool) close(ctx context.Context) {
	p.mu.Lock()
	p.closed, p.drained = true, make(chan struct{})
	for w := range p.queue.all() {
		p.queue.serve(w)
	}
	for _, l := range p.held {
		l.retired.Store(true)
	}
	if len(p.held) == 0 {
		close(p.drained)
	}
	p.mu.Unlock()
	p.wake()
	select {
	case <-p.drained:
	case <-ctx.Done():
	}
	p.stop()
	p.expireAll() // now: a ledger that hangs may keep the next line past their deadlines
	p.running.Wait()
	p.giveBack(context.Background())
	p.mu.Lock()
	p.ended = now()
	p.mu.Unlock()
}

// predecessor returns the pool of that name before this one, locked, while the
// ledger may have leases of it that are as good as gone; nil where it has none.
// The caller holds p.mu.
func (p *Pool) predecessor() *Pool {
	if p.before == nil {
		return nil
	}
	p.before.mu.Lock()
	if ended := p.before.ended; ended != 0 && now()-ended > 2*askTime {
		p.before.mu.Unlock()
		p.before = nil
		return nil
	}
	return p.before
}

// gaveBack says whether a lease has been given back, be it by a predecessor. The
// caller holds p.mu.
func (p *Pool) gaveBack(token string) bool {
	if _, ok := p.returned[token]; ok {
		return true
	}
	b := p.predecessor()
	if b == nil {
		return false
	}
	defer b.mu.Unlock()
	return b.gaveBack(token)
}
