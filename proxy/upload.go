package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// headTimer watches a request whose body may make no progress.
type headTimer struct {
	limit time.Duration
	timer *time.Timer
	over  atomic.Bool // the head is there; an upload may still go on, and restart the timer
}

// start has expired called where nothing moves for that long. It may be under
// way when the timer is stopped, and is to look at over.
func (h *headTimer) start(limit time.Duration, expired func()) {
	h.limit, h.timer = limit, time.AfterFunc(limit, expired)
}

func (h *headTimer) stop() {
	h.over.Store(true)
	h.timer.Stop()
}

// upload is a request's body on its way. Each read restarts the timer.
type upload struct {
	io.ReadCloser
	head    atomic.Pointer[headTimer] // nil until the request is sent
	trailer http.Header               // complete at the end of the body
	hangUp  func() error              // ends a read under way, in HTTP/1.1
	done    atomic.Bool               // it is read to its end
	fault   atomic.Pointer[error]     // why it can't be
	lost    atomic.Bool               // the origin has gone before its end
}

// takeUpload wraps the body of r.
func takeUpload(w http.ResponseWriter, r *http.Request, m mode) *upload {
	if m != modeH2 {
		// Without it a 413 that comes before the end of an upload, or a
		// bidirectional stream, would wait for the upload.
		_ = http.NewResponseController(w).EnableFullDuplex()
		if r.Trailer == nil && r.ContentLength < 0 {
			// Trailers that no field announces are put in this map, if
			// it is there, for the copy of r that is sent to see them.
			r.Trailer = http.Header{}
		}
	}
	u := &upload{ReadCloser: r.Body, trailer: r.Trailer}
	if m != modeH2 {
		u.hangUp = func() error { return http.NewResponseController(w).SetReadDeadline(longAgo) }
	}
	r.Body = u
	return u
}

func (u *upload) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	u.progress()
	switch {
	case errors.Is(err, io.EOF):
		if terr := cleanTrailer(u.trailer); terr != nil {
			u.fault.CompareAndSwap(nil, &terr)
			return n, uploadError{terr}
		}
		u.done.Store(true)
	case err != nil:
		fault := err // err itself changes below, while others look at it
		u.fault.CompareAndSwap(nil, &fault)
		err = uploadError{fault}
	}
	return n, err
}

// progress restarts the timer.
func (u *upload) progress() {
	if h := u.head.Load(); h != nil && !h.over.Load() {
		h.timer.Reset(h.limit)
	}
}

// Close gives the rest of the body up. net/http's own Close would wait for a
// client that is silent, and the answer with it; the connection ends after the
// answer anyway, see closeAfter.
func (u *upload) Close() error {
	switch {
	case u.hangUp == nil:
		return u.ReadCloser.Close()
	case u.done.Load():
		return nil
	}
	return u.hangUp()
}

// abandon ends the upload of a request whose origin has gone by itself, and not
// because of a fault in the body.
func (u *upload) abandon() {
	if u.fault.Load() != nil {
		return
	}
	u.lost.Store(true)
	_ = u.Close() // the connection ends anyway
}

var longAgo = time.Unix(1, 0)

// closeAfter ends the client's connection with this answer where the tunnel's
// session was revoked, or where the request's body has not been read to its end:
// what comes next on it is no request. (And net/http panics when it goes on there
// after full duplex, go.dev/issue/68560.) In HTTP/2 the field becomes a GOAWAY.
func (x *exchange) closeAfter(h http.Header) {
	c, tunnel := x.Context.Value(connectionKey{}).(*connection)
	if tunnel && c.inner.over.Load() || x.upload != nil && x.mode != modeH2 && !x.upload.done.Load() {
		h["Connection"] = []string{"close"}
	}
}

// malformed says whether the client is at fault for a body that can't be read,
// and still there to be told.
func (u *upload) malformed() bool {
	if u == nil || u.fault.Load() == nil {
		return false
	}
	err := *u.fault.Load()
	var network net.Error
	return !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, context.Canceled) && !errors.As(err, &network)
}

// uploadError is a fault in what the client sends as a body.
type uploadError struct{ error }

func (e uploadError) Unwrap() error { return e.error }

// cleanTrailer leaves in a trailer what RFC 9110 section 6.5.1 lets stand
// there: nothing that frames, routes or authenticates a message whose head was
// judged long ago.
func cleanTrailer(t http.Header) error {
	for name := range t {
		switch {
		case !httpguts.ValidHeaderFieldName(name): // net/http takes what has a colon
			return errTrailer
		case !httpguts.ValidTrailerHeader(name), name == "Cookie", name == "Set-Cookie", strings.HasPrefix(name, "Proxy-"), name == sessionHeader:
			delete(t, name)
		}
	}
	return nil
}

var errTrailer = errors.New("a trailer field has no valid name")
