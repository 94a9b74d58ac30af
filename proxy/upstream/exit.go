package upstream

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// Exit is an upstream in use by this process: the connections through it, and
// what is thought of it. It lives while the process holds a lease on it;
// connections do not outlive it.
type Exit struct {
	dialer *dialer
	rests  atomic.Int64 // until then, by the clock; see now

	failures  atomic.Int32 // that the ledger may still count, see Lease.Answered
	suspicion atomic.Int32 // failures in a row that may be the targets'
	refusals  atomic.Int32 // answers in a row that the pool's ban names

	mu     sync.Mutex // guards what follows
	closed bool
	conns  map[net.Conn]struct{}

	leases int // guarded by the pool
}

func newExit(d *dialer) *Exit {
	x := &Exit{conns: map[net.Conn]struct{}{}}
	dial := d.dial
	d.dial = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return x.keep(c)
	}
	x.dialer = d
	return x
}

// Upstream is the upstream that the exit is.
func (x *Exit) Upstream() Upstream { return x.dialer.Upstream }

// Dial connects to a target through the upstream, which looks its name up. Its
// errors are of type *[Error].
func (x *Exit) Dial(ctx context.Context, addr string) (net.Conn, error) {
	return x.dialer.tunnel(ctx, addr)
}

// Forwards says whether plain http requests go to the upstream in absolute
// form, on connections that Open opens, with Authorization's field.
//
// They do wherever it speaks HTTP: many proxies let CONNECT reach port 443 and
// no other, as Squid and Debian's tinyproxy do.
func (x *Exit) Forwards() bool { return x.dialer.forwards() }

// Open connects to the upstream itself.
func (x *Exit) Open(ctx context.Context) (net.Conn, error) { return x.dialer.open(ctx) }

// Authorization is the value of Proxy-Authorization for the upstream; "" none.
func (x *Exit) Authorization() string {
	if !x.dialer.auth {
		return ""
	}
	return x.dialer.authorization()
}

// errClosed says that the lease ended while a connection was opened.
var errClosed = errors.New("the lease has ended")

// keep notes a connection, so that it ends with the exit.
func (x *Exit) keep(c net.Conn) (net.Conn, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.closed {
		c.Close()
		return nil, errClosed
	}
	x.conns[c] = struct{}{}
	if tcp, ok := c.(*net.TCPConn); ok {
		return &keptTCP{TCPConn: tcp, x: x}, nil
	}
	return &kept{Conn: c, x: x}, nil
}

func (x *Exit) forget(c net.Conn) {
	x.mu.Lock()
	defer x.mu.Unlock()
	delete(x.conns, c)
}

// cut ends all connections.
func (x *Exit) cut() {
	x.mu.Lock()
	conns := x.conns
	x.conns = map[net.Conn]struct{}{}
	x.mu.Unlock()
	for c := range conns {
		c.Close()
	}
}

// close ends all connections, and those that are being opened.
func (x *Exit) close() {
	x.mu.Lock()
	x.closed = true
	x.mu.Unlock()
	x.cut()
}

// rest notes that the upstream rests for d from now on.
func (x *Exit) rest(d time.Duration) { x.rests.Store(int64(now() + d)) }

// resting returns how long the upstream rests yet.
func (x *Exit) resting(at time.Duration) time.Duration { return time.Duration(x.rests.Load()) - at }

// kept tells its exit when it is closed.
type kept struct {
	net.Conn
	x *Exit
}

func (k *kept) Close() error {
	k.x.forget(k.Conn)
	return k.Conn.Close()
}

// keptTCP is the same with all that a TCP connection can do.
type keptTCP struct {
	*net.TCPConn
	x *Exit
}

func (k *keptTCP) Close() error {
	k.x.forget(k.TCPConn)
	return k.TCPConn.Close()
}

// now is a clock that nobody sets.
func now() time.Duration { return time.Since(epoch) }

var epoch = time.Now()
