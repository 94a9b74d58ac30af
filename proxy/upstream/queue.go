package upstream

import (
	"container/list"
	"iter"
	"time"
)

// queue is who waits for a lease: owners, first come first, each with all its
// requests. It is guarded by its pool.
type queue struct {
	owners   map[Owner]*waiter
	order    *list.List // of *waiter
	requests int
}

// waiter is an owner whose requests wait.
type waiter struct {
	owner    Owner
	requests int
	place    *list.Element
	ready    chan struct{} // closed when a lease may be there
	told     chan struct{} // closed once it is known why they wait

	why   Why
	after time.Duration
	err   error
}

func newQueue() queue { return queue{owners: map[Owner]*waiter{}, order: list.New()} }

// join adds a request of an owner's.
func (q *queue) join(o Owner) *waiter {
	w := q.owners[o]
	if w == nil {
		w = &waiter{owner: o, ready: make(chan struct{}), told: make(chan struct{})}
		w.place = q.order.PushBack(w)
		q.owners[o] = w
	}
	w.requests++
	q.requests++
	return w
}

// leave takes a request away, and says whether it was the owner's last. One that
// has been served is there no more.
func (q *queue) leave(w *waiter) (last bool) {
	if q.owners[w.owner] != w {
		return false
	}
	w.requests--
	q.requests--
	if w.requests > 0 {
		return false
	}
	q.remove(w)
	return true
}

// serve takes all requests of an owner away, and wakes them. nil is nobody.
func (q *queue) serve(w *waiter) {
	if w != nil {
		q.requests -= w.requests
		q.remove(w)
		close(w.ready)
	}
}

func (q *queue) remove(w *waiter) {
	delete(q.owners, w.owner)
	q.order.Remove(w.place)
}

// of returns the owner's waiter, or nil.
func (q *queue) of(o Owner) *waiter { return q.owners[o] }

// all are those who wait. Each may be taken away when it is seen.
func (q *queue) all() iter.Seq[*waiter] {
	return func(yield func(*waiter) bool) {
		for e := q.order.Front(); e != nil; {
			next := e.Next()
			if !yield(e.Value.(*waiter)) {
				return
			}
			e = next
		}
	}
}

// tell notes why they still wait. nil is nobody.
func (w *waiter) tell(why Why, after time.Duration, err error) {
	if w == nil {
		return
	}
	select {
	case <-w.told:
	default:
		close(w.told)
	}
	w.why, w.after, w.err = why, after, err
}
