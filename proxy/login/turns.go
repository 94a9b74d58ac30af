package login

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Turns lets those of this process that log in wait for each other, and for
// the other proxies that share its Locks. While these are out of reach it goes
// on alone.
type Turns struct {
	shared Locks  // nil: none
	own    Memory // in their place
	log    *slog.Logger
	id     string // of this process
	last   atomic.Uint64
	active atomic.Int64              // turns under way
	away   atomic.Pointer[time.Time] // until then Status asks nobody, since none answers

	mu       sync.Mutex // guards what follows
	queues   map[Login]*queue
	sessions map[session.Key]*underWay
}

// queue is who waits for a Login, first come first. The first one asks for all,
// and gives them the answer: there may be thousands.
type queue struct {
	waiting []*waiter
	turn    *Turn // under way here; nil: none
}

type waiter struct {
	since  time.Time
	force  bool          // no answer will do
	wake   chan struct{} // holds one when there is something to see
	answer *Answer       // that another was given; nil: none yet
}

func (w *waiter) look() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// changed wakes the one that asks.
func (q *queue) changed() {
	if len(q.waiting) > 0 {
		q.waiting[0].look()
	}
}

// share gives the others what one of them was given.
func (q *queue) share(a *Answer) {
	q.waiting = slices.DeleteFunc(q.waiting, func(w *waiter) bool {
		if w.force {
			return false
		}
		w.answer = a
		w.look()
		return true
	})
	q.changed()
}

// underWay are the turns of a session that are under way here.
type underWay struct {
	count int
	done  chan struct{} // closed when none is
}

// NewTurns makes the turns of a process. shared may be nil.
func NewTurns(shared Locks, log *slog.Logger) *Turns {
	return &Turns{
		shared: shared, log: log, id: Mark + rand.Text(),
		queues: map[Login]*queue{}, sessions: map[session.Key]*underWay{},
	}
}

// Mark begins every holder of ours, so that a worker's lock is known from it.
const Mark = "sessionproxy:"

// Order is what a login asks for.
type Order struct {
	Login
	Wait  time.Duration // for another's turn
	Fail  bool          // after it: ErrWait; else it is the next one's turn
	Guest bool          // as in Ask
	Force bool          // as in Ask
}

// ErrWait says that another's login took too long.
var ErrWait = errors.New("another client's login takes too long")

// RestError says that logins have come to nothing, and that none is tried for a
// time. Why has nothing in it that clients may not read.
type RestError struct {
	Failures int
	Until    time.Time
	Why      string
	Cause    Cause // of the last one
}

func (e *RestError) Error() string {
	return fmt.Sprintf("no login before %s (%d failed in a row): %s", e.Until.UTC().Format(time.RFC3339), e.Failures, e.Why)
}

// poll is how soon another proxy's turn is seen to have ended.
const poll = 40 * time.Millisecond

// patience is how many times its wait somebody waits in all, where others have
// turns before him, one after the other.
const patience = 10

// Begin waits for a turn, or for another to log in. It returns a turn, which
// has to be ended, or the other's answer. Its errors are those above and of ctx.
func (t *Turns) Begin(ctx context.Context, o Order) (*Turn, *Answer, error) {
	me := &waiter{since: time.Now(), force: o.Force, wake: make(chan struct{}, 1)}
	q := t.join(o.Login, me)
	defer t.leave(o.Login, q, me)
	limit := o.Wait
	if !o.Fail {
		limit *= patience
	}
	late := time.NewTimer(limit)
	defer late.Stop()
	for {
		first, free, answer := t.next(q, me, o)
		if answer != nil {
			return nil, answer, nil
		}
		if free {
			turn, answer, err := t.take(ctx, q, me, o)
			if turn != nil || answer != nil || err != nil {
				return turn, answer, err
			}
		}
		var again <-chan time.Time
		if first {
			again = time.After(poll)
		}
		select {
		case <-me.wake:
		case <-again:
		case <-late.C:
			return nil, nil, ErrWait
		case <-ctx.Done():
			return nil, nil, ctx.Err()
		}
	}
}

func (t *Turns) join(l Login, me *waiter) *queue {
	t.mu.Lock()
	defer t.mu.Unlock()
	q := t.queues[l]
	if q == nil {
		q = &queue{}
		t.queues[l] = q
	}
	q.waiting = append(q.waiting, me)
	return q
}

func (t *Turns) leave(l Login, q *queue, me *waiter) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(q.waiting, me); i >= 0 { // else it was given an answer
		q.waiting = slices.Delete(q.waiting, i, i+1)
		if i == 0 {
			q.changed()
		}
	}
	t.forget(l, q)
}

// forget drops a queue that nobody is in. The caller holds mu.
func (t *Turns) forget(l Login, q *queue) {
	if len(q.waiting) == 0 && q.turn == nil && t.queues[l] == q {
		delete(t.queues, l)
	}
}

// next says whether I am the first, and whether it is time to ask: not while a
// turn is under way here that is not overdue. It returns an answer where another
// was given one.
func (t *Turns) next(q *queue, me *waiter, o Order) (first, free bool, answer *Answer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if me.answer != nil {
		return false, false, me.answer
	}
	first = q.waiting[0] == me
	free = first && (q.turn == nil || !o.Fail && time.Since(q.turn.since) >= o.Wait)
	return first, free, nil
}

// take asks for a turn once.
func (t *Turns) take(ctx context.Context, q *queue, me *waiter, o Order) (*Turn, *Answer, error) {
	ask := Ask{
		Login: o.Login, Holder: fmt.Sprintf("%s-%d", t.id, t.last.Add(1)), Life: turnLife,
		Waited: time.Since(me.since), Guest: o.Guest, Force: o.Force,
	}
	if !o.Fail {
		ask.Overdue = o.Wait
	}
	locks := t.locks()
	g, err := locks.Take(ctx, ask)
	if err != nil {
		if ctx.Err() != nil {
			return nil, nil, ctx.Err()
		}
		t.log.Warn("logins of other proxies are not seen: their locks are out of reach", "err", err)
		locks = &t.own
		g, _ = locks.Take(ctx, ask) // Memory has no errors
	}
	switch g.State {
	case Answered:
		t.mu.Lock()
		defer t.mu.Unlock()
		q.share(g.Answer)
		return nil, g.Answer, nil
	case Resting:
		return nil, nil, &RestError{g.Failures, g.Until, g.Why, g.Cause}
	case Granted:
		return t.start(q, ask, locks, g), nil, nil
	}
	return nil, nil, nil
}

func (t *Turns) locks() Locks {
	if t.shared != nil {
		return t.shared
	}
	return &t.own
}

// start begins a turn that was granted.
func (t *Turns) start(q *queue, a Ask, locks Locks, g Grant) *Turn {
	turn := &Turn{
		Hold: Hold{a.Login, a.Holder, g.Fence}, Grant: g,
		t: t, q: q, locks: locks, since: time.Now(), ended: make(chan struct{}),
	}
	turn.keeper.Go(turn.keep)
	t.active.Add(1)
	t.mu.Lock()
	defer t.mu.Unlock()
	q.turn = turn
	u := t.sessions[a.Key]
	if u == nil {
		u = &underWay{done: make(chan struct{})}
		t.sessions[a.Key] = u
	}
	u.count++
	return turn
}

// Void says that the session is logged out in the jar of that version: nobody
// is given the answer of an earlier login any more.
func (t *Turns) Void(ctx context.Context, key session.Key, version int64) {
	_ = t.own.Void(ctx, key, version) // Memory has no errors
	if t.shared == nil {
		return
	}
	if err := t.shared.Void(ctx, key, version); err != nil {
		t.log.Warn("tell other proxies that a session is logged out", "err", err)
	}
}

// Note tells the other proxies what a reply has shown of the session.
func (t *Turns) Note(ctx context.Context, key session.Key, s Shown) {
	if err := t.locks().Note(ctx, key, s); err != nil {
		t.log.Warn("tell other proxies how a session stands", "err", err)
	}
}

// Status is what all proxies know of a session. In an outage it is nothing, and
// only one of a list's sessions waits to find that out.
func (t *Turns) Status(ctx context.Context, of Login) Status {
	if until := t.away.Load(); until != nil && time.Now().Before(*until) {
		return Status{}
	}
	status, err := t.locks().Status(ctx, of)
	if err != nil && ctx.Err() == nil {
		t.away.Store(new(time.Now().Add(keepEvery)))
		t.log.Warn("ask how a session stands at other proxies", "err", err)
	}
	return status
}

// UnderWay returns a channel that is closed when no login of the session is
// under way here any more; nil where none is.
func (t *Turns) UnderWay(key session.Key) <-chan struct{} {
	if t.active.Load() == 0 {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if u := t.sessions[key]; u != nil {
		return u.done
	}
	return nil
}

// Turn is the right to log in. It lasts until End.
type Turn struct {
	Hold
	Grant // that it came with

	t     *Turns
	q     *queue
	locks Locks
	since time.Time

	over   sync.Once
	ended  chan struct{}
	keeper sync.WaitGroup
}

const (
	turnLife  = 15 * time.Second // of a turn whose process has died
	keepEvery = turnLife / 3
	keepFor   = time.Minute // others are given the answer
)

// keep lengthens the turn until it ends, or another has taken it.
func (u *Turn) keep() {
	tick := time.NewTicker(keepEvery)
	defer tick.Stop()
	for {
		select {
		case <-u.ended:
			return
		case <-tick.C:
			ctx, cancel := context.WithTimeout(context.Background(), keepEvery)
			held, err := u.locks.Keep(ctx, u.Hold, turnLife)
			cancel()
			if err == nil && !held {
				return
			}
		}
	}
}

// Last says whether no later turn was granted, so that what this one's login
// has set is the session. In an outage it is: nobody could tell.
func (u *Turn) Last(ctx context.Context) bool {
	u.t.mu.Lock()
	here := u.q.turn == u
	u.t.mu.Unlock()
	if !here {
		return false
	}
	held, err := u.locks.Keep(ctx, u.Hold, turnLife)
	return held || err != nil
}

// End gives the turn back, and wakes who waits. Only the first End counts.
func (u *Turn) End(ctx context.Context, r Result) {
	u.over.Do(func() {
		close(u.ended)
		u.keeper.Wait()
		r.Keep = keepFor
		if err := u.locks.End(ctx, u.Hold, r); err != nil {
			u.t.log.Warn("tell other proxies that a login has ended: they wait until its lock does", "err", err)
		}
		u.t.end(u, r.Answer)
	})
}

// end gives those that wait here the answer, if there is one, also where the
// locks could not be told.
func (t *Turns) end(u *Turn, answer *Answer) {
	t.active.Add(-1)
	t.mu.Lock()
	defer t.mu.Unlock()
	if u.q.turn == u {
		u.q.turn = nil
		if answer != nil {
			u.q.share(answer)
		}
		t.forget(u.Login, u.q)
	}
	u.q.changed()
	s := t.sessions[u.Key]
	if s.count--; s.count == 0 {
		close(s.done)
		delete(t.sessions, u.Key)
	}
}
