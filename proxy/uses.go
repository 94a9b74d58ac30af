package proxy

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// uses remembers by whom each session was last used through this process, for
// people who look at it. It is bounded as [memory] is: clients choose the names
// of sessions.
type uses struct {
	mu       sync.RWMutex // guards what follows
	new, old map[session.Key]*use
}

// use is the last one of a session.
type use struct {
	at   atomic.Int64 // microseconds since 1970
	user atomic.Pointer[lastUser]
}

type lastUser struct{ client, worker string }

// maxUses bounds a generation.
const maxUses = 1 << 12

func newUses() *uses { return &uses{new: map[session.Key]*use{}} }

// note is called by each request. Where the same client comes again it only
// stores the time.
func (u *uses) note(key session.Key, id *identity, at time.Time) {
	u.mu.RLock()
	of := u.new[key]
	u.mu.RUnlock()
	if of == nil {
		of = u.begin(key)
	}
	of.at.Store(at.UnixMicro())
	if last := of.user.Load(); last == nil || last.client != id.name || last.worker != id.worker {
		of.user.Store(&lastUser{id.name, id.worker})
	}
}

func (u *uses) begin(key session.Key) *use {
	u.mu.Lock()
	defer u.mu.Unlock()
	if of := u.new[key]; of != nil {
		return of
	}
	of := u.old[key]
	if of == nil {
		of = new(use)
	}
	if len(u.new) >= maxUses {
		u.old, u.new = u.new, map[session.Key]*use{}
	}
	delete(u.old, key)
	u.new[key] = of
	return of
}

// EachUse calls f with the last use of each session that was lately used
// through this process: its client, "" for one without a name, and the worker,
// which is an address unless it named itself.
func (p *Proxy) EachUse(f func(key session.Key, at time.Time, client, worker string)) {
	u := p.uses
	u.mu.RLock()
	defer u.mu.RUnlock()
	for _, generation := range []map[session.Key]*use{u.new, u.old} {
		for key, of := range generation {
			if by := of.user.Load(); by != nil { // else its first use is just being noted
				f(key, time.UnixMicro(of.at.Load()).UTC(), by.client, by.worker)
			}
		}
	}
}
