// Package redisstore is the [session.Store] of many machines: Redis, single,
// behind Sentinels or a Cluster, in the layout that workers in other languages
// read and write too.
//
// Requests read decoded snapshots in memory; package tracking says when one is old,
// and while it can't, Redis is asked. Which change wins, [session.Jar] decides,
// here as in every store: a script writes what was made of the state that Redis
// still has, else the change is made anew. What workers write into the public
// hash is taken in. While Redis is away the last snapshots are shown, and
// captures wait.
//
// How a client of Redis is made, package conn knows.
package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
	"github.com/sessionproxy/sessionproxy/session/redisstore/tracking"
)

// companionLife is how long what is ours alone outlives a session, for its floor
// and for late replies, in microseconds.
const companionLife = int64(24 * time.Hour / time.Microsecond)

// Options are what a Store is made of.
type Options struct {
	// Client stays the caller's, who closes it after the store.
	Client *conn.Client

	// Prefix begins each key. "": "session:".
	Prefix string

	// Sites says what is declared for a site's key, now. nil: nothing.
	Sites func(key string) (Site, bool)

	// Encryption are AES keys of 16, 24 or 32 bytes for what is ours alone.
	// The first writes, all read. None: it is written as it is.
	Encryption [][]byte

	// NoMirror keeps cookies' values out of the public hash, which is never
	// encrypted. Workers of other programs see nothing then.
	NoMirror bool

	// CacheBytes bounds the snapshots in memory. 0: 128 MiB.
	CacheBytes int64

	Log *slog.Logger
	// Observe is told how long Redis took. May be nil.
	Observe func(op string, took time.Duration)
	// Refused is told why a worker's write was not taken. May be nil.
	Refused func(reason string)

	budget time.Duration // that one call waits for Redis; 0: defaultBudget
}

// Store is a session.Store on Redis. Make it with Open.
type Store struct {
	client   redis.UniversalClient
	prefix   string
	sites    func(key string) (Site, bool)
	sealer   *seal.Sealer
	silent   bool // no mirror
	budget   time.Duration
	log      *slog.Logger
	observed func(op string, took time.Duration)
	refusal  func(reason string)

	clock   *clock
	cache   *cache
	tracker tracker       // once started
	started chan struct{} // closed when all is in place
	epoch   atomic.Uint64 // of the snapshots; all older ones may be old
	alive   context.Context
	stop    context.CancelFunc
	running sync.WaitGroup
	wake    chan struct{}
	dropped atomic.Uint64 // captures, ever

	mu      sync.Mutex // guards what follows
	closed  bool
	nodes   map[string]*node // by address; "" where there is one, or it is not known
	slots   map[int]string   // address of the node of a slot, in a Cluster
	rereads []*entry
}

var _ session.Store = (*Store)(nil)

const defaultCache = 128 << 20

var errClosed = errors.New("store is closed")

// Open returns a store, which follows what changes in Redis from now on. It does
// not wait for Redis: [conn.Client.Check] says whether that is there.
func Open(o Options) (*Store, error) {
	s, err := newStore(o)
	if err != nil {
		return nil, err
	}
	s.start(tracking.New(tracking.Options{
		Client: o.Client, Prefix: s.prefix, Invalidate: s.invalidate, Armed: s.armed, Log: s.log,
	}))
	return s, nil
}

func newStore(o Options) (*Store, error) {
	sealer, err := seal.New(o.Encryption)
	if err != nil {
		return nil, fmt.Errorf("open the Redis store: %w", err)
	}
	s := &Store{
		client: o.Client.UniversalClient, prefix: cmp.Or(o.Prefix, "session:"), sites: o.Sites, sealer: sealer,
		silent: o.NoMirror, budget: cmp.Or(o.budget, defaultBudget), log: o.Log, observed: o.Observe, refusal: o.Refused,
		clock: newClock(), cache: newCache(cmp.Or(o.CacheBytes, defaultCache)), wake: make(chan struct{}, rereaders),
		nodes: make(map[string]*node), slots: make(map[int]string), started: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.alive, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// start lets the store work with what tells of changes. A store is of no use
// before.
func (s *Store) start(t tracker) {
	s.tracker = t
	close(s.started)
	for range rereaders {
		s.running.Go(func() { s.keepRereading(s.alive) })
	}
	s.running.Go(func() { s.keepWatching(s.alive) })
}

// begin counts a goroutine that Close waits for. It reports false once the
// store is closed.
func (s *Store) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.running.Add(1)
	return true
}

// entry returns the entry of a key, made where there is none.
func (s *Store) entry(key session.Key) (*entry, error) {
	s.mu.Lock()
	closed := s.closed
	s.mu.Unlock()
	if closed {
		return nil, errClosed
	}
	if e := s.cache.get(key); e != nil {
		return e, nil
	}
	public := s.publicKey(key)
	at := s.node(public)
	return s.cache.add(key, func() *entry { return &entry{key: key, public: public, node: at} }), nil
}

// node is where a key lives. In a Cluster each master fails by itself: which one
// a slot was first found on is good enough to tell slots that fail together.
func (s *Store) node(public string) *node {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		return s.nodeAt("", public)
	}
	slot := conn.Slot(public)
	s.mu.Lock()
	addr, known := s.slots[slot]
	nobody := s.nodes[""]
	s.mu.Unlock()
	if known {
		return s.nodeAt(addr, public)
	}
	if nobody != nil && nobody.refusesReads() {
		return nobody // none of the Cluster's nodes can be asked
	}
	ctx, cancel := context.WithTimeout(s.alive, s.budget)
	defer cancel()
	master, err := cluster.MasterForKey(ctx, public)
	if err != nil {
		return s.nodeAt("", public)
	}
	addr = master.Options().Addr
	s.mu.Lock()
	s.slots[slot] = addr
	s.mu.Unlock()
	return s.nodeAt(addr, public)
}

func (s *Store) nodeAt(addr, public string) *node {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.nodes[addr]
	if n == nil {
		n = &node{s: s, probe: public}
		s.nodes[addr] = n
	}
	return n
}

func (s *Store) allNodes() []*node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Values(s.nodes))
}

// Up says whether Redis, all of it, takes reads and writes.
func (s *Store) Up() bool {
	for _, n := range s.allNodes() {
		if n.refusesWrites() {
			return false
		}
	}
	return true
}

// Waiting is the number of captures that wait for Redis, and Dropped that of
// those that did not fit, ever.
func (s *Store) Waiting() int {
	count := 0
	for _, n := range s.allNodes() {
		n.mu.Lock()
		count += len(n.offers) + n.taken
		n.mu.Unlock()
	}
	return count
}

// Dropped: see Waiting.
func (s *Store) Dropped() uint64 { return s.dropped.Load() }

func (s *Store) observe(op string, sent time.Time) {
	if s.observed != nil {
		s.observed(op, time.Since(sent))
	}
}

func (s *Store) refused(reasons []string) {
	for _, r := range reasons {
		if s.refusal != nil {
			s.refusal(r)
		}
	}
}

// Close writes what is pending, and lets go of Redis. Captures that wait for it
// have two seconds more; it is an error where some are lost. A second Close does
// nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	for _, e := range s.cache.all() {
		e.settle(s.alive)
	}
	for end := time.Now().Add(closeGrace); s.Waiting() > 0 && time.Now().Before(end); {
		time.Sleep(probeFirst)
	}
	s.epoch.Add(1) // nothing is shown any more
	s.stop()
	s.running.Wait()
	s.tracker.Close()
	if n := s.Waiting(); n > 0 {
		return fmt.Errorf("close the Redis store: %d captures that waited for Redis are lost", n)
	}
	return nil
}

// closeGrace is longer than most of what keeps Redis from answering for a moment,
// and shorter than the 10 s in which service managers lose their patience.
const closeGrace = 2 * time.Second

// settle waits until what was handed in for e is written, or given up.
func (e *entry) settle(ctx context.Context) {
	e.mu.Lock()
	idle := e.idle
	e.mu.Unlock()
	if idle == nil {
		return
	}
	select {
	case <-idle:
	case <-ctx.Done():
	}
}
