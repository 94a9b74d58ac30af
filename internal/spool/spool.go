// Package spool holds bodies that have to be read to their end before anything
// of them is sent: small ones in memory, larger ones in a file.
//
// The files have no names: the system frees them when the process ends, however
// it does. Where a system can't do that, the next Open removes what was left.
package spool

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
)

// Bounds of a body, in bytes.
const (
	InMemory = 1 << 20  // what is kept in memory
	Max      = 64 << 20 // what is kept at all
)

// ErrTooLarge says that a body is larger than Max, ErrFull that all files
// together have no room for it.
var (
	ErrTooLarge = errors.New("the body is larger than 64 MiB")
	ErrFull     = errors.New("the spool is full")
)

const pattern = "body-*.tmp"

// Spool is a directory for bodies.
type Spool struct {
	dir  string
	max  int64        // of all files together, in bytes
	used atomic.Int64 // of it; never more than max
}

// Open makes the directory, for its owner alone, and removes what an earlier
// process left there. Its files hold max bytes together, and no more.
func Open(dir string, max int64) (*Spool, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	left, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		return nil, fmt.Errorf("open spool: %w", err)
	}
	for _, name := range left {
		if err := os.Remove(name); err != nil {
			return nil, fmt.Errorf("open spool: %w", err)
		}
	}
	return &Spool{dir: dir, max: max}, nil
}

// Used is how many bytes of the directory are taken.
func (s *Spool) Used() int64 { return s.used.Load() }

// take takes n bytes of the directory, if they are there.
func (s *Spool) take(n int64) bool {
	if s.used.Add(n) <= s.max {
		return true
	}
	s.used.Add(-n)
	return false
}

// Body is a body that was read to its end. It is to be closed.
type Body struct {
	io.ReaderAt
	Size int64

	memory bytes.Reader
	file   *os.File // nil: it is in memory
	spool  *Spool   // that the file is in
	taken  int64    // of it
}

// firstRoom bounds what is allocated on a client's mere word.
const firstRoom = 64 << 10

// Hold reads r to its end. announced is how much it is said to be; -1: nobody
// says. With ErrTooLarge, for a body beyond Max, and with ErrFull it returns a
// reader of the whole: what was read, then the rest of r. What was held until
// then is held until that is closed.
func (s *Spool) Hold(r io.Reader, announced int64) (*Body, io.ReadCloser, error) {
	room := int64(512)
	if announced >= 0 {
		room = min(announced+1, firstRoom) // one more, to see its end
	}
	small := make([]byte, 0, room)
	for {
		n, err := r.Read(small[len(small):cap(small)])
		small = small[:len(small)+n]
		switch {
		case errors.Is(err, io.EOF):
			b := &Body{Size: int64(len(small))}
			b.memory.Reset(small)
			b.ReaderAt = &b.memory
			return b, nil, nil
		case err != nil:
			return nil, nil, fmt.Errorf("read body: %w", err)
		case len(small) == InMemory:
			return s.spill(small, r)
		case len(small) == cap(small):
			small = append(make([]byte, 0, min(2*cap(small), InMemory)), small...)
		}
	}
}

// spill goes on in a file. Room is taken before it is filled, so that nothing
// that was read has no place.
func (s *Spool) spill(first []byte, rest io.Reader) (*Body, io.ReadCloser, error) {
	b := &Body{spool: s, Size: int64(len(first))}
	if !s.take(b.Size) {
		return nil, &whole{io.MultiReader(bytes.NewReader(first), rest), b}, ErrFull
	}
	b.taken = b.Size
	err := b.create(first)
	for err == nil && b.Size <= Max {
		step := min(InMemory, Max+1-b.Size)
		if !s.take(step) {
			return nil, &whole{io.MultiReader(io.NewSectionReader(b, 0, b.Size), rest), b}, ErrFull
		}
		b.taken += step
		var n int64
		n, err = io.CopyN(b.file, rest, step)
		b.Size += n
	}
	switch {
	case err == nil:
		return nil, &whole{io.MultiReader(io.NewSectionReader(b, 0, b.Size), rest), b}, ErrTooLarge
	case errors.Is(err, io.EOF):
		s.used.Add(b.Size - b.taken)
		b.taken = b.Size
		return b, nil, nil
	}
	_ = b.Close() // it is lost anyway
	return nil, nil, fmt.Errorf("spool body: %w", err)
}

// create makes the body's file, which begins with what was read.
func (b *Body) create(first []byte) error {
	f, err := os.CreateTemp(b.spool.dir, pattern) // 0600
	if err != nil {
		return err
	}
	b.file, b.ReaderAt = f, f
	_ = os.Remove(f.Name()) // not where open files can't be removed; Close does it there
	_, err = f.Write(first)
	return err
}

// Close frees the body. To close it again does nothing.
func (b *Body) Close() error {
	if b.spool != nil {
		b.spool.used.Add(-b.taken)
		b.taken = 0
	}
	f := b.file
	if f == nil {
		return nil
	}
	b.file = nil
	err := f.Close()
	if rerr := os.Remove(f.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// whole is a body that could not be held.
type whole struct {
	io.Reader
	body *Body
}

// Close frees what was held.
func (w *whole) Close() error { return w.body.Close() }
