package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/session"
)

// defaultBudget bounds what one call waits for Redis, tries anew included.
const defaultBudget = 250 * time.Millisecond

// How often Redis is tried while it is away.
const (
	probeFirst = 50 * time.Millisecond
	probeMost  = time.Second
)

// maxOffers bounds, in bytes, what waits for one Redis.
const maxOffers = 16 << 20

var (
	errClosed = errors.New("store is closed")
	errBack   = errors.New("Redis is back")
)

// node is one master of Redis, and whether it is there. After a failure nobody
// waits for it again, until a probe comes through.
type node struct {
	s       *Store
	mode    atomic.Int32
	outages atomic.Uint64 // so far, with the present one

	mu      sync.Mutex // guards what follows
	probe   string     // a key of a slot that it serves
	since   time.Time
	offers  []*offer // the newest that fit
	size    int
	dropped int // since it went away

	replayed map[*entry]versions // what the replay under way gave; it alone uses them
}

// versions are those of cookies, and of the marks of deleted ones.
type versions map[session.Identity]int64

// The modes of a node.
const (
	there    int32 = iota
	readOnly       // it answers, and takes no writes: full, or demoted
	away
)

func (n *node) refusesReads() bool  { return n.mode.Load() == away }
func (n *node) refusesWrites() bool { return n.mode.Load() != there }

// offer is a change that was made while Redis was away.
type offer struct {
	entry   *entry
	update  session.Update // of the cookies that it changed
	life    session.Life
	version int64 // of the change
	size    int
}

// failed looks at what a call of Redis ended with, and switches to outage mode
// where it is of that kind.
func (n *node) failed(public string, err error) {
	mode := outage(err)
	if mode == there {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mode.Load() != there {
		n.mode.Store(max(mode, n.mode.Load()))
		return
	}
	if !n.s.begin() {
		return
	}
	n.outages.Add(1)
	n.mode.Store(mode)
	n.probe, n.since, n.dropped = public, time.Now(), 0
	n.s.log.Warn("the Redis store is away: requests go on with the last known sessions", "err", err)
	go func() {
		defer n.s.running.Done()
		n.keepProbing(n.s.alive)
	}()
}

// callError is how a call of Redis failed.
type callError struct{ error }

func (e callError) Unwrap() error { return e.error }

// outage says whether an error is Redis' being away, and how much of it. A
// wrong type, a missing permission or a script that is broken is none: trying
// again would not help, and other keys are well.
func outage(err error) int32 {
	_, called := errors.AsType[callError](err)
	_, spoken := errors.AsType[redis.Error](err)
	switch {
	case !called, errors.Is(err, context.Canceled):
		return there
	case !spoken:
		return away
	}
	// A script's error has what the command in it said, after a hyphen.
	text := err.Error()
	for code, mode := range codes {
		if strings.HasPrefix(text, code) || strings.Contains(text, "-"+code) {
			return mode
		}
	}
	return there
}

// codes are the errors of a Redis that is well again later.
var codes = map[string]int32{
	"OOM": readOnly, "READONLY": readOnly, "MISCONF": readOnly, "NOREPLICAS": readOnly,
	"LOADING": away, "MASTERDOWN": away, "CLUSTERDOWN": away, "TRYAGAIN": away, "MOVED": away, "ASK": away, "BUSY": away,
	"ERR max number of clients": away,
}

// keepWatching notices an outage though no request comes: the tracker is the
// first to lose its connection.
func (s *Store) keepWatching(ctx context.Context) {
	tick := time.NewTicker(probeMost)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		nodes := s.allNodes()
		if len(nodes) == 0 {
			nodes = append(nodes, s.node(s.publicKey(session.Key{Site: "watched", ID: session.DefaultID})))
		}
		for _, n := range nodes {
			n.mu.Lock()
			public := n.probe
			n.mu.Unlock()
			if !n.refusesWrites() && !s.tracker.Coherent(public) {
				n.failed(public, n.set(ctx, public))
			}
		}
	}
}

// keepProbing tries a write until one comes through, and then what waits.
func (n *node) keepProbing(ctx context.Context) {
	for wait := probeFirst; ; wait = min(2*wait, probeMost) {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
		if n.try(ctx) && n.replay(ctx) {
			return
		}
	}
}

// try says whether Redis takes writes again.
func (n *node) try(ctx context.Context) bool {
	n.mu.Lock()
	public := n.probe
	n.mu.Unlock()
	return n.set(ctx, public) == nil
}

// set writes to the slot of a key, since a Redis that is full or a replica
// still answers.
func (n *node) set(ctx context.Context, public string) error {
	ctx, cancel := context.WithTimeout(ctx, n.s.budget)
	defer cancel()
	if err := n.s.client.Set(ctx, n.s.prefix+"probe:{"+public+"}", "1", time.Second).Err(); err != nil {
		return callError{err}
	}
	return nil
}

// replay writes what waits, and ends the outage once nothing does.
func (n *node) replay(ctx context.Context) bool {
	for {
		n.mu.Lock()
		offers := n.offers
		n.offers = nil
		if len(offers) == 0 {
			n.size, n.replayed = 0, nil
			n.mode.Store(there)
			n.s.log.Info("the Redis store is back", "after", time.Since(n.since).Round(time.Millisecond), "captures_dropped", n.dropped)
			n.mu.Unlock()
			return true
		}
		n.mu.Unlock()

		waiting := make(map[*entry][]*offer)
		for _, o := range offers {
			waiting[o.entry] = append(waiting[o.entry], o)
		}
		for e, list := range waiting {
			if !n.replayOne(ctx, e, list) {
				break
			}
			delete(waiting, e)
		}
		if len(waiting) > 0 {
			rest := slices.DeleteFunc(offers, func(o *offer) bool { return waiting[o.entry] == nil })
			n.mu.Lock()
			n.offers = append(rest, n.offers...)
			n.mu.Unlock()
			return false
		}
	}
}

// replayOne writes what waits for one key. It reports false where Redis is away
// again.
func (n *node) replayOne(ctx context.Context, e *entry, offers []*offer) bool {
	ctx, cancel := context.WithTimeout(ctx, n.s.budget)
	defer cancel()
	if n.replayed == nil {
		n.replayed = make(map[*entry]versions)
	}
	if n.replayed[e] == nil {
		n.replayed[e] = make(versions)
	}
	// Of a cookie that was captured again and again the last one counts: the
	// version that the first is given here would make the others late.
	later := make(versions)
	batch := make([]*change, len(offers))
	for i, o := range slices.Backward(offers) {
		batch[i] = o.change(n.s, later, n.replayed[e])
	}
	err := n.s.writeAll(ctx, e, batch)
	if outage(err) != there || ctx.Err() != nil {
		return false
	}
	if err == nil {
		gave := batch[len(batch)-1].jar.Versions()
		for id := range later {
			n.replayed[e][id] = gave[id]
		}
	}
	if err != nil {
		n.s.dropped.Add(uint64(len(offers)))
		n.s.log.Error("captures that waited for the Redis store are lost", "err", fail("apply to", e.key, err), "count", len(offers))
	}
	n.mu.Lock()
	for _, o := range offers {
		n.size -= o.size
	}
	n.mu.Unlock()
	return true
}

// add lets o wait, and the oldest go where there is no room. It reports false
// where Redis is back.
func (n *node) add(o *offer) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mode.Load() == there {
		return false
	}
	n.offers = append(n.offers, o)
	n.size += o.size
	for n.size > maxOffers && len(n.offers) > 1 {
		old := n.offers[0]
		n.offers[0] = nil
		n.offers = n.offers[1:]
		n.size -= old.size
		n.dropped++
		n.s.dropped.Add(1)
	}
	return true
}

// change is the offer as it is made once Redis is back, without the cookies
// that stand in a later offer; its own are added to those. What others changed
// since is newer, and stays; replayed is what we did. For the rest the jar's own
// rules hold.
func (o *offer) change(s *Store, later, replayed versions) *change {
	var cookies []session.Cookie
	for _, c := range o.update.Cookies {
		if _, again := later[c.Identity()]; !again {
			cookies = append(cookies, c)
		}
		later[c.Identity()] = o.version
	}
	c := new(change)
	c.make = func(own, shared *session.Record, now int64) (*session.Record, int64) {
		key := o.entry.key
		base := session.JarAt(key, own, shared, now)
		if base == nil {
			base = none
		}
		have := base.Versions()
		u := o.update
		u.Cookies = nil
		for _, cookie := range cookies {
			v, given := replayed[cookie.Identity()]
			ours := given && v == have[cookie.Identity()]
			if ours {
				u.Base = max(u.Base, v)
			}
			if ours || have[cookie.Identity()] <= o.version {
				u.Cookies = append(u.Cookies, cookie)
			}
		}
		c.jar, _ = base.Apply(u, o.version)
		if c.jar == base {
			return own, 0
		}
		return &session.Record{Jar: c.jar, Used: now, Ends: session.EndOf(key, c.jar, shared, now, o.life)}, 0
	}
	return c
}

// keep makes a change in memory and lets it wait for Redis. One that may not
// wait fails with what Redis failed with.
func (s *Store) keep(e *entry, c *change, cause error) error {
	if c.offer == nil && !c.renews {
		if errors.Is(cause, session.ErrAway) {
			return cause
		}
		return fmt.Errorf("%w: %w", session.ErrAway, cause)
	}
	var shared *session.Record
	if e.key.Worker != "" {
		if sh := s.cache.get(e.key.Shared()); sh != nil {
			st, _ := s.lastKnown(sh, nil)
			shared = st.recordOf()
		}
	}
	st, _ := s.lastKnown(e, nil)
	if st == nil {
		st = new(state)
	}
	kept := *st
	if kept.record, _ = c.make(st.record, shared, s.clock.now()); kept.record == st.record {
		return nil
	}
	if c.renews {
		e.renewInMemory(&kept)
		return nil
	}
	o := c.offer
	o.entry, o.version = e, kept.record.Jar.Version()
	for i, outcome := range c.outcomes {
		if outcome == session.Changed {
			cookie := c.update.Cookies[i]
			o.update.Cookies = append(o.update.Cookies, cookie)
			o.size += sizeCookie + len(cookie.Name) + len(cookie.Value)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.node.add(o) {
		return errBack
	}
	e.offer, e.outage = &kept, e.node.outages.Load()
	e.gen++
	e.flight = nil
	e.valid.Store(nil)
	return nil
}

// offered is what was captured in the present outage on top of what is known;
// nil where nothing was. e.mu is held.
func (e *entry) offered() *state {
	if e.offer == nil || e.outage != e.node.outages.Load() || !e.node.refusesWrites() {
		return nil
	}
	return e.offer
}

// renewInMemory lets a session in use go on though Redis can't be told.
func (e *entry) renewInMemory(st *state) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.offered() != nil {
		e.offer = st
		return
	}
	if e.last != nil {
		v := *e.last
		v.state = st
		if e.valid.Load() == e.last {
			e.valid.Store(&v)
		}
		e.last = &v
	}
}
