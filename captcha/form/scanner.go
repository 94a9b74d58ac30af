package form

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

// window is what a scanner keeps of a body: more than a field's name, a
// boundary, or a line of a part's head may be long.
const window = 8 << 10

// scanner reads a body and counts.
type scanner struct {
	*bufio.Reader
	section  io.SectionReader // what it reads
	boundary string           // of a multipart form
	at       int64            // of the next byte
}

func newScanner() *scanner { return &scanner{Reader: bufio.NewReaderSize(nil, window)} }

// line is what was read up to a delimiter, and with it.
type line struct {
	text  []byte // of it, at most a window; the next read overwrites it
	n     int64  // its length
	crlf  bool   // it ends so
	ended bool   // by the delimiter, and not by the body's end
}

func (l line) whole() bool { return l.n == int64(len(l.text)) }

// until reads up to and with delim, or to the end.
func (s *scanner) until(delim byte) (line, error) {
	text, err := s.ReadSlice(delim)
	l := line{text: text, n: int64(len(text))}
	tail := text
	for errors.Is(err, bufio.ErrBufferFull) {
		if l.whole() {
			l.text = bytes.Clone(text)
		}
		before := tail[len(tail)-1]
		tail, err = s.ReadSlice(delim)
		l.n += int64(len(tail))
		if len(tail) == 1 {
			tail = []byte{before, tail[0]}
		}
	}
	s.at += l.n
	if err != nil && !errors.Is(err, io.EOF) {
		return line{}, err
	}
	l.crlf = bytes.HasSuffix(tail, []byte("\r\n"))
	l.ended = err == nil
	return l, nil
}

// peek is the next byte, or 0 at the end.
func (s *scanner) peek() (byte, error) {
	b, err := s.Peek(1)
	switch {
	case len(b) == 1:
		return b[0], nil
	case errors.Is(err, io.EOF):
		return 0, nil
	}
	return 0, err
}

// next reads a byte; the end of the body is ErrForm.
func (s *scanner) next() (byte, error) {
	b, err := s.ReadByte()
	if errors.Is(err, io.EOF) {
		return 0, ErrForm
	}
	if err == nil {
		s.at++
	}
	return b, err
}
