package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/sessionproxy/sessionproxy/proxy/egress"
)

// dialError is a failure before any request could be sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// errOwnListener says that a dial would have come back to ourselves.
var errOwnListener = errors.New("the address is one of this proxy's own listeners")

// dial connects to addr, or to what o's configuration puts in its place. Where
// it leads is judged at the last moment, when the address is known: our own
// listeners are refused, and what the egress rules refuse. An address that the
// operator wrote is only held against the first.
func (p *Proxy) dial(ctx context.Context, o *origin, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, dialError{err}
	}
	to := o.dialAddr(addr)
	_, err = netip.ParseAddr(host)
	written := to != addr || o.declared && err == nil
	rules := p.rules.Load()
	d := net.Dialer{
		Timeout: p.timeouts.Dial,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil || p.own.has(a) {
				return errOwnListener
			}
			if written {
				return nil
			}
			if ref := rules.egress.Addr(host, a.Addr(), o.declared); ref != nil {
				return p.egressRefused(rules, host, ref)
			}
			return nil
		},
	}
	c, err := d.DialContext(ctx, "tcp", to)
	if err != nil {
		return nil, dialError{err}
	}
	return c, nil
}

// egressRefused counts what the egress rules refuse, and lets it pass where they
// are only to report.
func (p *Proxy) egressRefused(r *rules, host string, ref *egress.Refusal) error {
	if r.reports {
		p.metrics.egress.WithLabelValues(ref.Kind, "reported").Inc()
		p.log.Warn("egress: mode enforce would refuse this connection", "host", host, "address", ref.Addr.String(), "kind", ref.Kind)
		return nil
	}
	p.metrics.egress.WithLabelValues(ref.Kind, "refused").Inc()
	return ref
}
