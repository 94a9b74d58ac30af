package login

import (
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Verdicts remembers, for this process, what the last reply that told showed of
// each session. The zero Verdicts is ready.
type Verdicts struct {
	mu  sync.RWMutex // guards all
	all map[session.Key]Shown
}

// Shown is what a reply showed of a session.
type Shown struct {
	Judgment
	Version int64     // of the jar that the request left with
	Time    time.Time // of the reply
}

// Status is what an operator is told of a session's login.
type Status struct {
	Shown
	// Failed is why the recipe rests; nil: it does not.
	Failed *RestError
}

// maxShown bounds the sessions that are remembered: clients choose their IDs.
const maxShown = 10_000

// Note takes what the reply to a request showed that had left with the jar of
// that version, whose last login was login. It returns true where the session
// was not known to be so since that.
func (v *Verdicts) Note(key session.Key, j Judgment, version, login int64) bool {
	was := v.get(key)
	if was.Version > version || was.Judgment == j && was.Version == version {
		return false // of an older state than what is known, or known
	}
	was, kept := v.keep(key, Shown{j, version, time.Now()})
	return kept && (was.Verdict != j.Verdict || was.Version < login)
}

func (v *Verdicts) get(key session.Key) Shown {
	v.mu.RLock()
	defer v.mu.RUnlock()
	return v.all[key]
}

// keep remembers s, unless something of a later version is known, and returns
// what was known before.
func (v *Verdicts) keep(key session.Key, s Shown) (was Shown, kept bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	was, known := v.all[key]
	switch {
	case was.Version > s.Version:
		return was, false
	case v.all == nil:
		v.all = map[session.Key]Shown{}
	case !known && len(v.all) >= maxShown:
		for other := range v.all {
			delete(v.all, other)
			break
		}
	}
	v.all[key] = s
	return was, true
}

// Show returns what is known of a session whose jar is jar. What was seen before
// its last login, or before it was revoked, says nothing.
func (v *Verdicts) Show(key session.Key, jar *session.Jar) Shown {
	s := v.get(key)
	if s.Version < max(jar.Login(), jar.Floor()) {
		return Shown{}
	}
	return s
}
