package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"

	"github.com/elazarl/goproxy"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// front is the handler of one listener. It says who asks before anything else
// happens, so that a 407 keeps the connection, and then lets the engine in.
func (p *Proxy) front(l config.Listen) http.Handler {
	return p.checked(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect && r.URL.Scheme == "" {
			refuse(http.StatusBadRequest, "", "no_proxy_request",
				"This is a proxy port. Set it as your client's HTTP proxy; through it, http://"+internalHost+"/ says more.").write(w, r, p.ids.next())
			return
		}
		rules := p.rules.Load()
		id, ref := p.identify(rules, &l, r)
		if r.Method != http.MethodConnect && r.URL.Hostname() == internalHost {
			p.welcome(w, r, id, false) // it says how to become a client, so it refuses nobody
			return
		}
		if ref != nil {
			p.refused(w, r, nil, ref)
			return
		}
		if r.Method == http.MethodConnect {
			p.connect(w, r, &connection{p: p, rules: rules, asks: l.Client != "" || l.Auth == config.AuthAsk, id: id})
			return
		}
		t, ref := plainTarget(r.URL)
		if ref != nil {
			p.refused(w, r, id, ref)
			return
		}
		p.exchange(w, r, modePlain, id, t)
	})
}

// connection is one CONNECT: who asked, for what, and what it became.
type connection struct {
	p      *Proxy
	rules  *rules // that the client was admitted by
	asks   bool   // its port admits nobody without credentials
	id     *identity
	target target
	origin net.Conn        // dialled for a blind tunnel; nil to intercept
	lease  *upstream.Lease // that origin was dialled by; nil: directly
	sni    string          // of the client's TLS
	xid    string          // of the tunnel, or of the handshake that failed
	opened bool            // the tunnel has been told of
	ref    *refusal        // why a tunnel to a declared host is none
	inner  intercepted
	pin    pin
}

// connect decides what a CONNECT becomes: a blind tunnel for hosts that no
// site declares, else an intercepted connection. Refusals of a valid client of
// a declared host come later, inside the tunnel, where it can read them.
func (p *Proxy) connect(w http.ResponseWriter, r *http.Request, c *connection) {
	growStack()
	rules, id := c.rules, c.id
	t, ref := connectTarget(r)
	if ref != nil {
		p.refuseConnect(w, r, id, ref)
		return
	}
	c.target = t
	if t.host != internalHost && rules.site(t.host, t.port) == nil {
		if rules.undeclared == config.Refuse {
			p.refuseConnect(w, r, id, undeclared(t.host))
			return
		}
		if c.origin, c.lease, ref = p.open(r.Context(), rules, id, nil, t); ref != nil {
			p.refuseConnect(w, r, id, ref)
			return
		}
	}
	defer c.closeOrigin() // where the client's connection can't be taken over
	// goproxy hands the connection to hijackConnect's action.
	p.engine.ServeHTTP(&hijackable{ResponseWriter: w, c: c}, r.WithContext(context.WithValue(r.Context(), connectionKey{}, c)))
}

type connectionKey struct{}

// hijackConnect is the engine's CONNECT hook: never its own interception.
func hijackConnect(host string, ctx *goproxy.ProxyCtx) (*goproxy.ConnectAction, string) {
	c, ok := ctx.Req.Context().Value(connectionKey{}).(*connection)
	if !ok {
		return goproxy.RejectConnect, host
	}
	return &goproxy.ConnectAction{Action: goproxy.ConnectHijack, Hijack: c.serve}, host
}

// refused answers a request that never became an exchange, and records it. who
// is nil where that is not known.
func (p *Proxy) refused(w http.ResponseWriter, r *http.Request, who *identity, ref *refusal) {
	if r.Method == http.MethodConnect && ref.status != http.StatusProxyAuthRequired {
		p.refuseConnect(w, r, who, ref)
		return
	}
	id := p.ids.next()
	p.recordRefusal(r, who, id, ref)
	ref.write(w, r, id)
}

// refuseConnect answers a CONNECT with a reason phrase that names the error:
// it is all that many clients show. net/http has no way to set one.
func (p *Proxy) refuseConnect(w http.ResponseWriter, r *http.Request, who *identity, ref *refusal) {
	id := p.ids.next()
	p.recordRefusal(r, who, id, ref)
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		ref.write(w, r, id)
		return
	}
	defer conn.Close()
	resp := ref.response(r, id)
	resp.Status = fmt.Sprintf("%d %s (%s)", ref.status, http.StatusText(ref.status), ref.code)
	resp.Close = true
	// net/http writes no body in answer to a CONNECT; clients read one.
	r.Method = http.MethodGet
	if err := resp.Write(conn); err == nil {
		lingerClose(conn)
	}
}

func undeclared(host string) *refusal {
	return refuse(http.StatusForbidden, "http_request_denied", "undeclared_host",
		fmt.Sprintf("This proxy serves declared sites only, and %s is none.", host))
}

// hijackable replays what net/http has read past the CONNECT: a TLS hello or
// a WebSocket frame sent in the same packet would be lost otherwise.
type hijackable struct {
	http.ResponseWriter
	c *connection
}

func (h *hijackable) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, errors.Join(errors.New("take over the client's connection"), err)
	}
	cc := &clientConn{Conn: hijacked(conn), c: h.c}
	if n := rw.Reader.Buffered(); n > 0 {
		ahead, err := rw.Reader.Peek(n)
		if err != nil {
			conn.Close()
			return nil, nil, fmt.Errorf("read ahead of CONNECT: %w", err)
		}
		cc.ahead = append([]byte(nil), ahead...)
	}
	return cc, &bufio.ReadWriter{}, nil // cc has replayed what the reader held
}
