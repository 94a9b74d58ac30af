package conn

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// dialer dials a client's connections and can end them by address.
//
// A failover client hears of a new master from one Sentinel, and goes on with
// the old one's connections until then. A read on those would put what the old
// master holds into a snapshot that the new one is trusted to keep fresh.
type dialer struct {
	tls *tls.Config // nil: in clear
	net net.Dialer

	mu    sync.Mutex // guards what follows
	conns map[*link]struct{}
	heirs map[string]string // address of a former master → the one to dial in its place
}

func newDialer(config *tls.Config) *dialer {
	return &dialer{
		tls: config, net: net.Dialer{Timeout: DialTimeout, KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}},
		conns: map[*link]struct{}{}, heirs: map[string]string{},
	}
}

func (d *dialer) dial(ctx context.Context, _, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, DialTimeout) // the handshake counts too
	defer cancel()
	if to := d.heir(addr); to != "" {
		addr = to
	}
	network := "tcp"
	if strings.HasPrefix(addr, "/") {
		network = "unix"
	}
	c, err := d.net.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	l := &link{Conn: c, addr: addr, dialer: d}
	l.heard.Store(now())
	d.mu.Lock()
	d.conns[l] = struct{}{}
	_, replaced := d.heirs[addr]
	d.mu.Unlock()
	if replaced {
		_ = l.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Addr: c.RemoteAddr(), Err: errSwitched}
	}
	if d.tls == nil {
		return l, nil
	}
	config := d.tls.Clone()
	config.ServerName, _, _ = net.SplitHostPort(addr)
	secure := tls.Client(l, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = l.Close()
		return nil, err
	}
	return secure, nil
}

func (d *dialer) heir(addr string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.heirs[addr]
}

func (d *dialer) switched(from, to string) {
	d.mu.Lock()
	delete(d.heirs, to)
	for old, heir := range d.heirs {
		if heir == from {
			d.heirs[old] = to
		}
	}
	d.heirs[from] = to
	d.mu.Unlock()
	d.drop(from)
}

func (d *dialer) drop(addr string) {
	d.mu.Lock()
	var ended []*link
	for l := range d.conns {
		if l.addr == addr {
			ended = append(ended, l)
		}
	}
	d.mu.Unlock()
	for _, l := range ended {
		_ = l.Close()
	}
}

// patience is how long a question is out before its address is suspect.
const patience = 200 * time.Millisecond

// unheard ends the connections to an address from which nothing came since a
// question was asked there, on none of them: where a router forgot them, a pool
// would find out one by one, at the price of a time-out each. The one that was
// asked is left to its pool, which has the time-out to tell.
func (d *dialer) unheard(asked *link) {
	since := asked.asked.Load()
	if now()-since < patience.Nanoseconds() {
		return
	}
	d.mu.Lock()
	var others []*link
	for l := range d.conns {
		if l.addr != asked.addr || l == asked {
			continue
		}
		if l.heard.Load() > since {
			d.mu.Unlock()
			return // slow, and alive
		}
		others = append(others, l)
	}
	d.mu.Unlock()
	for _, l := range others {
		_ = l.Close()
	}
}

// now is a clock in nanoseconds that nobody sets.
func now() int64 { return time.Since(epoch).Nanoseconds() }

var epoch = time.Now()

// link is a connection that its dialer knows while it is open.
type link struct {
	net.Conn

	addr         string
	dialer       *dialer
	asked, heard atomic.Int64 // by now: when it was last written to, and when something last came
}

func (l *link) Write(b []byte) (int, error) {
	l.asked.Store(now())
	return l.Conn.Write(b)
}

func (l *link) Read(b []byte) (int, error) {
	n, err := l.Conn.Read(b)
	if n > 0 {
		l.heard.Store(now())
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		l.dialer.unheard(l)
	}
	return n, err
}

func (l *link) Close() error {
	l.dialer.mu.Lock()
	delete(l.dialer.conns, l)
	l.dialer.mu.Unlock()
	return l.Conn.Close()
}

// SyscallConn lets the pool see that an idle connection was closed at its far end.
func (l *link) SyscallConn() (syscall.RawConn, error) {
	return l.Conn.(syscall.Conn).SyscallConn() // both kinds that are dialled have it
}
