package proxy

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/textproto"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// relay passes a response on to the client: each part as soon as it is there,
// and a broken one visibly broken.
type relay struct {
	http.ResponseWriter
	x      *exchange
	cancel context.CancelCauseFunc // frees the round trip; nil before it

	mu    sync.Mutex // guards what follows: 1xx responses come on the Transport's goroutine
	over  bool       // the final response is there
	hints int        // 1xx responses until now

	resp   *http.Response // whose trailer is complete after its body
	source io.ReadCloser  // the response's body, at the origin
	length int64          // that the origin announced; -1: unknown
	sent   int64
	wrote  bool
	broken error // why the origin's body ended early
	gone   error // why the client could not be written to
}

// informational passes a 1xx response on. 100 is left out: net/http sends it
// when the body is asked for.
func (w *relay) informational(code int, h textproto.MIMEHeader) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.hints++; w.hints > maxInformational {
		return errHints
	}
	// After an Expect net/http may be writing its 100 just now.
	if w.over || code == http.StatusContinue || !w.x.http11 || w.x.expects {
		return nil
	}
	own := w.Header()
	for k, v := range h {
		own[k] = v
	}
	stripHopByHop(own)
	delete(own, "Set-Cookie") // captured or withheld from final responses only
	stripProxy(own)
	w.ResponseWriter.WriteHeader(code)
	clear(own)
	return nil
}

// maxInformational bounds the 1xx responses to one request: as many as an origin
// has use for, and no endless row.
const maxInformational = 16

var errHints = errors.New("the origin sends 1xx responses without end")

// begun says whether anything came of the response.
func (w *relay) begun() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.hints > 0
}

func (w *relay) noMore1xx() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
}

// WriteHeader writes the final head. In a 101 it names the protocol again,
// which was stripped with the other fields of the hop.
func (w *relay) WriteHeader(status int) {
	if status == http.StatusSwitchingProtocols && w.x.upgrade != "" {
		w.Header()["Connection"], w.Header()["Upgrade"] = upgradeToken, []string{w.x.upgrade}
	}
	if _, ok := w.Header()["Content-Type"]; !ok {
		w.Header()["Content-Type"] = nil // net/http would guess one
	}
	if status == http.StatusNoContent || status == http.StatusNotModified {
		// A client of HTTP/2 would wait for that much; net/http's server
		// cuts it in HTTP/1.1 only.
		delete(w.Header(), "Content-Length")
	}
	w.x.closeAfter(w.Header())
	w.wrote = true
	w.x.status = status
	w.ResponseWriter.WriteHeader(status)
}

// Write counts and writes.
func (w *relay) Write(b []byte) (int, error) {
	if !w.wrote {
		w.WriteHeader(http.StatusOK)
	}
	n, err := w.ResponseWriter.Write(b)
	w.sent += int64(n)
	if err != nil {
		w.gone = err
	}
	return n, err
}

// Flush sends what is buffered.
func (w *relay) Flush() {
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		w.gone = err
	}
}

// body wraps the origin's body for the engine's copy.
func (w *relay) body(resp *http.Response) io.ReadCloser {
	if resp.Body == http.NoBody {
		return resp.Body
	}
	_ = cleanTrailer(resp.Trailer) // names that were announced
	w.resp, w.source, w.length = resp, resp.Body, resp.ContentLength
	return (*relayBody)(w)
}

// relayBody is the response's body as the engine sees it. io.Copy finds
// WriteTo, so the copying is ours.
type relayBody relay

// Read is not used where WriteTo is.
func (b *relayBody) Read(p []byte) (int, error) { return b.source.Read(p) }

// Close closes the origin's body.
func (b *relayBody) Close() error { return b.source.Close() }

// WriteTo copies the body to the client. Whenever more is to come, what is
// there is flushed: an event stream must not wait for its next event.
func (b *relayBody) WriteTo(io.Writer) (n int64, err error) {
	w := (*relay)(b)
	if w.x.status == http.StatusSwitchingProtocols {
		return 0, w.switchProtocols()
	}
	buf := buffers.Get().(*[bufferSize]byte)
	defer buffers.Put(buf)
	if w.length < 0 {
		w.Flush() // the head: the first event may be long in coming
	}
	for {
		r, rerr := b.source.Read(buf[:])
		if r > 0 {
			if _, err := w.Write(buf[:r]); err != nil {
				return w.sent, err
			}
			if rerr == nil && w.sent != w.length {
				w.Flush()
			}
		}
		switch {
		case errors.Is(rerr, io.EOF):
			if w.broken = cleanTrailer(w.resp.Trailer); w.broken != nil {
				return w.sent, w.broken
			}
			return w.sent, nil
		case rerr != nil:
			w.Flush() // what there is, be it the head alone
			w.broken = rerr
			return w.sent, rerr
		}
	}
}

// switchProtocols joins client and origin after a 101: a WebSocket, or any
// other protocol.
func (w *relay) switchProtocols() error {
	server, ok := w.source.(io.ReadWriteCloser)
	if !ok {
		w.broken = errors.New("switch protocols: the origin's connection can't be written to")
		return w.broken
	}
	conn, rw, err := http.NewResponseController(w.ResponseWriter).Hijack()
	if err != nil {
		w.broken = err
		return err
	}
	client := &clientConn{Conn: hijacked(conn)}
	if n := rw.Reader.Buffered(); n > 0 {
		ahead, _ := rw.Reader.Peek(n) // n bytes are there
		client.ahead = append([]byte(nil), ahead...)
	}
	defer client.Close()
	for _, c := range []io.Closer{client, server} {
		release, ok := w.x.p.conns.add(c, w.x.id.owner(w.x.key))
		if !ok {
			return net.ErrClosed
		}
		defer release()
	}
	if w.x.inUse() && w.x.load(w.x.key).Floor() > w.x.jar.Version() || !w.x.p.holds(w.x.id) {
		return errRevoked // since the request left: nobody else would close this
	}
	w.x.leaveTrace(trace.Open, time.Since(w.x.start))
	w.x.opened = true
	_, w.sent, err = pipe(client, server, w.x.p.timeouts.Tunnel)
	w.x.err = err
	return err
}

var errRevoked = errors.New("the session, or the client's token, was revoked")

// finish ends the exchange after the engine. A body that the origin broke off
// breaks off here, too: a clean end would make it look whole.
func (w *relay) finish() {
	if w.cancel != nil {
		w.cancel(nil)
	}
	if w.broken != nil {
		w.x.err = w.broken
		panic(http.ErrAbortHandler)
	}
	if w.gone != nil && w.x.err == nil {
		w.x.err = w.gone
	}
}
