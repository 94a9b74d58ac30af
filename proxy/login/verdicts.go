package login

import (
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Verdicts remembers, for this process, what the last reply that told showed of
// each session. Make it with NewVerdicts.
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

// NewVerdicts returns an empty memory.
func NewVerdicts() *Verdicts { return &Verdicts{all: map[session.Key]Shown{}} }

// Note takes what the reply to a request showed that had left with the jar of
// that version, whose last login was login. It returns true where the session
// was not known to be so since that.
func (v *Verdicts) Note(key session.Key, j Judgment, version, login int64) bool {
	v.mu.RLock()
	was, known := v.all[key]
	v.mu.RUnlock()
	if known && was.Version > version {
		return false // of an older state than what is known
	}
	if known && was.Judgment == j && was.Version == version {
		return false
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	was, known = v.all[key]
	if known && was.Version > version {
		return false
	}
	if _, ok := v.all[key]; !ok && len(v.all) >= maxShown {
		for other := range v.all {
			delete(v.all, other)
			break
		}
	}
	v.all[key] = Shown{j, version, time.Now()}
	return !known || was.Verdict != j.Verdict || was.Version < login
}

// Show returns what is known of a session whose jar is jar. What was seen before
// its last login says nothing.
func (v *Verdicts) Show(key session.Key, jar *session.Jar) Shown {
	v.mu.RLock()
	s := v.all[key]
	v.mu.RUnlock()
	if s.Version < jar.Login() {
		return Shown{}
	}
	return s
}
