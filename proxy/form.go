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
	upload *upload     // nil: it is a query
	body   *spool.Body // as it came
	plain  *spool.Body // unpacked; body where it was not packed
	query  string      // as it came
	length int64       // as the client announced it; -1: it did not
	fills  []*fill
	out    *formBody // that leaves; nil before it does
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
	if !ok || x.upload == nil || r.ContentLength > spool.Max {
		return nil
	}
	wants := x.wants(r)
	if len(wants) == 0 {
		return nil
	}
	body, rest, err := x.holdBody(r)
	switch {
	case errors.Is(err, spool.ErrTooLarge):
		r.Body = &formBody{Reader: rest, upload: x.upload, closer: rest}
		return nil
	case err != nil:
		return x.unheld(err)
	}
	x.form = &heldForm{upload: x.upload, body: body, plain: body, length: r.ContentLength}
	delete(r.Header, "Expect") // its 100 has been sent
	if encoding := strings.Join(r.Header["Content-Encoding"], ","); !unpack.Identity(encoding) {
		x.form.plain = x.unpackForm(encoding)
	}
	if x.form.plain != nil && !signed(r.Trailer) {
		x.form.find(kind, wants, x.form.plain, x.form.plain.Size)
	}
	x.form.pass(r)
	return nil
}

// holdBody reads the body, as long as it makes progress.
func (x *exchange) holdBody(r *http.Request) (*spool.Body, io.ReadCloser, error) {
	late := &headTimer{cancel: func(error) { _ = x.upload.Close() }, limit: x.p.timeouts.ResponseHead}
	late.timer = time.AfterFunc(late.limit, late.expired)
	defer late.stop()
	x.upload.head.Store(late)
	return x.p.spool.Hold(r.Body, r.ContentLength)
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

// unpackForm holds what a packed body unpacks to; nil where that can't be told,
// or is too much. Then the body goes on as it came.
func (x *exchange) unpackForm(encoding string) *spool.Body {
	packed, err := unpack.Reader(encoding, io.NewSectionReader(x.form.body, 0, x.form.body.Size))
	if err != nil {
		return nil
	}
	defer packed.Close()
	plain, rest, err := x.p.spool.Hold(packed, -1)
	if err != nil {
		if rest != nil {
			rest.Close()
		}
		return nil
	}
	return plain
}

// find notes which of the fields get a token.
func (h *heldForm) find(kind form.Type, wants []want, body io.ReaderAt, size int64) {
	var places [][]form.Edit
	for _, w := range wants {
		field, err := form.ParseField(w.field)
		if err != nil {
			continue // a page named it
		}
		found, err := kind.Scan(io.NewSectionReader(body, 0, size), field)
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
	if h.upload == nil {
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
	if h.upload == nil {
		r.URL.RawQuery = h.query
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
	if h == nil || h.upload != nil || h.out == nil {
		return false
	}
	h.out.state.CompareAndSwap(bodyHeld, bodyLeft)
	return true
}

func (h *heldForm) close() error {
	if h.body == nil {
		return nil
	}
	err := h.body.Close()
	if h.plain != nil && h.plain != h.body {
		err = errors.Join(err, h.plain.Close())
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
	upload *upload
	closer io.Closer // may be nil
	state  atomic.Int32
}

var errWithdrawn = errors.New("the form was withdrawn before it left")

func (b *formBody) Read(p []byte) (int, error) {
	if !b.state.CompareAndSwap(bodyHeld, bodyLeft) && b.state.Load() == bodyWithdrawn {
		return 0, errWithdrawn
	}
	n, err := b.Reader.Read(p)
	if h := b.upload.head.Load(); h != nil && !h.over.Load() {
		h.timer.Reset(h.limit)
	}
	return n, err
}

// Close gives up what is left of it.
func (b *formBody) Close() error {
	err := b.upload.Close()
	if b.closer != nil {
		err = errors.Join(err, b.closer.Close())
	}
	return err
}
