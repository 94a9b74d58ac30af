package proxy

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"syscall"

	"github.com/sessionproxy/sessionproxy/proxy/egress"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// dialError is a failure before any request could be sent.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// errOwnListener says that a dial would have come back to ourselves.
var errOwnListener = upstream.ErrOwn

// dial connects to addr, or to what o's configuration puts in its place. Where
// it leads is judged at the last moment, when the address is known: our own
// listeners are refused, and what the egress rules refuse. An address that the
// operator wrote is only held against the first.
func (p *Proxy) dial(ctx context.Context, o *origin, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, dialError{err}
	}
	rules := p.rules.Load()
	judge := func(a netip.Addr) *egress.Refusal { return rules.egress.Addr(host, a, o.declared) }
	if o.written(addr) {
		judge = nil
	}
	c, err := p.dialJudged(ctx, rules, host, o.dialAddr(addr), judge)
	if err != nil {
		return nil, dialError{err}
	}
	return c, nil
}

// dialUpstream connects to an upstream. The egress rules hold for those that
// the configuration does not name: whoever may write to the store added them.
func (p *Proxy) dialUpstream(ctx context.Context, _, addr string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	rules := p.rules.Load()
	if rules == nil {
		return nil, errors.New("no configuration is in force yet")
	}
	judge := func(a netip.Addr) *egress.Refusal { return rules.egress.Addr(host, a, false) }
	if rules.upstreams[addr] {
		judge = nil
	}
	return p.dialJudged(ctx, rules, host, addr, judge)
}

// dialJudged connects to addr where it is no listener of ours, and where judge,
// which may be nil, has nothing against it.
func (p *Proxy) dialJudged(ctx context.Context, rules *rules, host, addr string, judge func(netip.Addr) *egress.Refusal) (net.Conn, error) {
	d := net.Dialer{
		Timeout: p.timeouts.Dial,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			switch {
			case err != nil || p.own.has(a):
				return errOwnListener
			case judge == nil:
				return nil
			}
			if ref := judge(a.Addr()); ref != nil {
				return p.egressRefused(rules, host, ref)
			}
			return nil
		},
	}
	return d.DialContext(ctx, "tcp", addr)
}

// egressName judges a target that an upstream is to connect to: the upstream
// resolves its name, so only what it says by itself can be judged.
func (p *Proxy) egressName(r *rules, o *origin, t target) error {
	if o.written(t.addr()) {
		return nil
	}
	if ref := r.egress.Name(t.host, o.declared); ref != nil {
		return p.egressRefused(r, t.host, ref)
	}
	return nil
}

// written says whether the operator wrote the address that addr leads to.
func (o *origin) written(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return o.dialAddr(addr) != addr || o.declared && err == nil
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
