package redisstore

import (
	"context"
	"errors"
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
	taken   int      // more of them, which the replay under way has
	size    int
	dropped int // since it went away

	replayed map[*entry]versions // what the replay under way gave; it alone uses them
}

// The modes of a node.
const (
	there    int32 = iota
	readOnly       // it answers, and takes no writes: full, or demoted
	away
)

func (n *node) refusesReads() bool  { return n.mode.Load() == away }
func (n *node) refusesWrites() bool { return n.mode.Load() != there }

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
