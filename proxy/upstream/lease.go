package upstream

import (
	"math"
	"sync/atomic"
	"time"
)

// Lease is an owner's right to leave by one upstream, as this process holds it.
// Whoever got it from [Pool.Lease] gives it back with Done.
type Lease struct {
	pool  *Pool
	exit  *Exit
	owner Owner
	token string
	since time.Duration // by now's clock, as all that follow

	uses     atomic.Int64 // requests and tunnels on it; ended: it takes no more
	deadline atomic.Int64 // when it ends unless renewed
	used     atomic.Int64 // when the last use was over
	retired  atomic.Bool  // it ends when its last use is over
	aged     atomic.Bool  // it was retired for its age
	strayed  atomic.Bool  // its upstream has left the pool: of strict owners
}

// ended is what uses is once a lease takes no more.
const ended = math.MinInt64

// Exit is the upstream to leave by.
func (l *Lease) Exit() *Exit { return l.exit }

// Pool is the name of the pool that it is of.
func (l *Lease) Pool() string { return l.pool.Name() }

// Done ends one use of the lease.
func (l *Lease) Done() {
	l.used.Store(int64(now()))
	if l.uses.Add(-1) == 0 && l.retired.Load() {
		l.pool.wake()
	}
}

// usable says whether a lease may be used.
type usable int

const (
	yes  usable = iota
	no          // it has ended, or is about to
	lost        // its upstream rests or has left, and its owner wants no other
)

// use takes a use of the lease, if it may be used.
func (l *Lease) use(strict bool) usable {
	at := now()
	switch {
	case l.retired.Load() || int64(at) >= l.deadline.Load():
		return no
	case l.strayed.Load() || l.exit.resting(at) > 0:
		if strict {
			l.used.Store(int64(at)) // it is not idle
			return lost
		}
		return no
	}
	for {
		n := l.uses.Load()
		if n < 0 {
			return no
		}
		if l.uses.CompareAndSwap(n, n+1) {
			return yes
		}
	}
}

// end ends a lease that is not in use.
func (l *Lease) end() bool { return l.uses.CompareAndSwap(0, ended) }
