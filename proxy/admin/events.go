package admin

import (
	"bytes"
	"cmp"
	"context"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// Events spreads the lines of the audit logs of all proxies to whoever listens
// on any of them. It is safe for concurrent use. Make it with NewEvents.
type Events struct {
	access *access.Authority
	queue  chan string
	quit   chan struct{}
	done   chan struct{}

	mu        sync.Mutex // guards what follows
	listeners map[chan string]struct{}
	kept      []string // the last maxQueue lines that were heard
}

// Bounds. What is too slow loses events, and never holds anybody up.
const (
	maxQueue     = 256
	maxListeners = 64
	publishTime  = 250 * time.Millisecond
	topicEvent   = "event"
)

// NewEvents begins to spread, until Close.
func NewEvents(a *access.Authority) *Events {
	e := &Events{
		access: a, queue: make(chan string, maxQueue), quit: make(chan struct{}), done: make(chan struct{}),
		listeners: map[chan string]struct{}{},
	}
	a.Watch(e.hear)
	go e.run()
	return e
}

// Tell takes one line of this proxy's audit log. It does not wait.
func (e *Events) Tell(line []byte) {
	select {
	case e.queue <- string(bytes.TrimSpace(line)):
	default:
	}
}

func (e *Events) run() {
	defer close(e.done)
	for {
		select {
		case <-e.quit:
			return
		case line := <-e.queue:
			ctx, cancel := context.WithTimeout(context.Background(), publishTime)
			m := access.Message{Topic: topicEvent, Body: line}
			if e.access.Publish(ctx, m) != nil {
				e.hear(m) // those who listen here hear it all the same
			}
			cancel()
		}
	}
}

func (e *Events) hear(m access.Message) {
	if m.Topic != topicEvent {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.kept = append(e.kept[max(0, len(e.kept)+1-maxQueue):], m.Body)
	for l := range e.listeners {
		select {
		case l <- m.Body:
		default:
		}
	}
}

// listen returns a channel of lines, which begins with the last ones that were
// heard, nil where too many listen already.
func (e *Events) listen(last int) (lines chan string, stop func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.listeners) >= maxListeners {
		return nil, func() {}
	}
	old := e.kept[max(0, len(e.kept)-last):]
	lines = make(chan string, maxQueue+len(old))
	for _, line := range old {
		lines <- line
	}
	e.listeners[lines] = struct{}{}
	return lines, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.listeners, lines)
	}
}

// Close stops spreading.
func (e *Events) Close() {
	close(e.quit)
	<-e.done
}

// stream is GET /api/v1/events[?last=N]: server-sent events, each one line of an
// audit log, from now on, and as many before as are asked for and this proxy
// has heard, 256 at most.
func (s *server) stream(w http.ResponseWriter, r *http.Request) {
	last, err := strconv.Atoi(cmp.Or(r.URL.Query().Get("last"), "0"))
	if err != nil || last < 0 {
		problem{http.StatusUnprocessableEntity, "last", "Say how many of the last events to begin with: ?last=100."}.write(w)
		return
	}
	lines, stop := s.events.listen(last)
	defer stop()
	if lines == nil {
		tooManyListeners.write(w)
		return
	}
	follow(s, w, r, "events of all proxies, from now on", lines, func(line string) string {
		return "event: audit\ndata: " + line + "\n\n"
	})
}
