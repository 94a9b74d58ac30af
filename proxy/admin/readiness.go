package admin

import (
	"net/http"
	"sync/atomic"
)

// State says whether a process takes work.
type State int32

// The states, as /readyz calls them. A process starts in the first.
const (
	Starting State = iota // 503
	Ready                 // 200
	Draining              // 503: it finishes what it has
)

// String returns the word for s.
func (s State) String() string {
	switch s {
	case Starting:
		return "starting"
	case Ready:
		return "ready"
	}
	return "draining"
}

// Readiness is what /readyz tells load balancers. The zero Readiness is
// Starting. It is safe for concurrent use.
type Readiness struct {
	state atomic.Int32
	parts []part
}

// part is one that requests need, and whether they may go on without.
type part struct {
	up       func() bool
	required bool
}

// Set changes the state.
func (r *Readiness) Set(s State) { r.state.Store(int32(s)) }

// Need makes it depend on a part: while that is not up, /readyz says degraded,
// with 503 where the part is required. It is called before anything serves.
func (r *Readiness) Need(up func() bool, required bool) {
	r.parts = append(r.parts, part{up, required})
}

func (r *Readiness) serve(w http.ResponseWriter, _ *http.Request) {
	s := State(r.state.Load())
	status, word := http.StatusServiceUnavailable, s.String()
	if s == Ready {
		status = http.StatusOK
		for _, p := range r.parts {
			if p.up() {
				continue
			}
			word = "degraded"
			if p.required {
				status = http.StatusServiceUnavailable
			}
		}
	}
	writeText(w, status, word)
}
