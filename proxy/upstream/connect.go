package upstream

import (
	"bufio"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
)

// maxReply bounds the head of an answer to CONNECT.
const maxReply = 32 << 10

// maxInterim bounds the 1xx responses before it.
const maxInterim = 8

var (
	errReplyTooLarge = errors.New("the answer to CONNECT is longer than 32 KiB")
	errInterim       = errors.New("1xx responses without end")
	errCredentials   = errors.New("it does not take the credentials that it is given")
	errNoCredentials = errors.New("it asks for credentials, and is given none")
)

// connect makes c a tunnel by HTTP's CONNECT (RFC 9110 section 9.3.6).
func connect(c net.Conn, u Upstream, addr string) (net.Conn, error) {
	head := "CONNECT " + addr + " HTTP/1.1\r\nHost: " + addr + "\r\n"
	if u.auth {
		head += "Proxy-Authorization: " + u.authorization() + "\r\n"
	}
	if _, err := io.WriteString(c, head+"\r\n"); err != nil {
		return nil, unanswered(u, err)
	}
	limited := &io.LimitedReader{R: c, N: maxReply}
	br := bufio.NewReaderSize(limited, 1<<10)
	asked := &http.Request{Method: http.MethodConnect}
	for range maxInterim {
		resp, err := http.ReadResponse(br, asked)
		var netErr net.Error
		switch {
		case err != nil && limited.N <= 0:
			return nil, &Error{Reason: Protocol, Upstream: u, err: errReplyTooLarge}
		case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF), errors.As(err, &netErr):
			return nil, unanswered(u, err)
		case err != nil:
			return nil, &Error{Reason: Protocol, Upstream: u, err: errNoHTTP}
		case resp.StatusCode == http.StatusProxyAuthRequired,
			resp.StatusCode == http.StatusUnauthorized: // tinyproxy's, for a wrong password
			return nil, &Error{Reason: Auth, Upstream: u, Status: resp.StatusCode, err: u.badCredentials()}
		case resp.StatusCode >= 200 && resp.StatusCode < 300:
			return replay(c, br), nil
		case resp.StatusCode < 100 || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols:
			return nil, &Error{Reason: Refused, Upstream: u, Status: resp.StatusCode}
		}
	}
	return nil, &Error{Reason: Protocol, Upstream: u, err: errInterim}
}

// errNoHTTP stands for what net/http says, which quotes the answer: it may be
// the credentials, echoed.
var errNoHTTP = errors.New("the answer to CONNECT is no HTTP/1.1")

func (u Upstream) authorization() string {
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(u.user+":"+u.pass))
}

func (u Upstream) badCredentials() error {
	if u.auth {
		return errCredentials
	}
	return errNoCredentials
}

// replay returns c, with what was read ahead of it before the rest: a server
// that speaks first may have done so in the packet of the answer.
func replay(c net.Conn, br *bufio.Reader) net.Conn {
	n := br.Buffered()
	if n == 0 {
		return c
	}
	ahead, _ := br.Peek(n) // n bytes are there
	return &replayed{Conn: c, ahead: append([]byte(nil), ahead...)}
}

type replayed struct {
	net.Conn
	ahead []byte
}

func (r *replayed) Read(b []byte) (int, error) {
	if len(r.ahead) > 0 {
		n := copy(b, r.ahead)
		r.ahead = r.ahead[n:]
		return n, nil
	}
	return r.Conn.Read(b)
}

// CloseWrite ends one direction.
func (r *replayed) CloseWrite() error {
	if h, ok := r.Conn.(interface{ CloseWrite() error }); ok {
		return h.CloseWrite()
	}
	return r.Close()
}

// NetConn is the connection without what was read ahead.
func (r *replayed) NetConn() net.Conn { return r.Conn }
