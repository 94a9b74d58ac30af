package trace

import "context"

// Follower reads a log as it grows. It is one reader's; Stop ends it.
type Follower struct {
	log    *Log
	filter Filter
	seen   uint64 // the number of the last record that was looked at
	wake   chan struct{}
}

// maxBatch bounds what a follower is given at once.
const maxBatch = 100

// Follow begins with the last records that fit, up to n of them. It returns nil
// where too many follow already.
func (l *Log) Follow(f Filter, n int) *Follower {
	return l.follow(f, func() uint64 {
		after := l.last
		for ; n > 0 && after > 0 && l.last-after < Kept; after-- {
			if f.fits(l.at(after)) {
				n--
			}
		}
		return after
	})
}

// Resume is Follow, beginning after the record of that number.
func (l *Log) Resume(f Filter, after uint64) *Follower {
	return l.follow(f, func() uint64 { return min(after, l.last) })
}

func (l *Log) follow(f Filter, after func() uint64) *Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.followers) >= maxFollowers {
		return nil
	}
	follower := &Follower{log: l, filter: f, seen: after(), wake: make(chan struct{}, 1)}
	follower.rouse()
	l.followers[follower] = struct{}{}
	return follower
}

func (f *Follower) rouse() {
	select {
	case f.wake <- struct{}{}:
	default: // it is awake, and will see all there is
	}
}

// Stop ends following.
func (f *Follower) Stop() {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	delete(f.log.followers, f)
}

// Wake yields a value once there is more to read.
func (f *Follower) Wake() <-chan struct{} { return f.wake }

// Next returns what came since the last call and fits, the oldest first, and how
// many records were overwritten before they were looked at. Where there is more,
// Wake says so at once.
func (f *Follower) Next(ctx context.Context) (fresh []Exchange, lost uint64) {
	records, lost := f.read()
	return f.log.tell(ctx, records), lost
}

func (f *Follower) read() (records []Record, lost uint64) {
	l := f.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.last > f.seen+Kept {
		lost = l.last - Kept - f.seen
		f.seen += lost
	}
	for f.seen < l.last && len(records) < maxBatch {
		f.seen++
		if r := l.at(f.seen); f.filter.fits(r) {
			records = append(records, *r)
		}
	}
	if f.seen < l.last {
		f.rouse()
	}
	return records, lost
}
