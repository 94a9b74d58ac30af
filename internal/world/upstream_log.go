package world

import (
	"slices"
	"time"
)

// Visit is a connection of a client, as the upstream's log has it.
type Visit struct {
	Number int // in the log
	Began  time.Time
	Beside []int    // the numbers of those that were there, too, when it began
	Owners []string // whose requests targets saw come from it, see Saw
}

type visitKey struct{}

// Saw says that a target saw a request of owner come from peer. It reports
// whether that is a connection which the upstream has, for a client that is
// still there.
func (u *Upstream) Saw(peer, owner string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	v := u.peers[peer]
	if v == nil {
		return false
	}
	if !slices.Contains(v.Owners, owner) {
		v.Owners = append(v.Owners, owner)
	}
	for c, visit := range u.clients {
		if visit == v {
			return established(c)
		}
	}
	return false
}

// Log is all that the upstream has had.
func (u *Upstream) Log() (log []Visit) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, v := range u.log {
		log = append(log, Visit{v.Number, v.Began, v.Beside, slices.Clone(v.Owners)})
	}
	return log
}
