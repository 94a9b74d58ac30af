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
)

// Bounds of a body, in bytes.
const (
	InMemory = 1 << 20  // what is kept in memory
	Max      = 64 << 20 // what is kept at all
)

// ErrTooLarge says that a body is larger than Max.
var ErrTooLarge = errors.New("the body is larger than 64 MiB")

const pattern = "body-*.tmp"

// Spool is a directory for bodies.
type Spool struct{ dir string }

// Open makes the directory, for its owner alone, and removes what an earlier
// process left there.
func Open(dir string) (*Spool, error) {
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
	return &Spool{dir: dir}, nil
}

// Body is a body that was read to its end. It is to be closed.
type Body struct {
	io.ReaderAt
	Size int64

	memory bytes.Reader
	file   *os.File // nil: it is in memory
}

// firstRoom bounds what is allocated on a client's mere word.
const firstRoom = 64 << 10

// Hold reads r to its end. announced is how much it is said to be; -1: nobody
// says. Where it is beyond Max it returns ErrTooLarge and a reader of the whole:
// what was read, then the rest of r; it closes what it took when that is read or
// given up.
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

// spill goes on in a file.
func (s *Spool) spill(first []byte, rest io.Reader) (*Body, io.ReadCloser, error) {
	f, err := s.create()
	if err != nil {
		return nil, nil, fmt.Errorf("spool body: %w", err)
	}
	b := &Body{ReaderAt: f, file: f}
	b.Size, err = io.Copy(f, io.LimitReader(io.MultiReader(bytes.NewReader(first), rest), Max+1))
	switch {
	case err != nil:
		_ = b.Close() // it is lost anyway
		return nil, nil, fmt.Errorf("spool body: %w", err)
	case b.Size > Max:
		return nil, &whole{Reader: io.MultiReader(io.NewSectionReader(f, 0, b.Size), rest), body: b}, ErrTooLarge
	}
	return b, nil, nil
}

func (s *Spool) create() (*os.File, error) {
	f, err := os.CreateTemp(s.dir, pattern) // 0600
	if err != nil {
		return nil, err
	}
	_ = os.Remove(f.Name()) // not where open files can't be removed; Close does it there
	return f, nil
}

// Close frees the body.
func (b *Body) Close() error {
	if b.file == nil {
		return nil
	}
	err := b.file.Close()
	if rerr := os.Remove(b.file.Name()); rerr != nil && !errors.Is(rerr, os.ErrNotExist) {
		err = errors.Join(err, rerr)
	}
	return err
}

// whole is a body that was too large to hold.
type whole struct {
	io.Reader
	body *Body
}

// Close frees what was held.
func (w *whole) Close() error { return w.body.Close() }
