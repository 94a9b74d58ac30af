package captcha

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"
)

// Times of the threads.
const (
	claimPeriod = 250 * time.Millisecond // while some wait: another proxy's thread may come free
	renewPeriod = LeaseTime / 3          // while some are open
	shareTime   = 2 * time.Second        // after which a store that does not answer is done without; one slow answer is no outage
	peerPeriod  = 30 * time.Second       // else: proxies count each other, to know their share in an outage
	planPeriod  = 5 * time.Minute        // after which the plan is asked for again
	againPeriod = 15 * time.Second       // the same, where it did not answer
	planTime    = 5 * time.Second        // that it has to answer
	growPeriod  = time.Minute            // after which a limit that a busy service shrank grows by one
)

// threads are this proxy's part of the plan's threads. One goroutine claims
// them from the store, for all that wait here at once.
type threads struct {
	proxy string
	store Store
	log   *slog.Logger
	wake  chan struct{}
	since time.Time // the store does not answer since then; zero: it does. run's own, as
	alone bool      // it is done without

	mu      sync.Mutex
	used    bool                               // somebody solves
	plan    func(context.Context) (int, error) // nil: limit is fixed
	limit   int                                // of the plan; 0: not known yet
	asked   time.Time
	shrunk  int // by the service's being busy
	grows   time.Time
	proxies int // that share the plan, as of the last claim; 0: never heard of any
	free    int // in the plan, as of the last claim
	next    int
	waiting []*thread
	open    map[string]time.Time // → when it ends by itself; zero: when its holder says
	over    []string
}

// thread is one place in the queue, and then one thread.
type thread struct {
	id    string
	turn  int // lower ones first
	ready chan struct{}
}

func newThreads(proxy string, store Store, log *slog.Logger) *threads {
	return &threads{proxy: proxy, store: store, log: log, wake: make(chan struct{}, 1), open: map[string]time.Time{}}
}

// use takes another service's threads.
func (h *threads) use(s Service) {
	h.mu.Lock()
	h.used, h.limit, h.plan = s.Solver != nil, s.Threads, nil
	if s.Threads == 0 {
		h.plan = s.Plan
	}
	h.asked, h.shrunk = time.Time{}, 0
	h.mu.Unlock()
	h.poke()
}

// take waits for a thread. Who has the lower turn gets the first one.
func (h *threads) take(ctx context.Context, turn int) (*thread, error) {
	h.mu.Lock()
	h.next++
	t := &thread{id: h.proxy + "/" + strconv.Itoa(h.next), turn: turn, ready: make(chan struct{})}
	i, _ := slices.BinarySearchFunc(h.waiting, turn, func(t *thread, turn int) int { return t.turn - turn })
	h.waiting = slices.Insert(h.waiting, i, t)
	h.mu.Unlock()
	h.poke()
	select {
	case <-t.ready:
		return t, nil
	case <-ctx.Done():
		h.release(t)
		return nil, context.Cause(ctx)
	}
}

// release ends a thread, or a place in the queue.
func (h *threads) release(t *thread) {
	h.mu.Lock()
	h.waiting = slices.DeleteFunc(h.waiting, func(w *thread) bool { return w == t })
	delete(h.open, t.id)
	h.over = append(h.over, t.id)
	h.mu.Unlock()
	h.poke()
}

// hold keeps a thread that nobody waits for, since the service may be at its task.
func (h *threads) hold(t *thread, until time.Time) {
	h.mu.Lock()
	h.open[t.id] = until
	h.mu.Unlock()
	h.poke()
}

// busy lowers the limit: others use the account.
func (h *threads) busy() {
	h.mu.Lock()
	h.shrunk++
	h.grows = time.Now().Add(growPeriod)
	h.asked = time.Time{}
	h.mu.Unlock()
	h.poke()
}

func (h *threads) poke() {
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// idle says how many threads nobody has or waits for.
func (h *threads) idle() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.waiting) > 0 {
		return 0
	}
	return max(h.free, 0)
}

// run claims until ctx ends, and gives back what it can.
func (h *threads) run(ctx context.Context) {
	for {
		h.learnPlan(ctx)
		t := time.NewTimer(h.claim(context.WithoutCancel(ctx)))
		for due := false; !due; {
			select {
			case <-h.wake:
				// Who comes now does not make a store answer.
				if due = h.since.IsZero(); h.alone {
					h.share()
				}
			case <-t.C:
				due = true
			case <-ctx.Done():
				t.Stop()
				h.claim(context.WithoutCancel(ctx)) // each claim has its own, short time
				return
			}
		}
		t.Stop()
	}
}

// share gives out what is free of this proxy's share.
func (h *threads) share() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.grantShare(h.bound())
}

// bound is how many tasks all proxies may have open. h.mu is held.
func (h *threads) bound() int { return max(h.limit-h.shrunk, 1) }

// learnPlan asks the service for its threads, where that is due and somebody waits.
func (h *threads) learnPlan(ctx context.Context) {
	h.mu.Lock()
	now := time.Now()
	plan := h.plan
	due := plan != nil && len(h.waiting) > 0 && now.Sub(h.asked) >= planPeriod
	if due {
		h.asked = now
	}
	h.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, planTime) // what is open is to be renewed meanwhile
	defer cancel()
	n, err := plan(ctx)
	h.mu.Lock()
	defer h.mu.Unlock()
	if err == nil {
		h.limit = max(n, 1) // of a plan without threads the service itself says so
		return
	}
	h.asked = now.Add(againPeriod - planPeriod)
	if h.limit == 0 {
		h.limit = 1
		h.log.Warn("the captcha plan's threads are not known yet; one is used", "err", err)
	}
}

// claim makes one claim, and says when the next is due.
func (h *threads) claim(ctx context.Context) time.Duration {
	h.mu.Lock()
	now := time.Now()
	for id, ends := range h.open {
		if !ends.IsZero() && !now.Before(ends) {
			delete(h.open, id)
			h.over = append(h.over, id)
		}
	}
	if h.shrunk > 0 && !now.Before(h.grows) {
		h.shrunk--
		h.grows = now.Add(growPeriod)
	}
	c := Claim{Proxy: h.proxy, Limit: h.bound(), Over: slices.Clone(h.over)}
	for id := range h.open {
		c.Open = append(c.Open, id)
	}
	for _, t := range h.waiting {
		c.Waiting = append(c.Waiting, t.id)
	}
	if !h.used && len(c.Open)+len(c.Over)+len(c.Waiting) == 0 {
		h.mu.Unlock()
		return time.Hour // or when it is used
	}
	h.mu.Unlock()
	g, err := h.claimed(ctx, c)
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.alone:
		h.grantShare(c.Limit)
	case err == nil:
		h.over = h.over[len(c.Over):]
		h.proxies = max(g.Proxies, 1)
		h.free = c.Limit - g.Open
		for _, id := range g.IDs {
			h.grant(id)
		}
	}
	switch {
	case len(h.waiting) > 0:
		return claimPeriod
	case len(h.over) > 0:
		return time.Second
	case len(h.open) > 0:
		return renewPeriod
	}
	return peerPeriod
}

func (h *threads) claimed(ctx context.Context, c Claim) (Grant, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	g, err := h.store.Threads(ctx, c)
	switch {
	case err == nil && h.alone:
		h.alone = false
		h.log.Info("captcha threads are shared again")
	case err != nil && h.since.IsZero():
		h.since = time.Now()
	case err != nil && !h.alone && time.Since(h.since) >= shareTime:
		h.alone = true
		h.log.Warn("captcha threads are not shared while the store is away; this proxy keeps to its share", "err", err)
	}
	if err == nil {
		h.since = time.Time{}
	}
	return g, err
}

// grant opens a thread for whoever waits under this ID. One that has left is
// over already.
func (h *threads) grant(id string) {
	i := slices.IndexFunc(h.waiting, func(t *thread) bool { return t.id == id })
	if i < 0 {
		return
	}
	t := h.waiting[i]
	h.waiting = slices.Delete(h.waiting, i, i+1)
	h.open[id] = time.Time{}
	close(t.ready)
}

// grantShare opens threads without a store, as many as would be this proxy's
// part if all proxies wanted some. It is 1 while no other was ever heard of.
func (h *threads) grantShare(limit int) {
	share := 1
	if h.proxies > 0 {
		share = max(limit/h.proxies, 1)
	}
	for len(h.open) < share && len(h.waiting) > 0 {
		h.grant(h.waiting[0].id)
	}
	h.free = share - len(h.open)
}

// peers are the proxies that share the plan, this one too.
func (h *threads) peers() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.proxies, 1)
}
