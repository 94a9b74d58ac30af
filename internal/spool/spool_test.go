package spool

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
)

// endless is so many bytes, each telling where it stands.
func endless(n int64) io.Reader { return io.LimitReader(new(counter), n) }

type counter struct{ n byte }

// cycle is a prime number of bytes, so that no two blocks of a file are alike.
var cycle = func() (all [251 * 256]byte) {
	for i := range all {
		all[i] = byte(i % 251)
	}
	return
}()

func (c *counter) Read(b []byte) (int, error) {
	n := copy(b, cycle[c.n:])
	c.n = byte((int(c.n) + n) % 251)
	return n, nil
}

func TestHold(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		size     int64
		inMemory bool
	}{
		{"nothing", 0, true},
		{"a small body is in memory", 1000, true},
		{"one just within memory", InMemory - 1, true},
		{"one that fills it goes to disk", InMemory, false},
		{"a large one goes to disk", 3*InMemory + 7, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, announced := range []int64{-1, tt.size, 3, 100 * tt.size} { // nobody has to say the truth
				dir := t.TempDir()
				s := open(t, dir)
				b, _, err := s.Hold(iotest.HalfReader(endless(tt.size)), announced)
				if err != nil {
					t.Fatal(err)
				}
				if (b.file == nil) != tt.inMemory {
					t.Errorf("in memory: %t, want %t", b.file == nil, tt.inMemory)
				}
				for range 2 { // it can be read again
					wantBytes(t, io.NewSectionReader(b, 0, b.Size), tt.size)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
				wantEmpty(t, dir)
			}
		})
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, rest, err := open(t, dir).Hold(endless(Max+12345), -1)
	if !errors.Is(err, ErrTooLarge) {
		t.Fatal(err)
	}
	wantBytes(t, rest, Max+12345)
	if err := rest.Close(); err != nil {
		t.Error(err)
	}
	wantEmpty(t, dir)
}

// All bodies together have one bound, and each gives back what it took.
func TestFull(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for _, tt := range []struct {
		name string
		body func() io.Reader
		want error
		rest int64 // that can be read all the same
	}{
		{"one that fits", func() io.Reader { return endless(2 * InMemory) }, nil, 0},
		{"one that has no room at all", func() io.Reader { return endless(5 * InMemory) }, ErrFull, 5 * InMemory},
		{"one whose sender leaves", func() io.Reader { return io.MultiReader(endless(2*InMemory), iotest.ErrReader(gone)) }, gone, 0},
		{"a small one needs none", func() io.Reader { return endless(InMemory - 1) }, nil, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := Open(t.TempDir(), 5*InMemory)
			if err != nil {
				t.Fatal(err)
			}
			other, _, err := s.Hold(endless(3*InMemory/2), -1)
			if err != nil {
				t.Fatal(err)
			}
			if s.Used() != 3*InMemory/2 {
				t.Errorf("a body of 1.5 MiB takes %d bytes", s.Used())
			}
			for range 3 { // what one took is there for the next
				b, rest, err := s.Hold(tt.body(), -1)
				if !errors.Is(err, tt.want) {
					t.Fatalf("%v, want %v", err, tt.want)
				}
				if rest != nil {
					wantBytes(t, rest, tt.rest)
					if s.Used() > 5*InMemory {
						t.Errorf("%d bytes are taken", s.Used())
					}
					err = rest.Close()
				} else if b != nil {
					err = errors.Join(b.Close(), b.Close()) // twice is once
				}
				if err != nil && tt.want != gone {
					t.Error(err)
				}
				if s.Used() != 3*InMemory/2 {
					t.Errorf("%d bytes are taken, want those of the other body", s.Used())
				}
			}
			if err := other.Close(); err != nil || s.Used() != 0 {
				t.Errorf("%d bytes are taken by nobody, %v", s.Used(), err)
			}
		})
	}
}

// A spool without room for the first MiB takes nothing, and loses nothing.
func TestFullAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s, err := Open(dir, InMemory-1)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, err := s.Hold(endless(3*InMemory), -1)
	if !errors.Is(err, ErrFull) {
		t.Fatal(err)
	}
	wantBytes(t, rest, 3*InMemory)
	if err := rest.Close(); err != nil || s.Used() != 0 {
		t.Errorf("%d bytes are taken, %v", s.Used(), err)
	}
	wantEmpty(t, dir)
}

func TestBrokenBody(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	for _, size := range []int64{10, 2 * InMemory} {
		dir := t.TempDir()
		_, _, err := open(t, dir).Hold(io.MultiReader(endless(size), iotest.ErrReader(gone)), -1)
		if !errors.Is(err, gone) {
			t.Errorf("%d bytes: %v, want the body's error", size, err)
		}
		wantEmpty(t, dir)
	}
}

func TestNoRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Hold(endless(2*InMemory), -1); err == nil || !strings.HasPrefix(err.Error(), "spool body: ") {
		t.Errorf("%v, want an error that says what went wrong", err)
	}
	if _, _, err := s.Hold(endless(10), 10); err != nil {
		t.Errorf("a small body needs no room: %v", err)
	}
}

func TestOpenRemovesWhatWasLeft(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"body-1.tmp", "other"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	open(t, dir)
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 1 || left[0].Name() != "other" {
		t.Errorf("left %v, %v, want what is not ours alone", left, err)
	}
}

func open(t *testing.T, dir string) *Spool {
	t.Helper()
	s, err := Open(dir, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantBytes(t *testing.T, r io.Reader, n int64) {
	t.Helper()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	want, _ := io.ReadAll(endless(n))
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes that differ from the %d of the body", len(got), n)
	}
}

func wantEmpty(t *testing.T, dir string) {
	t.Helper()
	left, err := os.ReadDir(dir)
	if err != nil || len(left) > 0 {
		t.Errorf("left in the spool: %v, %v", left, err)
	}
}
