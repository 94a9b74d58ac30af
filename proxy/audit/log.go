package audit

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stdout is where the lines go unless a file is named.
const Stdout = "stdout"

// Options are the parts of a Log. All are needed.
type Options struct {
	To      string    // Stdout, or the path of a file
	Stdout  io.Writer // what Stdout is
	Log     *slog.Logger
	Metrics prometheus.Registerer
}

// Log writes events, in order and apart from their callers: a full disk or a
// reader that has stopped holds nobody up for longer than a second. A nil Log
// writes nothing.
type Log struct {
	stdout io.Writer
	log    *slog.Logger
	events *prometheus.CounterVec
	lost   prometheus.Counter
	lines  chan []byte
	done   chan struct{} // the writer has ended

	sending sync.RWMutex // held to send to lines; guards closed
	closed  bool

	mu   sync.Mutex // guards what follows
	tee  func(line []byte)
	out  io.Writer
	file *os.File // out, or nil
}

// Bounds of what waits to be written, and of waits for room.
const (
	maxWaiting = 1024
	patience   = time.Second
)

// Open begins to write.
func Open(o Options) (*Log, error) {
	l := &Log{
		stdout: o.Stdout, log: o.Log,
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_audit_events_total", Help: "Lines of the audit log, those that are suppressed as repetitions not counted."}, []string{"action", "outcome", "reason"}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "sessionproxy_audit_lost_total", Help: "Lines of the audit log that could not be written."}),
		lines: make(chan []byte, maxWaiting),
		done:  make(chan struct{}),
	}
	if err := l.Reopen(o.To); err != nil {
		return nil, err
	}
	o.Metrics.MustRegister(l.events, l.lost)
	// From 0, so that a single one is seen to be an increase.
	l.events.WithLabelValues(string(TokenReuse), string(Refused), Reuse)
	go l.run()
	return l, nil
}

// Reopen goes on in another place, or in the same file anew: one that was moved
// away is left, as log rotation wants it. On an error nothing changes.
func (l *Log) Reopen(to string) error {
	var file *os.File
	out := l.stdout
	if to != Stdout {
		var err error
		if file, err = os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err != nil {
			return fmt.Errorf("open the audit log: %w", err)
		}
		out = file
	}
	l.mu.Lock()
	old := l.file
	l.out, l.file = out, file
	l.mu.Unlock()
	if old != nil {
		return old.Close()
	}
	return nil
}

// Tee calls f with each line that was written. It must not wait.
func (l *Log) Tee(f func(line []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tee = f
}

// Write takes an event. Its time is now.
func (l *Log) Write(e Event) {
	if l == nil {
		return
	}
	e.Time = time.Now().UTC()
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // of strings and a time
	}
	l.events.WithLabelValues(string(e.Action), string(e.Outcome), e.Reason).Inc()
	l.sending.RLock()
	defer l.sending.RUnlock()
	if l.closed {
		l.lost.Inc()
		return
	}
	select {
	case l.lines <- append(line, '\n'):
		return
	default:
	}
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case l.lines <- append(line, '\n'):
	case <-wait.C:
		l.lost.Inc()
	}
}

func (l *Log) run() {
	defer close(l.done)
	broken := false
	for line := range l.lines {
		l.mu.Lock()
		_, err := l.out.Write(line)
		tee := l.tee
		l.mu.Unlock()
		if tee != nil {
			tee(line)
		}
		if err != nil {
			l.lost.Inc()
		}
		// Once for each change: a full disk would fill the log too.
		switch {
		case err != nil && !broken:
			l.log.Error("the audit log can't be written: lines are lost", "err", err)
		case err == nil && broken:
			l.log.Warn("the audit log is written again")
		}
		broken = err != nil
	}
}

// Close writes what waits, in a second at most, and lets go of the file.
func (l *Log) Close() error {
	if l == nil {
		return nil
	}
	l.sending.Lock()
	if l.closed {
		l.sending.Unlock()
		return nil
	}
	l.closed = true
	close(l.lines)
	l.sending.Unlock()
	wait := time.NewTimer(patience)
	defer wait.Stop()
	select {
	case <-l.done:
	case <-wait.C:
		return fmt.Errorf("close the audit log: %d lines could not be written in %v", len(l.lines), patience)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file != nil {
		return l.file.Close()
	}
	return nil
}
