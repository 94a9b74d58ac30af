// Package tracking says when keys changed in Redis, whoever changed them, and
// when it can't say so. On it rests that a proxy answers from memory and still
// sends no cookie that another proxy or a worker replaced.
//
// Redis itself tells (client-side caching in broadcast mode) on one small
// connection to each master. Pushes carry no numbers, and a connection that is
// gone tells nothing; so the state of that connection is what counts: a key is
// coherent while the master that serves it was heard of within the last second.
// What to do with a key that is not, is left to the caller.
package tracking

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// A connection on which nothing came for silence is dead, whatever TCP says. A
// question each beat makes sure that something comes from a master that lives.
const (
	silence = time.Second
	beat    = 250 * time.Millisecond
)

// MaxStale is how long a key may count as coherent at most while its master's
// changes are not heard: the silence, and the time to act on it.
const MaxStale = 1500 * time.Millisecond

// Options say what to track.
type Options struct {
	// Client is the store's. It is told to leave a master that was replaced.
	Client *conn.Client
	// Prefix begins all keys of the store: the keys that are tracked begin
	// with Prefix+"cookies:", or with { and that.
	Prefix string
	// Invalidate is told the names of keys that changed, or nil where any may
	// have. It is called once for each change at least, before a read that
	// begins later could be a fresh one's; also for the store's own. Calls for
	// different masters overlap. It must return soon.
	Invalidate func(keys []string)
	// Armed is told each time that the changes of a master begin to be heard,
	// once any key was invalidated. It must return soon. It may be nil.
	Armed func(Arming)
	Log   *slog.Logger
}

// Arming is a master whose changes begin to be heard.
type Arming struct {
	Master conn.Master
	RunID  string // of the process
	// Restarted says that another process served these keys before: after a
	// restart, or a failover. It may lack what was told the one before.
	Restarted bool
}

// Tracker listens to the masters of one store. It is safe for concurrent use.
type Tracker struct {
	o      Options
	cancel context.CancelFunc
	wg     sync.WaitGroup
	view   atomic.Pointer[view]
	poke   chan struct{} // look for the masters now: one was lost

	mu      sync.Mutex // guards what follows
	runs    map[string]bool
	covered [conn.SlotCount]bool // slots whose changes were heard once
}

// view is which links must be heard for a slot to be coherent.
type view struct {
	links  []*link
	groups [][]*link // links that are needed together
	slots  []uint16  // index into groups by slot; nil: every slot is of the first one
}

// New starts a tracker. Nothing is coherent until it has reached the masters.
func New(o Options) *Tracker {
	ctx, cancel := context.WithCancel(context.Background())
	t := &Tracker{o: o, cancel: cancel, poke: make(chan struct{}, 1), runs: map[string]bool{}}
	t.view.Store(&view{groups: [][]*link{nil}})
	watch := t.watchSingle
	switch o.Client.Options().Mode {
	case conn.Sentinel:
		watch = t.watchSentinels
	case conn.Cluster:
		watch = t.watchCluster
	case conn.Single:
	}
	t.wg.Go(func() {
		watch(ctx)
		t.follow(ctx, nil)
	})
	return t
}

// Close ends the tracker and waits for its goroutines. Nothing is coherent
// from then on.
func (t *Tracker) Close() {
	t.cancel()
	t.wg.Wait()
}

// Coherent says whether what was read of a key since the last call of
// Invalidate for it is what Redis holds, but for a delay in the order of
// milliseconds; where the road to Redis broke silently, of [MaxStale].
func (t *Tracker) Coherent(key string) bool {
	v := t.view.Load()
	group := v.groups[0]
	if v.slots != nil {
		group = v.groups[v.slots[conn.Slot(key)]]
	}
	for _, l := range group {
		if !l.coherent.Load() {
			return false
		}
	}
	return len(group) > 0
}

// watchSingle follows the one server there is.
func (t *Tracker) watchSingle(ctx context.Context) {
	t.follow(ctx, []conn.Master{{Addr: t.o.Client.Options().Addrs[0], Slots: []conn.Range{{First: 0, Last: conn.SlotCount - 1}}}})
	<-ctx.Done()
}

// follow listens to the masters given, and to no others: what several of them
// claim is coherent while all of these are heard.
func (t *Tracker) follow(ctx context.Context, masters []conn.Master) {
	before := t.view.Load()
	next := &view{}
	at := make([]*link, len(masters))
	for i, m := range masters {
		if j := slices.IndexFunc(before.links, func(l *link) bool { return l.addr == m.Addr }); j >= 0 {
			at[i] = before.links[j]
		} else {
			at[i] = newLink(ctx, t, m.Addr)
		}
		at[i].master.Store(&m)
		next.links = append(next.links, at[i])
	}
	next.groups, next.slots = group(masters, at)
	t.view.Store(next)
	for _, l := range before.links {
		if !slices.Contains(next.links, l) {
			l.stop()
		}
	}
	for _, l := range next.links {
		if !slices.Contains(before.links, l) {
			t.wg.Go(l.run)
		}
	}
}

// group finds the links that each slot needs.
func group(masters []conn.Master, at []*link) (groups [][]*link, slots []uint16) {
	if t := masters; len(t) == 1 && len(t[0].Slots) == 1 && t[0].Slots[0] == (conn.Range{First: 0, Last: conn.SlotCount - 1}) {
		return [][]*link{at}, nil
	}
	groups = [][]*link{nil} // of a slot that nobody claims
	slots = make([]uint16, conn.SlotCount)
	for i, m := range masters {
		joined := map[uint16]uint16{} // group before → the same with this link
		for _, r := range m.Slots {
			for slot := max(0, r.First); slot <= min(r.Last, conn.SlotCount-1); slot++ {
				old := slots[slot]
				if slices.Contains(groups[old], at[i]) {
					continue
				}
				g, ok := joined[old]
				if !ok {
					g = uint16(len(groups))
					groups = append(groups, append(slices.Clone(groups[old]), at[i]))
					joined[old] = g
				}
				slots[slot] = g
			}
		}
	}
	return groups, slots
}

// arm makes a link coherent, in this order: what may be stale is read anew,
// then memory counts again.
func (t *Tracker) arm(l *link, runID string) {
	m := *l.master.Load()
	t.mu.Lock()
	restarted := !t.runs[runID] && t.wasCovered(m)
	t.runs[runID] = true
	t.mu.Unlock()
	if restarted {
		// Where a name leads to another server now, connections may lead to the old one still.
		t.o.Client.Drop(m.Addr)
	}
	t.o.Invalidate(nil)
	l.coherent.Store(true)
	if t.o.Armed != nil {
		t.o.Armed(Arming{Master: m, RunID: runID, Restarted: restarted})
	}
	t.o.Log.Info("redis tracking armed", slog.String("addr", m.Addr), slog.Bool("restarted", restarted))
}

// wasCovered says whether a master's changes were ever heard, and that they are now.
func (t *Tracker) wasCovered(m conn.Master) bool {
	was := false
	for _, r := range m.Slots {
		for slot := max(0, r.First); slot <= min(r.Last, conn.SlotCount-1); slot++ {
			was = was || t.covered[slot]
			t.covered[slot] = true
		}
	}
	return was
}

// lost wakes whoever looks for masters.
func (t *Tracker) lost() {
	select {
	case t.poke <- struct{}{}:
	default:
	}
}
