package world

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

// Records are what a proxy has logged, at every level.
type Records struct {
	with []slog.Attr // of this handler

	log *recordLog
}

type recordLog struct {
	mu   sync.Mutex // guards what follows
	all  []Record
	more chan struct{} // closed at the next record
}

// Record is one line of the log.
type Record struct {
	Level   slog.Level
	Message string
	Attrs   map[string]slog.Value
}

// String is the line as an operator may read it.
func (r Record) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	for name, v := range r.Attrs {
		fmt.Fprintf(&b, " %s=%q", name, v)
	}
	return b.String()
}

func newRecords() *Records {
	return &Records{log: &recordLog{more: make(chan struct{})}}
}

// Enabled is part of [slog.Handler].
func (r *Records) Enabled(context.Context, slog.Level) bool { return true }

// Handle is part of [slog.Handler].
func (r *Records) Handle(_ context.Context, in slog.Record) error {
	out := Record{in.Level, in.Message, map[string]slog.Value{}}
	for _, a := range r.with {
		out.Attrs[a.Key] = a.Value.Resolve()
	}
	in.Attrs(func(a slog.Attr) bool {
		out.Attrs[a.Key] = a.Value.Resolve()
		return true
	})
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	r.log.all = append(r.log.all, out)
	close(r.log.more)
	r.log.more = make(chan struct{})
	return nil
}

// WithAttrs is part of [slog.Handler].
func (r *Records) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Records{with: append(r.with[:len(r.with):len(r.with)], attrs...), log: r.log}
}

// WithGroup is part of [slog.Handler]. Groups are not told apart.
func (r *Records) WithGroup(string) slog.Handler { return r }

// All is everything logged until now.
func (r *Records) All() []Record {
	all, _ := r.snapshot()
	return all
}

func (r *Records) snapshot() ([]Record, <-chan struct{}) {
	r.log.mu.Lock()
	defer r.log.mu.Unlock()
	return r.log.all[:len(r.log.all):len(r.log.all)], r.log.more
}

// WantRecord waits for a record whose message begins with message and which
// has the attributes: names and values in turn, compared as text. It returns
// the first.
func (r *Records) WantRecord(t testing.TB, message string, attrs ...any) Record {
	t.Helper()
	late := time.After(patience)
	for {
		all, more := r.snapshot()
		for _, rec := range all {
			if rec.has(message, attrs) {
				return rec
			}
		}
		select {
		case <-more:
		case <-late:
			t.Fatalf("no record %q with %v in:\n%s", message, attrs, join(all))
		}
	}
}

// Count is how many such records there are now.
func (r *Records) Count(message string, attrs ...any) (n int) {
	for _, rec := range r.All() {
		if rec.has(message, attrs) {
			n++
		}
	}
	return n
}

func (r Record) has(message string, attrs []any) bool {
	if !strings.HasPrefix(r.Message, message) {
		return false
	}
	for i := 0; i < len(attrs); i += 2 {
		v, ok := r.Attrs[attrs[i].(string)]
		if !ok || v.String() != fmt.Sprint(attrs[i+1]) {
			return false
		}
	}
	return true
}

// checkErrors fails the test where the proxy has logged an error, or net/http
// has recovered a panic: no client and no origin may be able to cause one.
func (r *Records) checkErrors(t testing.TB) {
	for _, rec := range r.All() {
		if rec.Level >= slog.LevelError || strings.Contains(rec.Message, "panic serving") {
			t.Errorf("the proxy logged: %s", rec)
		}
	}
}

func join(all []Record) string {
	var b strings.Builder
	for _, rec := range all {
		b.WriteString(rec.String())
		b.WriteByte('\n')
	}
	return b.String()
}
