package proxy

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/form"
	"github.com/sessionproxy/sessionproxy/internal/spool"
	"github.com/sessionproxy/sessionproxy/proxy/unpack"
)

// heldForm is a form that was read to its end, or the query of one.
type heldForm struct {
	upload *upload       // nil: the request has no body
	body   *spool.Body   // as it came; nil: the form is a query, or could not be held
	plain  *spool.Body   // unpacked; body where it was not packed
	rest   io.ReadCloser // the whole, where it could not be held
	query  string        // as it came
	length int64         // as the client announced it; -1: it did not
	fills  []*fill
	out    *formBody // that leaves; nil before it does
	late   headTimer // while it is read
}

// holdForm looks at the fields of a form. Only what may need a token is held;
// all other bodies go on as they come.
func (x *exchange) holdForm(r *http.Request) *refusal {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		if wants := x.wants(r); len(wants) > 0 {
			kind, _ := form.TypeOf("application/x-www-form-urlencoded")
			h := &heldForm{query: r.URL.RawQuery}
			if h.find(kind, wants, strings.NewReader(h.query), int64(len(h.query))); len(h.fills) > 0 {
				x.form = h
			}
		}
		return nil
	}
	if len(r.Header["Content-Type"]) != 1 {
		return nil // of two, each origin reads another
	}
	kind, ok := form.TypeOf(r.Header["Content-Type"][0])
	if !ok || r.ContentLength > spool.Max {
		return nil
	}
	wants := x.wants(r)
	if len(wants) == 0 {
		return nil
	}
	h := &heldForm{upload: x.upload, length: r.ContentLength}
	x.form = h
	err := x.holdBody(r)
	switch {
	case errors.Is(err, spool.ErrFull) && slices.ContainsFunc(wants, want.rejects):
		return spoolFull(err)
	case h.rest != nil:
		h.out = &formBody{Reader: h.rest, upload: h.upload}
		r.Body = h.out
		return nil
	case err != nil:
		return x.unheld(err)
	}
	delete(r.Header, "Expect") // its 100 has been sent
	if encoding := strings.Join(r.Header["Content-Encoding"], ","); unpack.Identity(encoding) {
		h.plain = h.body
	} else if h.plain, err = x.unpackForm(encoding); errors.Is(err, spool.ErrFull) && slices.ContainsFunc(wants, want.rejects) {
		return spoolFull(err)
	}
	if h.plain != nil && !signed(r.Trailer) {
		h.find(kind, wants, h.plain, h.plain.Size)
	}
	h.pass(r)
	return nil
}

// holdBody reads the body, as long as it makes progress.
func (x *exchange) holdBody(r *http.Request) (err error) {
	h, body := x.form, r.Body
	if h.upload == nil {
		body = http.NoBody
	} else {
		h.late.start(x.p.timeouts.ResponseHead, func() {
			if !h.late.over.Load() {
				_ = h.upload.Close()
			}
		})
		defer h.late.stop()
		h.upload.head.Store(&h.late)
	}
	h.body, h.rest, err = x.p.spool.Hold(body, h.length)
	return err
}

// spoolFull is the answer to a form that may need a token, and for which there
// is no room until it has one.
func spoolFull(err error) *refusal {
	ref := refuse(http.StatusServiceUnavailable, "http_request_denied", "spool_full",
		"The proxy holds as much of large forms, while they wait for captcha tokens, as it may. Try again soon; if this is often so, raise spool.max_mib in its configuration.")
	ref.cause = err
	ref.header = http.Header{"Retry-After": {"5"}}
	return ref
}

// unheld sorts a body that could not be held: by the client's fault, or ours.
func (x *exchange) unheld(err error) *refusal {
	if _, theirs := errors.AsType[uploadError](err); theirs || x.Err() != nil {
		return x.failure(err)
	}
	x.err = err
	ref := refuse(http.StatusInternalServerError, "proxy_internal_error", "spool", "The proxy could not keep the form while it gets a captcha token; its log says why.")
	ref.cause = err
	return ref
}

// unpackForm holds what a packed body unpacks to. Where that can't be told, or is
// too much, the body goes on as it came.
func (x *exchange) unpackForm(encoding string) (*spool.Body, error) {
	packed, err := unpack.Reader(encoding, io.NewSectionReader(x.form.body, 0, x.form.body.Size))
	if err != nil {
		return nil, err
	}
	defer packed.Close()
	plain, rest, err := x.p.spool.Hold(packed, -1)
	if rest != nil {
		rest.Close()
	}
	return plain, err
}

// find notes which of the fields get a token.
func (h *heldForm) find(kind form.Type, wants []want, body io.ReaderAt, size int64) {
	var places [][]form.Edit
	for _, w := range wants {
		field, err := form.ParseField(w.field)
		if err != nil {
			continue // a page named it
		}
		found, err := kind.Scan(body, size, field)
		if err != nil || !w.rule.takes(found.State) {
			continue
		}
		place, err := found.Fill("")
		if err != nil {
			continue
		}
		// Two rules may name one place: the first has it.
		if _, free := form.Merge(append(places, place)...); free {
			places = append(places, place)
			h.fills = append(h.fills, &fill{want: w, found: found})
		}
	}
}

// write has the form leave with the tokens. What was packed leaves unpacked:
// each origin that takes a packed body takes that too, and the bytes that were
// not touched are then the client's own.
func (h *heldForm) write(r *http.Request) error {
	all := make([][]form.Edit, len(h.fills))
	for i, f := range h.fills {
		var err error
		if all[i], err = f.found.Fill(f.token.Value); err != nil {
			return err
		}
	}
	edits, _ := form.Merge(all...) // find has seen that it can be done
	if h.body == nil {
		patched, size := form.Patch(strings.NewReader(h.query), int64(len(h.query)), edits)
		h.out = &formBody{Reader: patched}
		var b strings.Builder
		b.Grow(int(size))
		_, _ = io.Copy(&b, patched) // from memory
		r.URL.RawQuery = b.String()
		return nil
	}
	patched, size := form.Patch(h.plain, h.plain.Size, edits)
	if h.plain != h.body {
		delete(r.Header, "Content-Encoding")
	}
	h.leave(r, patched, size)
	return nil
}

// pass has the form leave as it came.
func (h *heldForm) pass(r *http.Request) {
	switch {
	case h.body == nil:
		r.URL.RawQuery = h.query
		return
	case h.upload == nil:
		r.Body, r.ContentLength = http.NoBody, 0
		return
	}
	h.leave(r, io.NewSectionReader(h.body, 0, h.body.Size), h.body.Size)
}

func (h *heldForm) leave(r *http.Request, body io.Reader, size int64) {
	h.out = &formBody{Reader: body, upload: h.upload}
	r.Body = h.out
	if h.length >= 0 { // else it is chunked, and may have a trailer
		r.ContentLength = size
		if len(r.Header["Content-Length"]) > 0 {
			delete(r.Header, "Content-Length") // net/http writes it
		}
	}
}

// fresh says whether the form has its tokens, they are good, and no byte of it
// has left.
func (h *heldForm) fresh() bool {
	if h.out == nil || h.out.state.Load() != bodyHeld {
		for _, f := range h.fills {
			f.got = false
		}
		return false
	}
	return !slices.ContainsFunc(h.fills, func(f *fill) bool { return !f.got || !time.Now().Before(f.token.Expires) })
}

// withdraw keeps the form from leaving, unless it has begun to.
func (h *heldForm) withdraw() bool {
	return h.out == nil || h.out.state.CompareAndSwap(bodyHeld, bodyWithdrawn)
}

// sentAsQuery says whether tokens leave in a query, and notes that they do. A
// request without a body would be repeated with them where a connection that
// was idle breaks.
func (h *heldForm) sentAsQuery() bool {
	if h == nil || h.upload != nil || h.body != nil || h.out == nil {
		return false
	}
	h.out.state.CompareAndSwap(bodyHeld, bodyLeft)
	return true
}

func (h *heldForm) close() (err error) {
	if h.rest != nil {
		err = h.rest.Close()
	}
	for _, b := range []*spool.Body{h.body, h.plain} {
		if b != nil {
			err = errors.Join(err, b.Close())
		}
	}
	return err
}

// The states of a formBody.
const (
	bodyHeld int32 = iota
	bodyLeft
	bodyWithdrawn
)

// formBody is a body that leaves after it was held. Each read restarts the timer
// of the upload.
type formBody struct {
	io.Reader
	upload *upload // nil: the request came without a body
	state  atomic.Int32
}

var errWithdrawn = errors.New("the form was withdrawn before it left")

func (b *formBody) Read(p []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyHeld, bodyLeft) && b.state.Load() == bodyWithdrawn {
		return 0, errWithdrawn
	}
	n, err := b.Reader.Read(p)
	if b.upload != nil {
		b.upload.progress()
	}
	return n, err
}

// Close gives up what is left of it.
func (b *formBody) Close() error {
	if b.upload == nil {
		return nil
	}
	return b.upload.Close()
}
