package shop

import (
	"bytes"
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// stream is a client of one endless answer: it takes each part as it is flushed.
type stream struct {
	header  http.Header
	pending bytes.Buffer
	flushed chan string // closed when the handler has returned
}

func (s *stream) Header() http.Header         { return s.header }
func (s *stream) WriteHeader(int)             {}
func (s *stream) Write(p []byte) (int, error) { return s.pending.Write(p) }

func (s *stream) Flush() {
	s.flushed <- s.pending.String()
	s.pending.Reset()
}

func TestEvents(t *testing.T) {
	t.Parallel()
	const (
		first  = `data: {"parcel":"packed","user":"alice"}` + "\n\n"
		second = `data: {"parcel":"left the warehouse","user":"alice"}` + "\n\n"
		ended  = ""
	)
	for _, tt := range []struct {
		name string
		then func(s *Shop, id string, leave context.CancelFunc) // after the first event
		next string
		in   time.Duration
	}{
		{"the next event comes after a second", func(*Shop, string, context.CancelFunc) {}, second, time.Second},
		{"a client that leaves ends its stream", func(_ *Shop, _ string, leave context.CancelFunc) { leave() }, ended, 0},
		{"signing out ends the stream by the next event", func(s *Shop, id string, _ context.CancelFunc) { s.sessions.end(id) }, ended, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, leave := context.WithCancel(t.Context())
				defer leave()
				s := New(options)
				id := s.sessions.start("alice")
				r := httptest.NewRequestWithContext(ctx, http.MethodGet, "/events", nil)
				r.Header.Set("Cookie", "sid="+id)
				w := &stream{header: make(http.Header), flushed: make(chan string)}
				go func() {
					defer close(w.flushed)
					s.ServeHTTP(w, r)
				}()

				begin := time.Now()
				if got, in := <-w.flushed, time.Since(begin); got != first || in != 0 {
					t.Errorf("the stream begins with %q after %s, want %q at once", got, in, first)
				}
				if got := w.header.Get("Content-Type"); got != "text/event-stream" {
					t.Errorf("Content-Type %q, want text/event-stream", got)
				}
				tt.then(s, id, leave)
				if got, in := <-w.flushed, time.Since(begin); got != tt.next || in != tt.in {
					t.Errorf("then comes %q after %s, want %q after %s", got, in, tt.next, tt.in)
				}
			})
		})
	}
}

func TestEventsAnswerThatEnds(t *testing.T) {
	t.Parallel()
	s := New(options)
	id := s.sessions.start("alice")
	for _, tt := range []struct {
		name, method, cookie string
		status               int
	}{
		{"a stranger is refused", http.MethodGet, "", http.StatusUnauthorized},
		{"a HEAD request gets the header alone", http.MethodHead, "sid=" + id, http.StatusOK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, tt.method, "/events", nil)
			r.Header.Set("Cookie", tt.cookie)
			w := httptest.NewRecorder()
			s.ServeHTTP(w, r)
			if ctx.Err() != nil {
				t.Error("the answer did not end")
			}
			if w.Code != tt.status {
				t.Errorf("%d, want %d", w.Code, tt.status)
			}
		})
	}
}
