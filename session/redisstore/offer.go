package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// maxOffers bounds, in bytes, what waits for one Redis.
const maxOffers = 16 << 20

var errBack = errors.New("the store is back")

// versions are those of cookies, and of the marks of deleted ones.
type versions map[session.Identity]int64

// offer is a change that was made while Redis was away.
type offer struct {
	entry   *entry
	update  session.Update // of the cookies that it changed
	life    session.Life
	version int64 // of the change
	size    int
}

// replay writes what waits, and ends the outage once nothing does.
func (n *node) replay(ctx context.Context) bool {
	for {
		n.mu.Lock()
		offers := n.offers
		n.offers, n.taken = nil, len(offers)
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
			n.offers, n.taken = append(rest, n.offers...), 0
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
		batch[i] = o.change(later, n.replayed[e])
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
func (o *offer) change(later, replayed versions) *change {
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
