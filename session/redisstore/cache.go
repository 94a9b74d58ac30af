package redisstore

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// maxAge bounds how long a snapshot is shown without a look at Redis, in
// microseconds, whatever the tracker says.
const maxAge = int64(30 * time.Second / time.Microsecond)

// snapshot is a state that was read, or written, at a moment.
type snapshot struct {
	*state
	read  int64  // by our own steady clock, in microseconds
	epoch uint64 // of the store

	// Of a private jar: the entry of its session, and how often that had
	// been cleared.
	shared *entry
	clears uint64
}

// entry is what memory holds of one key.
type entry struct {
	key    session.Key
	public string // the session's key in Redis
	node   *node  // where that is

	valid  atomic.Pointer[snapshot] // what Load may show; nil: ask
	recent atomic.Bool              // used since the hand passed
	clears atomic.Uint64            // how often all private jars of the session went

	mu     sync.Mutex // guards what follows
	last   *snapshot  // the newest that is known, valid or not
	offer  *state     // what was captured in that outage of the node, on top of last
	outage uint64
	lost   *snapshot // see missed
	lostAt int64     // by our own steady clock
	gen    uint64    // goes up with each invalidation and each own write
	flight *flight
	queue  []*change     // wait to be written
	idle   chan struct{} // closed when nothing waits; nil where nothing does

	renewing bool // a renewal waits
	waiting  bool // for a reread

	size int64       // counted by the cache; guarded by its lock
	gone atomic.Bool // evicted: nobody tells it of changes any more
}

// cache holds entries within a bound of bytes. The least recently used go
// first, as a clock's hand finds them.
type cache struct {
	limit int64

	mu      sync.RWMutex // guards what follows
	entries map[session.Key]*entry
	ring    []*entry
	hand    int
	size    int64
}

func newCache(limit int64) *cache {
	return &cache{limit: limit, entries: make(map[session.Key]*entry)}
}

func (c *cache) get(key session.Key) *entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.entries[key]
}

// add returns the entry of a key, made where there is none.
func (c *cache) add(key session.Key, make func() *entry) *entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		return e
	}
	e := make()
	c.entries[key] = e
	c.ring = append(c.ring, e)
	c.resize(e, entrySize(key, nil))
	return e
}

// all returns the entries.
func (c *cache) all() []*entry {
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := make([]*entry, 0, len(c.entries))
	for _, e := range c.entries {
		all = append(all, e)
	}
	return all
}

// grown counts what e holds now, and makes room for it. It reports false where
// e itself was evicted.
func (c *cache) grown(e *entry, st *state) bool {
	size := entrySize(e.key, st)
	c.mu.Lock()
	defer c.mu.Unlock()
	if e.gone.Load() {
		return false
	}
	c.resize(e, size)
	return true
}

// resize is called with mu held.
func (c *cache) resize(e *entry, size int64) {
	c.size += size - e.size
	e.size = size
	for passed := 0; c.size > c.limit && passed < 2*len(c.ring); passed++ {
		if c.hand >= len(c.ring) {
			c.hand = 0
		}
		old := c.ring[c.hand]
		if old == e || old.recent.Swap(false) || !old.idleNow() {
			c.hand++
			continue
		}
		last := len(c.ring) - 1
		c.ring[c.hand] = c.ring[last]
		c.ring[last] = nil
		c.ring = c.ring[:last]
		delete(c.entries, old.key)
		old.gone.Store(true)
		c.size -= old.size
	}
}

// idleNow says whether nothing is lost with e.
func (e *entry) idleNow() bool {
	if !e.mu.TryLock() {
		return false
	}
	defer e.mu.Unlock()
	return e.flight == nil && e.idle == nil && e.offered() == nil
}

// Sizes as Go lays things out, rounded up.
const (
	sizeEntry  = 400
	sizeCookie = 360 // the cookie, and what a jar makes of it
	sizeMark   = 160
	sizeName   = 160
)

// entrySize is about what an entry takes, in bytes.
func entrySize(key session.Key, st *state) int64 {
	size := int64(sizeEntry + 3*(len(key.Site)+len(key.ID)+len(key.Worker)))
	if st == nil {
		return size
	}
	if st.record != nil {
		parts := st.record.Jar.Parts()
		for i := range parts.Cookies {
			c := &parts.Cookies[i]
			size += int64(sizeCookie + len(c.Name) + len(c.Value) + len(c.Domain) + len(c.Path))
		}
		for i := range parts.Marks {
			size += int64(sizeMark + len(parts.Marks[i].Name) + len(parts.Marks[i].Domain) + len(parts.Marks[i].Path))
		}
	}
	for key, n := range st.names {
		size += int64(sizeName + len(key) + 8*len(n.values))
	}
	return size
}
