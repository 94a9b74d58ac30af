package admin

import (
	"net/http"
	"time"
)

// beat is how often a silent stream shows that it lives. Its listener's proof is
// looked at again then, and before news where that was longer ago than fresh.
const (
	beat  = 15 * time.Second
	fresh = time.Second
)

var tooManyListeners = problem{http.StatusServiceUnavailable, "too_many_listeners", "As many listen to this proxy as can. Ask another proxy, or close what you no longer look at."}

// follow answers with server-sent events, what text makes of each of the news,
// until the client leaves, or may see them no longer.
func follow[T any](s *server, w http.ResponseWriter, r *http.Request, hello string, news <-chan T, text func(T) string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	answer := http.NewResponseController(w)
	send := func(text string) bool {
		_ = answer.SetWriteDeadline(time.Now().Add(beat)) // only of the tests' recorder it is an error
		_, err := w.Write([]byte(text))
		return err == nil && answer.Flush() == nil
	}
	looked := time.Now()
	mayHear := func(within time.Duration) bool {
		if time.Since(looked) < within {
			return true
		}
		looked = time.Now()
		who, _, err := s.authenticate(r)
		return err == nil && who.Name != ""
	}
	tick := time.NewTicker(beat)
	defer tick.Stop()
	ok := send(": " + hello + "\n\n")
	for ok {
		select {
		case <-r.Context().Done():
			return
		case n := <-news:
			ok = mayHear(fresh) && send(text(n))
		case <-tick.C:
			ok = mayHear(0) && send(": still here\n\n")
		}
	}
}
