package proxy

import (
	"context"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// tracked are the connections that may have to be closed before their time:
// hijacked ones and tunnels, by the session that they are of. Shutdown closes
// them, and waits for their goroutines.
type tracked struct {
	closing context.Context // over when the proxy closes
	end     context.CancelFunc

	mu     sync.Mutex // guards what follows
	conns  map[io.Closer]user
	closed bool
	wg     sync.WaitGroup
}

func newTracked() *tracked {
	closing, end := context.WithCancel(context.Background())
	return &tracked{closing: closing, end: end, conns: map[io.Closer]user{}}
}

// done is closed when the proxy closes.
func (t *tracked) done() <-chan struct{} { return t.closing.Done() }

// owner is whose end closes a connection. The zero owner is nobody.
type owner struct {
	session session.Key
	token   string    // ID of the one that the client came with; "" a password, or nothing
	until   time.Time // end of the token
}

// user is who holds a connection.
type user struct {
	owner
	holders int // goroutines
}

// add notes a connection and the goroutine that serves it, until release. It
// reports false where the proxy is closing already.
func (t *tracked) add(c io.Closer, of owner) (release func(), ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return nil, false
	}
	t.conns[c] = user{of, t.conns[c].holders + 1}
	t.wg.Add(1)
	return func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if u := t.conns[c]; u.holders > 1 {
			u.holders--
			t.conns[c] = u
		} else {
			delete(t.conns, c)
		}
		t.wg.Done()
	}, true
}

// closeOf closes the connections whose owner has ended.
func (t *tracked) closeOf(ended func(owner) bool) {
	var open []io.Closer
	t.mu.Lock()
	for c, u := range t.conns {
		if ended(u.owner) {
			open = append(open, c)
		}
	}
	t.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
}

func (t *tracked) close() {
	t.mu.Lock()
	t.closed = true
	t.end()
	open := slices.Collect(maps.Keys(t.conns))
	t.mu.Unlock()
	for _, c := range open {
		c.Close()
	}
	t.wg.Wait()
}

// watch calls a function once nothing was touched for a while.
type watch struct {
	idle    time.Duration
	expired func()
	began   time.Time
	last    atomic.Int64 // of touch, ns since began: whoever sets the clock touches nothing

	mu    sync.Mutex // guards timer
	timer *time.Timer
}

func newWatch(idle time.Duration, expired func()) *watch {
	w := &watch{idle: idle, expired: expired, began: time.Now()}
	w.touch()
	w.again(idle)
	return w
}

func (w *watch) again(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer = time.AfterFunc(d, w.check)
}

func (w *watch) check() {
	if rest := w.idle - time.Since(w.began) + time.Duration(w.last.Load()); rest > 0 {
		w.again(rest)
		return
	}
	w.expired()
}

func (w *watch) touch() { w.last.Store(time.Since(w.began).Nanoseconds()) }

func (w *watch) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timer.Stop()
}

// own are the addresses we listen on.
type own struct {
	mu    sync.RWMutex // guards addrs
	addrs []netip.AddrPort
}

func (o *own) add(a net.Addr) {
	ap, err := netip.ParseAddrPort(a.String())
	if err != nil {
		return // a Unix socket: nothing dials that
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.addrs = append(o.addrs, netip.AddrPortFrom(ap.Addr().Unmap().WithZone(""), ap.Port()))
}

// has says whether a dial to a would reach one of our listeners. It judges
// the address that the dialler is about to use, after DNS, so that no spelling
// of it gets round.
func (o *own) has(a netip.AddrPort) bool {
	ip := a.Addr().Unmap().WithZone("")
	o.mu.RLock()
	defer o.mu.RUnlock()
	for _, l := range o.addrs {
		if l.Port() != a.Port() {
			continue
		}
		switch {
		case l.Addr() == ip:
			return true
		case ip.IsUnspecified(): // the kernel takes it for loopback
			if l.Addr().IsLoopback() || l.Addr().IsUnspecified() {
				return true
			}
		case l.Addr().IsUnspecified():
			if isLocal(ip) {
				return true
			}
		}
	}
	return false
}

// isLocal says whether ip is an address of this machine.
func isLocal(ip netip.Addr) bool {
	if ip.IsLoopback() {
		return true
	}
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return true // not known: refuse rather than serve our own admin
	}
	for _, a := range addrs {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().WithZone("") == ip {
			return true
		}
	}
	return false
}
