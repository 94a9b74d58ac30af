package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, to string, stdout *bytes.Buffer) *Log {
	t.Helper()
	l, err := Open(Options{To: to, Stdout: stdout, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

// The form of a line is an interface: a field may be added here, and none be
// renamed or left out.
func TestTheFormOfALine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := open(t, Stdout, &b)
	e := Event{Action: API, Outcome: Refused, Reason: "r", Exchange: "x", By: "b", From: "f", Worker: "w", Site: "s", Session: "n", Host: "h", Call: "c", Target: "t"}
	l.Write(e)
	l.Write(Event{Action: SessionUsed, Outcome: Done})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(b.String(), "\n")
	var got map[string]any
	if err := json.Unmarshal([]byte(lines[0]), &got); err != nil {
		t.Fatalf("%q: %v", lines[0], err)
	}
	at, err := time.Parse(time.RFC3339Nano, got["time"].(string))
	if err != nil || time.Since(at) > time.Minute {
		t.Errorf("time %v, %v", got["time"], err)
	}
	delete(got, "time")
	want := map[string]any{"action": "api", "outcome": "refused", "reason": "r", "exchange": "x", "by": "b", "from": "f", "worker": "w",
		"site": "s", "session": "n", "host": "h", "call": "c", "target": "t"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if !strings.HasSuffix(lines[1], `"action":"session_used","outcome":"done"}`+"\n") {
		t.Errorf("what is empty is written: %q", lines[1])
	}
}

func TestAFileThatIsMovedAwayIsLeft(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "audit.jsonl")
	l := open(t, file, nil)
	wrote := func(name string, n int) {
		t.Helper()
		for end := time.Now().Add(5 * time.Second); ; time.Sleep(time.Millisecond) {
			b, err := os.ReadFile(name)
			if err == nil && bytes.Count(b, []byte("\n")) == n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%s: %q, %v; want %d lines", name, b, err, n)
			}
		}
	}
	l.Write(Event{Action: API})
	wrote(file, 1)
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	l.Write(Event{Action: API})
	wrote(file+".1", 2)
	if err := l.Reopen(file); err != nil {
		t.Fatal(err)
	}
	l.Write(Event{Action: API})
	wrote(file, 1)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if err := l.Reopen(filepath.Join(file, "no")); err == nil {
		t.Error("a path that can't be opened is taken")
	}
	l.Write(Event{Action: API})
	wrote(file, 2)
}

func TestManyWriteAtOnce(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	l := open(t, Stdout, &b)
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			for range 50 {
				l.Write(Event{Action: SessionUsed, Outcome: Done, Session: fmt.Sprint(i)})
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	n := 0
	for s := bufio.NewScanner(&b); s.Scan(); n++ {
		if !json.Valid(s.Bytes()) {
			t.Fatalf("%q", s.Text())
		}
	}
	if n != 2500 {
		t.Errorf("%d lines, want 2500", n)
	}
	l.Write(Event{Action: API}) // after the end: lost, and said so
	if got := testutil.ToFloat64(l.lost); got != 1 {
		t.Errorf("%v lines are lost, want 1", got)
	}
}

// stuck is a reader that has stopped, until it is let go.
type stuck chan struct{}

func (s stuck) Write([]byte) (int, error) { <-s; return 0, errors.New("gone") }

func TestAReaderThatStopsHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	out := make(stuck)
	l, err := Open(Options{To: Stdout, Stdout: out, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
	if err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for range maxWaiting + 2 { // one is being written, and one too many
		l.Write(Event{Action: API})
	}
	if took := time.Since(begun); took > 5*patience || testutil.ToFloat64(l.lost) != 1 {
		t.Errorf("took %v, lost %v", took, testutil.ToFloat64(l.lost))
	}
	if err := l.Close(); err == nil {
		t.Error("Close says that all was written")
	}
	close(out)
	<-l.done
}

func TestANilLogWritesNothing(t *testing.T) {
	t.Parallel()
	var l *Log
	l.Write(Event{})
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
