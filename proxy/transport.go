package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"reflect"
	"sync"
	"syscall"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
)

// origin is how the servers of a site are reached. Sites that say nothing
// share the zero origin.
type origin struct {
	cfg config.Origin
	pem string // content of cfg.CA, cfg.Cert and cfg.Key when they were read
	tls *tls.Config
}

// openOrigin reads the files of an origin. It returns old where nothing has
// changed, so that a reload keeps its connections.
func openOrigin(c config.Origin, old *origin) (*origin, error) {
	o := &origin{cfg: c, tls: &tls.Config{InsecureSkipVerify: c.Insecure}} //nolint:gosec // the operator's own word, for staging
	if c.CA != "" {
		pem, err := os.ReadFile(c.CA)
		if err != nil {
			return nil, fmt.Errorf("read origin.ca: %w", err)
		}
		pool, err := x509.SystemCertPool()
		if err != nil {
			return nil, fmt.Errorf("read the system's roots: %w", err)
		}
		if !pool.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("read origin.ca %s: no certificate in it", c.CA)
		}
		o.tls.RootCAs = pool
		o.pem = string(pem)
	}
	if c.Cert != "" {
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("read origin.cert: %w", err)
		}
		o.tls.Certificates = []tls.Certificate{pair}
		for _, der := range pair.Certificate {
			o.pem += string(der)
		}
	}
	if old != nil && old.pem == o.pem && reflect.DeepEqual(old.cfg, o.cfg) {
		return old, nil
	}
	return o, nil
}

// dialAddr is where addr is really dialled: origin.resolve may say another
// place, by host and port or by host.
func (o *origin) dialAddr(addr string) string {
	if len(o.cfg.Resolve) == 0 {
		return addr
	}
	if to, ok := o.cfg.Resolve[addr]; ok {
		return to
	}
	if host, _, err := net.SplitHostPort(addr); err == nil {
		if to, ok := o.cfg.Resolve[host]; ok {
			return to
		}
	}
	return addr
}

// transports are the pools of connections to origins. A request of an HTTP/1.1
// client goes out by HTTP/1.1, and one of an HTTP/2 client by what the origin
// prefers: each side sees the protocol that it would see without the proxy.
//
// One Transport never serves two upstreams: HTTP/2 connections are pooled by
// host alone there, and a request would leave by another's exit.
type transports struct {
	dial     dialFunc
	timeouts Timeouts

	mu  sync.RWMutex // guards all
	all map[transportKey]*http.Transport
}

type transportKey struct {
	origin *origin
	h2     bool
}

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

func newTransports(dial dialFunc, t Timeouts) *transports {
	return &transports{dial: dial, timeouts: t, all: map[transportKey]*http.Transport{}}
}

func (ts *transports) get(o *origin, h2 bool) *http.Transport {
	key := transportKey{o, h2}
	ts.mu.RLock()
	t := ts.all[key]
	ts.mu.RUnlock()
	if t != nil {
		return t
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if t = ts.all[key]; t == nil {
		t = ts.open(o, h2)
		ts.all[key] = t
	}
	return t
}

func (ts *transports) open(o *origin, h2 bool) *http.Transport {
	conf := o.tls.Clone() // nil stays nil
	if conf == nil {
		conf = &tls.Config{}
	}
	conf.MinVersion = tls.VersionTLS12
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(1024) // its own: a ticket links two connections
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(h2)
	return &http.Transport{
		Proxy: nil, // never the environment's
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return ts.dial(ctx, network, o.dialAddr(addr))
		},
		TLSClientConfig:        conf,
		Protocols:              protocols,
		TLSHandshakeTimeout:    ts.timeouts.Handshake,
		ExpectContinueTimeout:  time.Second, // then the body goes unasked, as RFC 9110 section 10.1.1 allows
		DisableCompression:     true,        // a client's Accept-Encoding is its own
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
	}
}

// keep closes the idle connections of origins that are no longer in use.
func (ts *transports) keep(used map[*origin]bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for key, t := range ts.all {
		if !used[key.origin] {
			t.CloseIdleConnections()
			delete(ts.all, key)
		}
	}
}

func (ts *transports) close() { ts.keep(nil) }

// errOwnListener says that a dial would have come back to ourselves.
var errOwnListener = errors.New("the address is one of this proxy's own listeners")

// dialDirect connects to an origin. Our own listeners are refused at the last
// moment, when the address is known.
func (p *Proxy) dialDirect(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{
		Timeout: p.timeouts.Dial,
		ControlContext: func(_ context.Context, _, address string, _ syscall.RawConn) error {
			if a, err := netip.ParseAddrPort(address); err != nil || p.own.has(a) {
				return errOwnListener
			}
			return nil
		},
	}
	return d.DialContext(ctx, network, addr)
}
