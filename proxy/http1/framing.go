package http1

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// Framing follows the messages in one direction of an HTTP/1.1 connection, as
// their bytes come, to know where each ends. The zero Framing follows requests.
//
// It notes requests that could be read in two ways. net/http takes those: where
// a Transfer-Encoding contradicts a Content-Length it drops the latter, it
// joins folded lines, and behind a broken chunk it reads on, as if there another
// request began. RFC 9112 sections 5.2, 6.1 and 6.3 want them refused, or the
// connection closed: they are what request smuggling is made of (section 11.2).
type Framing struct {
	Heads int   // complete ones
	Fault error // of the message after those; nothing is followed any more

	responses bool
	head      bool // the response is to HEAD
	status    int  // of the response

	part part
	left uint64 // bytes of the body or chunk under way
	line []byte // the line under way, as far as it came with earlier bytes

	// of the head under way
	http10, chunked, sized bool
	length                 uint64
}

// part is what the next byte belongs to.
type part int

const (
	startLine part = iota
	fieldLine
	bodyBytes
	chunkSize
	chunkBytes // and the line end behind them
	trailerLine
	untilClose
)

// What lets a request be read in two ways.
var (
	ErrTwoFramings = errors.New("it has both a Content-Length and a Transfer-Encoding")
	ErrOldChunked  = errors.New("HTTP/1.0 knows no Transfer-Encoding")
	ErrLength      = errors.New("it has more than one Content-Length, or one that is no number")
	ErrFolded      = errors.New("a field goes on in a second line")
	ErrHost        = errors.New("its Host field is no host")
	ErrLost        = errors.New("the body before it was malformed")
)

// maxLine is longer than any line that net/http's server takes.
const maxLine = 1 << 20

// Next follows b up to the end of the message under way. It returns how many
// bytes that is, and whether the message ended there.
func (f *Framing) Next(b []byte) (n int, ended bool) {
	for n < len(b) && !ended && f.Fault == nil {
		rest := b[n:]
		switch f.part {
		case untilClose:
			return len(b), false
		case bodyBytes, chunkBytes:
			k := min(f.left, uint64(len(rest)))
			n += int(k)
			if f.left -= k; f.left > 0 {
				continue
			}
			if ended = f.part == bodyBytes; ended {
				f.part = startLine
			} else {
				f.part = chunkSize
			}
			continue
		}
		end := bytes.IndexByte(rest, '\n')
		if end < 0 {
			if f.line = append(f.line, rest...); len(f.line) > maxLine {
				f.Fault = ErrLost
			}
			return len(b), false
		}
		n += end + 1
		line := rest[:end]
		if f.line != nil {
			line, f.line = append(f.line, line...), nil
		}
		ended = f.take(bytes.TrimSuffix(line, []byte{'\r'}))
	}
	if f.Fault != nil {
		n = len(b)
	}
	return n, ended
}

// Within says whether a message has begun that has not ended.
func (f *Framing) Within() bool { return f.part != startLine || len(f.line) > 0 || f.Fault != nil }

// WithinHead says whether a head has begun that has not ended.
func (f *Framing) WithinHead() bool {
	return f.part == fieldLine || f.part == startLine && len(f.line) > 0
}

// take follows one line, and says whether the message ended with it.
func (f *Framing) take(line []byte) (ended bool) {
	switch f.part {
	case startLine:
		if len(line) > 0 { // RFC 9112 section 2.2: an empty one may come before
			f.start(line)
		}
	case fieldLine:
		if len(line) == 0 {
			return f.endHead()
		}
		f.field(line)
	case chunkSize:
		digits, _, _ := bytes.Cut(line, []byte{';'})
		size, err := strconv.ParseUint(string(bytes.TrimRight(digits, " \t")), 16, 63)
		switch {
		case err != nil:
			f.Fault = ErrLost
		case size == 0:
			f.part = trailerLine
		default:
			f.left, f.part = size+2, chunkBytes
		}
	case trailerLine:
		if len(line) == 0 {
			f.part = startLine
			return true
		}
	}
	return false
}

func (f *Framing) start(line []byte) {
	f.part = fieldLine
	f.chunked, f.sized, f.length = false, false, 0
	if !f.responses {
		f.http10 = bytes.HasSuffix(line, []byte(" HTTP/1.0"))
		return
	}
	version, rest, _ := bytes.Cut(line, []byte{' '})
	code, _, _ := bytes.Cut(bytes.TrimLeft(rest, " "), []byte{' '})
	f.http10 = string(version) == "HTTP/1.0"
	f.status, _ = strconv.Atoi(string(code)) // no status is for net/http to refuse
}

func (f *Framing) field(line []byte) {
	switch line[0] {
	case ' ', '\t':
		if !f.responses { // in responses RFC 9112 section 5.2 lets a proxy join the lines
			f.Fault = ErrFolded
		}
	case 'c', 'C':
		if value, ok := valueOf(line, "content-length"); ok {
			n, err := strconv.ParseUint(value, 10, 63)
			if err != nil || f.sized && (!f.responses || n != f.length) {
				f.Fault = ErrLength
			}
			f.sized, f.length = true, n
		}
	case 'h', 'H': // RFC 9112 section 3.2: even where the target is a URL, and Host means nothing
		if value, ok := valueOf(line, "host"); ok && strings.ContainsAny(value, "@/") && !f.responses {
			f.Fault = ErrHost
		}
	case 't', 'T':
		if _, ok := valueOf(line, "transfer-encoding"); ok {
			f.chunked = true
		}
	}
}

func valueOf(line []byte, name string) (string, bool) {
	if len(line) <= len(name) || line[len(name)] != ':' || !strings.EqualFold(string(line[:len(name)]), name) {
		return "", false
	}
	return string(bytes.Trim(line[len(name)+1:], " \t")), true
}

// interim says whether the response is one before another.
func (f *Framing) interim() bool { return f.status/100 == 1 }

// endHead decides by RFC 9112 section 6.3 how the body ends.
func (f *Framing) endHead() (ended bool) {
	switch {
	case f.responses:
		if f.http10 {
			f.chunked = false // as net/http does
		}
	case f.chunked && f.sized:
		f.Fault = ErrTwoFramings
		return false
	case f.chunked && f.http10:
		f.Fault = ErrOldChunked
		return false
	}
	f.Heads++
	switch {
	case f.responses && (f.head || f.interim() || f.status == 204 || f.status == 304):
		f.part = startLine
		return true
	case f.chunked:
		f.part = chunkSize
	case f.length > 0:
		f.left, f.part = f.length, bodyBytes
	case f.responses && !f.sized:
		f.part = untilClose
	default:
		f.part = startLine
		return true
	}
	return false
}
