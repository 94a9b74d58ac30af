package redistest

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockC []byte

// Clock is a clock that servers go by, and that can be set.
type Clock struct {
	t   testing.TB
	dir string
}

// NewClock makes a clock that is right until it is set. It needs a C compiler,
// and Linux.
func NewClock(t testing.TB) *Clock {
	t.Helper()
	c := &Clock{t: t, dir: t.TempDir()}
	source := filepath.Join(c.dir, "clock.c")
	if err := os.WriteFile(source, clockC, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", "-o", c.library(), source).CombinedOutput(); err != nil {
		t.Fatalf("compile a clock that can be set: %v: %s; apt-get install gcc", err, out)
	}
	c.Set(0)
	return c
}

// Set has the servers that go by the clock jump to a time so far ahead of the
// right one, or behind it; whole seconds.
func (c *Clock) Set(ahead time.Duration) {
	c.t.Helper()
	seconds := binary.NativeEndian.AppendUint64(nil, uint64(int64(ahead/time.Second)))
	f, err := os.OpenFile(c.file(), os.O_CREATE|os.O_WRONLY, 0o600) // not anew: it is mapped
	if err == nil {
		_, err = f.WriteAt(seconds, 0)
		f.Close()
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

func (c *Clock) library() string { return filepath.Join(c.dir, "clock.so") }
func (c *Clock) file() string    { return filepath.Join(c.dir, "ahead") }

// By has a server go by a clock.
func By(c *Clock) Option {
	return func(s *settings) { s.env = append(s.env, "LD_PRELOAD="+c.library(), "CLOCK_AHEAD="+c.file()) }
}
