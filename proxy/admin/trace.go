package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// Exchanges is the answer to GET /api/v1/exchanges.
type Exchanges struct {
	Kept      int              `json:"kept"`      // how many this proxy remembers: the last ones
	Exchanges []trace.Exchange `json:"exchanges"` // the latest first
}

// listed is how many exchanges are shown where nobody says.
const listed = 100

// listExchanges is GET /api/v1/exchanges: those of this proxy that fit, the
// latest first.
func (s *server) listExchanges(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	f, n, ok := exchangeFilter(w, q, "limit", listed)
	if !ok {
		return
	}
	writeJSON(w, http.StatusOK, "application/json", Exchanges{trace.Kept, s.trace.Last(r.Context(), f, n)})
}

// showExchange is GET /api/v1/exchanges/{id}.
func (s *server) showExchange(w http.ResponseWriter, r *http.Request) {
	e, ok := s.trace.Find(r.Context(), r.PathValue("id"))
	if !ok {
		problem{http.StatusNotFound, "unknown_exchange", fmt.Sprintf("This proxy remembers no such exchange: it keeps the last %d, and another proxy's not at all.", trace.Kept)}.write(w)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", e)
}

// streamExchanges is GET /api/v1/trace: server-sent events, each an exchange of
// this proxy that fits. It begins with the last ones, as many as last says, or
// after the one that Last-Event-ID names.
func (s *server) streamExchanges(w http.ResponseWriter, r *http.Request) {
	f, n, ok := exchangeFilter(w, r.URL.Query(), "last", 0)
	if !ok {
		return
	}
	var follower *trace.Follower
	if after, err := strconv.ParseUint(r.Header.Get("Last-Event-ID"), 10, 64); err == nil {
		follower = s.trace.Resume(f, after)
	} else {
		follower = s.trace.Follow(f, n)
	}
	if follower == nil {
		tooManyListeners.write(w)
		return
	}
	defer follower.Stop()
	follow(s, w, r, "exchanges of this proxy", follower.Wake(), func(struct{}) string {
		exchanges, lost := follower.Next(r.Context())
		var b strings.Builder
		if lost > 0 {
			fmt.Fprintf(&b, "event: lost\ndata: {\"lost\":%d}\n\n", lost)
		}
		for _, e := range exchanges {
			line, _ := json.Marshal(e) // of a type that JSON can hold
			fmt.Fprintf(&b, "id: %d\nevent: exchange\ndata: %s\n\n", e.Number, line)
		}
		return b.String()
	})
}

// exchangeFilter reads a query. It returns false where it has answered.
func exchangeFilter(w http.ResponseWriter, q url.Values, count string, usual int) (f trace.Filter, n int, ok bool) {
	f = trace.Filter{
		Client: q.Get("client"), Worker: q.Get("worker"), Site: q.Get("site"),
		Session: q.Get("session"), Outcome: trace.Outcome(q.Get("outcome")), Host: q.Get("host"),
	}
	n, err := strconv.Atoi(cmp.Or(q.Get(count), strconv.Itoa(usual)))
	if err != nil || n < 0 || n > trace.Kept {
		problem{http.StatusBadRequest, count, fmt.Sprintf("The query's %s is a number from 0 to %d.", count, trace.Kept)}.write(w)
		return f, 0, false
	}
	if f.Outcome != "" && !slices.Contains(trace.Outcomes, f.Outcome) {
		problem{http.StatusBadRequest, "outcome", fmt.Sprintf("The query's outcome is one of %v.", trace.Outcomes)}.write(w)
		return f, 0, false
	}
	return f, n, true
}
