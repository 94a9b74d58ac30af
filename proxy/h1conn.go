package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"

	"github.com/sessionproxy/sessionproxy/proxy/http1"
)

// h1Conn is a client's connection as an http.Server sees it that speaks
// HTTP/1.1 there. It knows of requests that net/http repairs and ought not to,
// and says in the proxy's words what net/http says in its own, or not at all.
type h1Conn struct {
	net.Conn
	p *Proxy
	c *connection // of the tunnel, if it is in one

	pin pin // where it is in none

	mu      sync.Mutex // guards what follows: net/http reads ahead while a handler runs
	framing http1.Framing
	begun   int // requests that came to a handler
}

// h1Listener makes h1Conns.
type h1Listener struct {
	net.Listener
	p *Proxy
}

func (l h1Listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &h1Conn{Conn: c, p: l.p}, nil
}

type h1Key struct{}

// withH1Conn is an http.Server's ConnContext: checked finds the connection.
func withH1Conn(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, h1Key{}, conn)
}

// checked lets no request on the road whose end, or whose beginning, is
// uncertain. Such a connection is closed: what follows on it means nothing.
func (p *Proxy) checked(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, ok := r.Context().Value(h1Key{}).(*h1Conn); ok {
			if ref := c.begin(r); ref != nil {
				w.Header().Set("Connection", "close")
				p.refused(w, r, nil, ref)
				return
			}
		}
		next(w, r)
	})
}

func (c *h1Conn) begin(r *http.Request) *refusal {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun++
	switch {
	case r.ProtoMajor != 1, !c.agreed(): // HTTP/2's preface, which net/http lets pass
		return malformedRequest("The request is no HTTP/1.1.")
	case c.begun <= c.framing.Heads:
		return nil
	case c.framing.Fault != nil:
		return ambiguous(c.framing.Fault)
	}
	return ambiguous(http1.ErrLost)
}

// agreed says whether TLS promised no other protocol: a connection for an
// authority's challenge (RFC 8737 section 4) ends with its handshake.
func (c *h1Conn) agreed() bool {
	conn, ok := c.Conn.(*tls.Conn)
	if !ok {
		return true
	}
	promised := conn.ConnectionState().NegotiatedProtocol
	return promised == "" || promised == "http/1.1"
}

// ambiguous refuses a request of which two servers may think differently.
func ambiguous(why error) *refusal {
	return refuse(http.StatusBadRequest, "http_request_error", "ambiguous",
		fmt.Sprintf("This request can be read in two ways: %s.", why))
}

// hijacked returns what is under an h1Conn that is no longer net/http's.
func hijacked(conn net.Conn) net.Conn {
	if c, ok := conn.(*h1Conn); ok {
		c.p.pool.unpin(&c.pin) // there will be no Close
		return c.Conn
	}
	return conn
}

// Read follows what it reads.
func (c *h1Conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n > 0 {
		c.mu.Lock()
		for rest := b[:n]; len(rest) > 0; {
			k, _ := c.framing.Next(rest)
			rest = rest[k:]
		}
		c.mu.Unlock()
	}
	if err != nil {
		c.explain(err, len(b))
	}
	return n, err
}

// explain tells a client why net/http is about to close its connection.
func (c *h1Conn) explain(err error, asked int) {
	var record tls.RecordHeaderError
	switch {
	case errors.As(err, &record) && record.Conn != nil && record.RecordHeader[0] >= 'A' && record.RecordHeader[0] <= 'Z':
		c.refuse(record.Conn, refuse(http.StatusBadRequest, "http_request_error", "tls_wanted",
			"This proxy port speaks TLS: give it as an https:// proxy."))
	case errors.Is(err, os.ErrDeadlineExceeded) && asked > 1: // reads of one byte are ended by net/http itself
		c.mu.Lock()
		within := c.framing.WithinHead()
		c.mu.Unlock()
		if within {
			c.refuse(c.Conn, refuse(http.StatusRequestTimeout, "http_request_error", "head_timeout",
				"The request's head did not come in time."))
		}
	}
}

// Write passes answers on, but for those that net/http gives by itself.
func (c *h1Conn) Write(b []byte) (int, error) {
	if ref := unreadable(b); ref != nil {
		c.mu.Lock()
		open := c.sending()
		c.mu.Unlock()
		if open { // else it is the end of an origin's answer, with the same words in it
			c.refuse(c.Conn, ref)
			return len(b), nil
		}
	}
	return c.Conn.Write(b)
}

// CloseWrite ends one direction.
func (c *h1Conn) CloseWrite() error { return closeWrite(c.Conn) }

// refuse answers a request that never came to a handler.
func (c *h1Conn) refuse(conn net.Conn, ref *refusal) {
	r := &http.Request{URL: new(url.URL), RemoteAddr: conn.RemoteAddr().String()}
	if c.c != nil {
		r = r.WithContext(context.WithValue(r.Context(), connectionKey{}, c.c))
	}
	id := c.p.ids.next()
	c.p.recordRefusal(r, nil, id, ref)
	resp := ref.response(r, id)
	resp.Close = true
	var b bytes.Buffer
	_ = resp.Write(&b)           // to memory: never fails
	_, _ = conn.Write(b.Bytes()) // or the client is gone; nobody is left to tell
}

// sending says whether more came than the requests that were begun.
func (c *h1Conn) sending() bool { return c.framing.Heads > c.begun || c.framing.Within() }

// Close lets a client that still sends, be it nonsense, read why it is no
// longer listened to: a plain close would reset the connection.
func (c *h1Conn) Close() error {
	c.p.pool.unpin(&c.pin)
	c.mu.Lock()
	sending := c.sending()
	c.mu.Unlock()
	if sending {
		if release, ok := c.p.conns.add(c.Conn, owner{}); ok {
			go func() {
				defer release()
				lingerClose(c.Conn)
				c.Conn.Close()
			}()
			return nil
		}
	}
	return c.Conn.Close()
}

// unreadable recognises net/http's answers to what it can't read: it writes
// each at once, without a Date. It returns ours, or nil.
func unreadable(b []byte) *refusal {
	if len(b) > 512 || !bytes.HasPrefix(b, []byte("HTTP/1.1 ")) {
		return nil
	}
	line, _, ok := strings.Cut(string(b[len("HTTP/1.1 "):]), "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")
	if !ok {
		return nil
	}
	status, code, public := http.StatusBadRequest, "malformed", "The request is no valid HTTP/1.1"
	switch line[:min(len(line), 3)] {
	case "431":
		status, code = http.StatusRequestHeaderFieldsTooLarge, "head_too_large"
		public = fmt.Sprintf("The request's head is longer than %d KiB", maxHeaderBytes>>10)
	case "501":
		status, code, public = http.StatusNotImplemented, "transfer_encoding", "The only Transfer-Encoding known here is chunked, given once"
	case "505":
		status, code, public = http.StatusHTTPVersionNotSupported, "version", "This proxy speaks HTTP/1.1"
	default:
		if _, detail, ok := strings.Cut(line, ": "); ok {
			public += ": " + detail
		}
	}
	return refuse(status, "http_request_error", code, public+".")
}
