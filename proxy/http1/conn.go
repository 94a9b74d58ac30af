package http1

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"
)

// conn is one connection to an origin. It belongs to one request at a time,
// from get until its response's body has ended.
type conn struct {
	net.Conn // raw, or TLS over it

	t   *Transport
	key string
	raw net.Conn // under TLS
	br  *bufio.Reader
	out []byte // the request's head, its memory kept

	quiet func() bool // looks at raw

	left   int64 // bytes that the response's head may still have
	reused bool
	silent bool // no byte of this response has come yet
	since  time.Time

	stop func() bool // no longer watches the request's context
}

// readBuffer holds most response heads whole.
const readBuffer = 4 << 10

func newConn(t *Transport, key string, nc net.Conn) *conn {
	c := &conn{t: t, key: key, Conn: nc, raw: under(nc)}
	c.quiet = quietly(c.raw)
	c.br = bufio.NewReaderSize((*headReader)(c), readBuffer)
	return c
}

// headReader reads from the connection, and bounds what a head may be.
type headReader conn

func (h *headReader) Read(b []byte) (int, error) {
	if h.left <= 0 {
		return 0, errHeadTooLarge
	}
	n, err := h.Conn.Read(b[:min(int64(len(b)), h.left)])
	if n > 0 {
		h.silent = false
	}
	h.left -= int64(n)
	return n, err
}

// unbounded is the limit of a body.
const unbounded = int64(1) << 62

// clean says whether an idle connection may be used again: its peer has neither
// closed it nor sent a byte, which nobody has asked for and which must not be
// taken for the next response.
func (c *conn) clean() bool {
	if c.br.Buffered() > 0 || !c.quiet() {
		return false
	}
	if c.Conn == c.raw {
		return true
	}
	// TLS may have read ahead. With the deadline over, it can only return
	// what it holds.
	c.raw.SetReadDeadline(longAgo)
	c.left = unbounded
	_, err := c.br.Peek(1)
	return errors.Is(err, os.ErrDeadlineExceeded)
}

var longAgo = time.Unix(1, 0)

// roundTrip writes the request and reads the response's head. After an error
// the connection is of no more use.
func (c *conn) roundTrip(r *http.Request) (resp *http.Response, err error) {
	ctx := r.Context()
	c.stop = context.AfterFunc(ctx, func() { c.raw.Close() })
	defer func() {
		if err == nil {
			return
		}
		c.stop()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else if errors.Is(err, os.ErrDeadlineExceeded) {
			err = ErrHeadTimeout
		}
	}()
	c.silent = true
	c.raw.SetDeadline(time.Now().Add(c.t.rest.ResponseHeaderTimeout))
	c.out = appendHead(c.out[:0], r)
	if _, err := c.Conn.Write(c.out); err != nil {
		return nil, err
	}
	c.left = c.t.rest.MaxResponseHeaderBytes
	for { // as often as the head's limit and the request's trace allow
		resp, err = http.ReadResponse(c.br, r)
		switch {
		case errors.Is(err, io.ErrUnexpectedEOF) && c.silent:
			return nil, io.EOF
		case err != nil:
			return nil, err
		case resp.StatusCode < 100, resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, errStatus
		case resp.StatusCode >= 200:
			c.raw.SetDeadline(time.Time{})
			c.left = unbounded
			if resp.Body == http.NoBody || resp.ContentLength == 0 {
				c.finish(resp)
				resp.Body = http.NoBody
			} else {
				resp.Body = &body{ReadCloser: resp.Body, c: c, resp: resp}
			}
			return resp, nil
		}
		if err := inform(ctx, resp); err != nil {
			return nil, err
		}
	}
}

// finish gives the connection back after a complete response. Nothing may be
// left over: it would be the next request's response.
func (c *conn) finish(resp *http.Response) {
	live := c.stop()
	c.stop = nil // it holds the request's context, and all in it
	if !live || resp.Close || c.br.Buffered() > 0 {
		c.close()
		return
	}
	c.t.put(c)
}

func (c *conn) close() { c.Conn.Close() }

// body gives the connection back when it was read to its end, and closes it
// when it was not.
type body struct {
	io.ReadCloser
	c    *conn
	resp *http.Response

	mu   sync.Mutex // guards done: Close may come while Read waits
	done bool
}

func (b *body) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end(errors.Is(err, io.EOF))
		if ctx := b.resp.Request.Context(); !errors.Is(err, io.EOF) && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
	}
	return n, err
}

// Close ends the response. net/http's Close would read the rest of it.
func (b *body) Close() error {
	b.end(false)
	return nil
}

func (b *body) end(whole bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.done {
		return
	}
	b.done = true
	if whole {
		b.c.finish(b.resp)
		return
	}
	b.c.stop()
	b.c.close()
}

// appendHead writes the request's head as net/http does: Host and User-Agent
// first, then by name. Values with a line break, which net/http's server lets
// nobody send, end at it.
func appendHead(b []byte, r *http.Request) []byte {
	method := r.Method
	if method == "" {
		method = http.MethodGet
	}
	host := r.Host
	if host == "" {
		host = r.URL.Host
	}
	b = append(b, method...)
	b = append(b, ' ')
	b = append(b, r.URL.RequestURI()...)
	b = append(b, " HTTP/1.1\r\n"...)
	b = appendField(b, "Host", host)
	if v := r.Header["User-Agent"]; len(v) > 0 && v[0] != "" {
		b = appendField(b, "User-Agent", v[0])
	}
	var room [32]string
	names := room[:0]
	for name := range r.Header {
		switch name {
		case "Host", "User-Agent", "Content-Length", "Transfer-Encoding", "Trailer":
		default:
			names = append(names, name)
		}
	}
	switch method {
	case http.MethodPost, http.MethodPut, http.MethodPatch:
		b = append(b, "Content-Length: 0\r\n"...)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range r.Header[name] {
			b = appendField(b, name, v)
		}
	}
	return append(b, "\r\n"...)
}

func appendField(b []byte, name, value string) []byte {
	b = append(b, name...)
	b = append(b, ": "...)
	for i := range len(value) {
		if c := value[i]; c == '\r' || c == '\n' || c == 0 {
			value = value[:i]
			break
		}
	}
	b = append(b, value...)
	return append(b, "\r\n"...)
}
