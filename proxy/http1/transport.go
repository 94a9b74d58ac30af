// Package http1 sends requests to HTTP/1.1 origins without a hand-over between
// goroutines: the caller's own writes the request and reads the response, on a
// pooled connection. That is about a third of what net/http's Transport costs
// a proxy.
//
// It takes requests without a body, which are most. What needs two directions
// at once (bodies, upgrades, Expect) goes to the Transport that it stands
// before. Responses are framed by net/http's own reader, so both agree on
// where a body ends.
//
// On the other side Server answers the plain requests of clients in the same
// way, and leaves a connection to net/http's server with the first request that
// is not.
//
// Where net/http forgives what request smuggling and response splitting are
// made of, Framing tells, and Watch ends the connection.
package http1

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"
)

// Transport is an [http.RoundTripper] before another one. Make it with New.
type Transport struct {
	rest          *http.Transport
	dial, dialTLS dialFunc

	mu    sync.Mutex         // guards what follows
	idle  map[string][]*conn // by scheme and host, the last used one last
	sweep *time.Timer        // closes what was idle too long; nil while nothing is
}

// New returns a Transport that leaves to rest what it does not take itself. It
// dials as rest does, by DialContext and DialTLSContext, and has its
// ResponseHeaderTimeout, MaxResponseHeaderBytes, MaxIdleConnsPerHost and
// IdleConnTimeout, all of which must be set. The connections of rest are
// watched from then on; it must have none yet.
func New(rest *http.Transport) *Transport {
	t := &Transport{rest: rest, dial: rest.DialContext, dialTLS: rest.DialTLSContext, idle: map[string][]*conn{}}
	rest.DialContext, rest.DialTLSContext = watching(t.dial), watching(t.dialTLS)
	return t
}

// ErrHeadTimeout says that an origin was silent for ResponseHeaderTimeout. Other
// errors are those of dialling, of the connection, and of [http.ReadResponse].
var ErrHeadTimeout = errors.New("no response head in time")

// What [http.ReadResponse] would let pass.
const (
	errHeadTooLarge = textproto.ProtocolError("the response head is longer than allowed")
	errStatus       = textproto.ProtocolError("the response has no possible status, or switches protocols unasked")
)

// RoundTrip sends one request and returns its response's head. Unlike net/http's
// it changes nothing of the request, and adds no field.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !takes(r) {
		return t.rest.RoundTrip(r)
	}
	key := r.URL.Scheme + "://" + r.URL.Host
	for {
		c, err := t.get(r, key)
		if err != nil {
			return nil, err
		}
		resp, err := c.roundTrip(r)
		if err == nil {
			return resp, nil
		}
		c.close()
		// A server may close an idle connection at any moment. What was sent
		// on it then was not processed, or may be sent again.
		if !c.reused || !c.silent || !replayable(r) || r.Context().Err() != nil || errors.Is(err, ErrHeadTimeout) {
			return nil, err
		}
	}
}

// takes says whether a request is one that this package sends itself.
func takes(r *http.Request) bool {
	h := r.Header
	return (r.Body == nil || r.Body == http.NoBody) && r.ContentLength == 0 && len(r.TransferEncoding) == 0 &&
		len(h["Upgrade"]) == 0 && len(h["Connection"]) == 0 && len(h["Expect"]) == 0 &&
		r.Method != http.MethodConnect && !r.Close
}

// replayable: RFC 9110 section 9.2.2. Without a body there is nothing to rewind.
func replayable(r *http.Request) bool {
	switch r.Method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}

// get returns a pooled connection, or a new one.
func (t *Transport) get(r *http.Request, key string) (*conn, error) {
	for {
		c := t.pop(key)
		if c == nil {
			return t.open(r, key)
		}
		if c.clean() {
			c.reused = true
			return c, nil
		}
		c.close()
	}
}

func (t *Transport) pop(key string) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[key]
	if len(conns) == 0 {
		return nil
	}
	c := conns[len(conns)-1]
	conns[len(conns)-1] = nil
	t.idle[key] = conns[:len(conns)-1]
	return c
}

// put pools a connection whose response was read to its end.
func (t *Transport) put(c *conn) {
	c.since = time.Now()
	t.mu.Lock()
	defer t.mu.Unlock()
	conns := t.idle[c.key]
	if len(conns) >= t.rest.MaxIdleConnsPerHost {
		c.raw.Close() // without TLS's goodbye, which may wait for the peer
		return
	}
	t.idle[c.key] = append(conns, c)
	if t.sweep == nil {
		t.sweep = time.AfterFunc(t.rest.IdleConnTimeout, t.closeOld)
	}
}

// closeOld closes what was idle for IdleConnTimeout, and comes back while there
// is more.
func (t *Transport) closeOld() {
	limit := time.Now().Add(-t.rest.IdleConnTimeout)
	var old []*conn
	t.mu.Lock()
	for key, conns := range t.idle {
		n := 0
		for n < len(conns) && !conns[n].since.After(limit) {
			n++
		}
		old = append(old, conns[:n]...)
		if conns = conns[n:]; len(conns) == 0 {
			delete(t.idle, key)
		} else {
			t.idle[key] = append([]*conn(nil), conns...)
		}
	}
	t.sweep = nil
	if len(t.idle) > 0 {
		t.sweep = time.AfterFunc(t.rest.IdleConnTimeout/4, t.closeOld)
	}
	t.mu.Unlock()
	for _, c := range old {
		c.close()
	}
}

// CloseIdleConnections closes pooled connections. Those in use finish.
func (t *Transport) CloseIdleConnections() {
	t.mu.Lock()
	idle := t.idle
	t.idle = map[string][]*conn{}
	if t.sweep != nil {
		t.sweep.Stop()
		t.sweep = nil
	}
	t.mu.Unlock()
	for _, conns := range idle {
		for _, c := range conns {
			c.close()
		}
	}
	t.rest.CloseIdleConnections()
}

// open opens a connection to the request's host.
func (t *Transport) open(r *http.Request, key string) (*conn, error) {
	dial, port := t.dial, "80"
	if r.URL.Scheme == "https" {
		dial, port = t.dialTLS, "443"
	}
	if p := r.URL.Port(); p != "" {
		port = p
	}
	c, err := dial(r.Context(), "tcp", net.JoinHostPort(r.URL.Hostname(), port))
	if err != nil {
		return nil, err
	}
	return newConn(t, key, c), nil
}

// inform passes a 1xx response to the request's trace.
func inform(ctx context.Context, resp *http.Response) error {
	if trace := httptrace.ContextClientTrace(ctx); trace != nil && trace.Got1xxResponse != nil {
		return trace.Got1xxResponse(resp.StatusCode, textproto.MIMEHeader(resp.Header))
	}
	return nil
}
