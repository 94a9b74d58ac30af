package proxy

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/sessionproxy/sessionproxy/proxy/http1"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// forward sends plain http requests to an HTTP upstream as RFC 9112 section
// 3.2.2 wants them: with the whole URL in the request line. CONNECT would do,
// too, but many proxies allow it for port 443 only.
type forward struct {
	*http.Transport
	exit *upstream.Exit
}

// newForward has rest connect to the exit, wherever its requests go.
func newForward(rest *http.Transport, exit *upstream.Exit) *forward {
	rest.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		c, err := exit.Open(ctx)
		if err != nil {
			return nil, dialError{err}
		}
		return http1.Watch(c), nil
	}
	return &forward{rest, exit}
}

// RoundTrip sends the request, with credentials that nobody else sees.
func (f *forward) RoundTrip(r *http.Request) (*http.Response, error) {
	out := *r // a copy with the same context
	u := *r.URL
	u.Opaque = "//" + u.Host + absolutePath(r.URL)
	out.URL = &u
	if a := f.exit.Authorization(); a != "" {
		out.Header = maps.Clone(r.Header)
		out.Header["Proxy-Authorization"] = []string{a}
	}
	resp, err := f.Transport.RoundTrip(&out)
	if err == nil {
		resp.Request = r
	}
	return resp, err
}

// absolutePath is the path as it stands in an absolute URL, see keepPath.
// "OPTIONS *" has none there (RFC 9112 section 3.2.4).
func absolutePath(u *url.URL) string {
	switch {
	case u.Opaque != "":
		return u.Opaque
	case u.Path == "*":
		return ""
	}
	path := u.EscapedPath()
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	return path
}

// forwards says whether a request through the exit goes in absolute form. A
// WebSocket does not (RFC 6455 section 4.1), nor does one to a host whose place
// the operator has named: the upstream would look it up.
func forwards(exit *upstream.Exit, o *origin, t target, upgrade bool) bool {
	return exit != nil && exit.Forwards() && !t.secure && !upgrade && o.dialAddr(t.addr()) == t.addr()
}

// fetch asks for a URL through an exit, for the pools' checks.
func (p *Proxy) fetch(ctx context.Context, x *upstream.Exit, address string) (status int, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, err
	}
	t, ref := plainTarget(r.URL)
	if ref != nil {
		return 0, fmt.Errorf("check %s: %s", r.URL.Host, ref.public)
	}
	rules := p.rules.Load()
	o := rules.direct
	if s := rules.site(t.host, t.port); s != nil {
		o = s.origin
	}
	route := transportKey{origin: o, exit: x, forward: forwards(x, o, t, false)}
	resp, err := p.pool.get(route, t).RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusProxyAuthRequired && route.forward {
		return resp.StatusCode, x.Unauthorized()
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, maxChecked))
	return resp.StatusCode, err
}

// maxChecked is how much of a check's answer is read.
const maxChecked = 64 << 10
