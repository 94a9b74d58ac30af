package http1

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
)

// response is the [http.ResponseWriter] of a Server. It frames and orders what
// it writes as net/http's does.
type response struct {
	c      *serving
	header http.Header
	head   bool // the request was HEAD

	status   int   // 0: the final head was not written yet
	length   int64 // that the head announces; -1: none
	written  int64
	framed   bool // the head is complete in c.out, or sent
	chunked  bool
	held     []byte   // a body whose length may still be told
	trailers []string // that the head announces
	last     bool     // the connection ends with this response
	err      error    // of the connection
}

// Header implements [http.ResponseWriter].
func (w *response) Header() http.Header { return w.header }

// WriteHeader implements [http.ResponseWriter]. The head waits for the body's
// beginning, but for a 1xx.
func (w *response) WriteHeader(status int) {
	if w.status != 0 {
		return
	}
	w.start(status)
	if status < 200 {
		w.appendFields()
		w.c.out = append(w.c.out, "\r\n"...)
		w.send()
		return
	}
	w.status = status
	if v := w.header["Content-Length"]; len(v) > 0 {
		if n, err := strconv.ParseInt(v[0], 10, 64); err == nil && n >= 0 {
			w.length = n
		}
	}
	for _, v := range w.header["Trailer"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = http.CanonicalHeaderKey(strings.Trim(name, " \t")); httpguts.ValidTrailerHeader(name) {
				w.trailers = append(w.trailers, name)
			}
		}
	}
	if w.c.phase.Load() == last {
		w.header["Connection"] = []string{"close"}
	}
	w.last = httpguts.HeaderValuesContainsToken(w.header["Connection"], "close")
	if _, ok := w.header["Date"]; !ok { // RFC 9110 section 6.6.1
		w.field("Date", time.Now().UTC().Format(http.TimeFormat))
	}
	w.appendFields()
	if w.length >= 0 && status != http.StatusNoContent {
		w.field("Content-Length", strconv.FormatInt(w.length, 10))
	}
	if w.length >= 0 || w.bodiless() && !w.head {
		w.frame()
	}
}

// bodiless: RFC 9112 section 6.3.
func (w *response) bodiless() bool {
	return w.head || w.status == http.StatusNoContent || w.status == http.StatusNotModified
}

// frame completes the head.
func (w *response) frame() {
	w.framed = true
	w.c.out = append(w.c.out, "\r\n"...)
}

// frameChunks completes the head of a body of unknown length.
func (w *response) frameChunks() {
	if w.head {
		w.frame()
		return
	}
	w.chunked = true
	w.field("Transfer-Encoding", "chunked")
	w.frame()
	held := w.held
	w.held = nil
	w.chunk(held)
}

// maxHeld is how much of a body is held back, as net/http does, for the length
// of a short one to be told.
const maxHeld = 2 << 10

// Write implements [http.ResponseWriter].
func (w *response) Write(b []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	switch {
	case w.status == http.StatusNoContent || w.status == http.StatusNotModified:
		return 0, http.ErrBodyNotAllowed
	case w.length >= 0 && w.written+int64(len(b)) > w.length:
		return 0, http.ErrContentLength
	}
	w.written += int64(len(b))
	switch {
	case w.head:
	case w.length >= 0:
		w.body(b)
	case !w.chunked && len(w.held)+len(b) <= maxHeld:
		w.held = append(w.held, b...)
	default:
		if !w.chunked {
			w.frameChunks()
		}
		w.chunk(b)
	}
	if w.err != nil {
		return 0, w.err
	}
	return len(b), nil
}

// chunk writes one chunk, unless it is empty: that would be the last.
func (w *response) chunk(b []byte) {
	if len(b) == 0 {
		return
	}
	var size [20]byte
	w.body(append(strconv.AppendInt(size[:0], int64(len(b)), 16), "\r\n"...))
	w.body(b)
	w.body([]byte("\r\n"))
}

// body fills the buffer, and sends what does not fit. What would fill an empty
// one goes past it.
func (w *response) body(b []byte) {
	if n := min(len(b), outSize-len(w.c.out)); len(w.c.out) > 0 && n > 0 {
		w.c.out = append(w.c.out, b[:n]...)
		b = b[n:]
	}
	if len(b) > 0 && len(w.c.out) >= outSize {
		w.send()
	}
	switch {
	case len(b) < outSize:
		w.c.out = append(w.c.out, b...)
	case w.err == nil:
		_, w.err = w.c.conn.Write(b)
	}
}

// FlushError sends what is there.
func (w *response) FlushError() error {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed {
		w.frameChunks()
	}
	w.send()
	return w.err
}

// Flush implements [http.Flusher].
func (w *response) Flush() { _ = w.FlushError() }

func (w *response) send() {
	if len(w.c.out) > 0 && w.err == nil {
		_, w.err = w.c.conn.Write(w.c.out)
	}
	w.c.out = w.c.buf[:0]
}

// finish ends the response, and says whether the connection may go on.
func (w *response) finish() bool {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.framed && len(w.trailers) > 0 {
		w.frameChunks()
	}
	if !w.framed {
		if !w.head || w.written > 0 && w.written <= maxHeld {
			w.field("Content-Length", strconv.FormatInt(w.written, 10))
		}
		w.frame()
		w.body(w.held)
	}
	if w.chunked {
		w.body([]byte("0\r\n"))
		w.appendTrailer()
		w.c.out = append(w.c.out, "\r\n"...)
	}
	w.send()
	short := w.length >= 0 && w.written != w.length && !w.bodiless()
	return w.err == nil && !w.last && !short
}

// start writes the status line.
func (w *response) start(status int) {
	w.c.out = append(w.c.out, "HTTP/1.1 "...)
	w.c.out = strconv.AppendInt(w.c.out, int64(status), 10)
	w.c.out = append(w.c.out, ' ')
	if text := http.StatusText(status); text != "" {
		w.c.out = append(w.c.out, text...)
	} else {
		w.c.out = append(w.c.out, "status code "...)
		w.c.out = strconv.AppendInt(w.c.out, int64(status), 10)
	}
	w.c.out = append(w.c.out, "\r\n"...)
}

// appendFields writes the fields but for those that frame the message, by name.
func (w *response) appendFields() {
	var room [32]string
	names := room[:0]
	for name := range w.header {
		switch {
		case name == "Content-Length", name == "Transfer-Encoding", strings.HasPrefix(name, http.TrailerPrefix):
		case httpguts.ValidHeaderFieldName(name):
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range w.header[name] {
			w.field(name, v)
		}
	}
}

// appendTrailer writes the fields that are known only now.
func (w *response) appendTrailer() {
	for name, values := range w.header {
		plain, prefixed := strings.CutPrefix(name, http.TrailerPrefix)
		if !prefixed && !slices.Contains(w.trailers, name) || !httpguts.ValidHeaderFieldName(plain) {
			continue
		}
		for _, v := range values {
			w.field(plain, v)
		}
	}
}

// field writes one line. A line break in a value becomes a space.
func (w *response) field(name, value string) {
	b := append(w.c.out, name...)
	b = append(b, ": "...)
	at := len(b)
	b = append(b, strings.Trim(value, " \t\r\n")...)
	for i, c := range b[at:] {
		if c == '\r' || c == '\n' {
			b[at+i] = ' '
		}
	}
	w.c.out = append(b, "\r\n"...)
}
