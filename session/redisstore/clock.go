package redisstore

import (
	"sync"
	"sync/atomic"
	"time"
)

// clock is Redis' clock, as far as replies tell it, in microseconds since 1970.
// Proxies whose own clocks differ so give versions that compare.
type clock struct {
	base   time.Time    // its monotonic reading is what counts
	offset atomic.Int64 // what to add to the time since base

	mu      sync.Mutex // guards version, and changes of offset
	version int64      // the last one given
}

// newClock returns our own clock, until a reply tells better.
func newClock() *clock {
	c := &clock{base: time.Now()}
	c.offset.Store(c.base.UnixMicro())
	return c
}

// read returns our own steady clock, and the time in Redis.
func (c *clock) read() (steady, now int64) {
	steady = time.Since(c.base).Microseconds()
	return steady, steady + c.offset.Load()
}

// now is the time in Redis.
func (c *clock) now() int64 {
	_, now := c.read()
	return now
}

// Now is Redis' clock.
func (s *Store) Now() time.Time { return microTime(s.clock.now()) }

func microTime(micro int64) time.Time { return time.UnixMicro(micro).UTC() }

// tick is the clock of the versions: it never goes back, so that what this
// process writes is never older than what it wrote before.
func (c *clock) tick() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.version = max(c.version, c.now())
	return c.version
}

// learn takes the time that a reply told, whose command left at sent. By now it
// is that time there, or up to the whole of the wait later; what fits in
// between stays.
func (c *clock) learn(told int64, sent time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	steady, now := c.read()
	latest := told + steady - sent.Sub(c.base).Microseconds() + 1
	if right := min(max(now, told), latest); right != now {
		c.offset.Store(right - steady)
	}
}
