package proxy

import (
	"context"
	"net"
)

// DialBy has the proxy reach all origins by dial. It is called before any is.
func (p *Proxy) DialBy(dial func(ctx context.Context) (net.Conn, error)) {
	p.pool.dial = func(ctx context.Context, _ *origin, _ string) (net.Conn, error) { return dial(ctx) }
}
