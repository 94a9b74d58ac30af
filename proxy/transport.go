package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/http1"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// origin is how the servers of a site are reached, and a pool of connections
// of its own. Hosts that no site declares share one.
type origin struct {
	cfg      config.Origin
	declared bool   // by a site
	pem      string // the certificates of cfg.CA and cfg.Cert when they were read
	tls      *tls.Config

	mu sync.Mutex           // guards h1
	h1 map[string]time.Time // until when an address is known to speak no HTTP/2
}

// forgetH1 is how long an origin is taken for one without HTTP/2.
const forgetH1 = 10 * time.Minute

// speaksH2 says whether HTTP/2 is worth offering.
func (o *origin) speaksH2(addr string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	until, known := o.h1[addr]
	return !known || time.Now().After(until)
}

func (o *origin) refusedH2(addr string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.h1 == nil || len(o.h1) >= 1024 {
		o.h1 = map[string]time.Time{}
	}
	o.h1[addr] = time.Now().Add(forgetH1)
}

// openOrigin reads the files of an origin. It returns old where nothing has
// changed, so that a reload keeps its connections.
func openOrigin(c config.Origin, old *origin) (*origin, error) {
	o := &origin{cfg: c, declared: true, tls: &tls.Config{InsecureSkipVerify: c.Insecure}}
	if c.CA != "" {
		var err error
		if o.tls.RootCAs, o.pem, err = readRoots(c.CA); err != nil {
			return nil, fmt.Errorf("read origin.ca: %w", err)
		}
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

// readRoots reads certificates to verify against, beside the system's.
func readRoots(file string) (pool *x509.CertPool, pem string, err error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, "", err
	}
	if pool, err = x509.SystemCertPool(); err != nil {
		return nil, "", fmt.Errorf("read the system's roots: %w", err)
	}
	if !pool.AppendCertsFromPEM(b) {
		return nil, "", fmt.Errorf("%s: no certificate in it", file)
	}
	return pool, string(b), nil
}

// dialAddr is where addr is really dialled: origin.resolve may say another
// place, by host and port or by host.
func (o *origin) dialAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil || len(o.cfg.Resolve) == 0 {
		return addr
	}
	host = strings.TrimSuffix(host, ".") // hosts are declared without it
	for _, name := range []string{net.JoinHostPort(host, port), host} {
		if to, ok := o.cfg.Resolve[name]; ok {
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
	all map[transportKey]transport
}

// transport is a pool of connections.
type transport interface {
	http.RoundTripper
	CloseIdleConnections()
}

type transportKey struct {
	origin  *origin
	exit    *upstream.Exit // nil: directly
	forward bool           // see forwards
	h2      bool           // HTTP/2 is offered
	once    bool           // each request has a connection of its own, so that none is repeated unseen on another
	pin     *pin           // of the client's connection that has this pool for itself; nil: all share it
}

type dialFunc func(ctx context.Context, o *origin, addr string) (net.Conn, error)

func newTransports(dial dialFunc, t Timeouts) *transports {
	return &transports{dial: dial, timeouts: t, all: map[transportKey]transport{}}
}

// get returns the pool for requests to t. Where an HTTP/2 client's origin speaks
// HTTP/1.1 only, that is the cheaper one.
func (ts *transports) get(key transportKey, t target) transport {
	key.h2 = key.h2 && t.secure && key.origin.speaksH2(t.addr())
	key.once = key.once && !key.h2 // which says what was not processed (RFC 9113 section 8.7)
	ts.mu.RLock()
	tr := ts.all[key]
	ts.mu.RUnlock()
	if tr != nil {
		return tr
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if tr = ts.all[key]; tr == nil {
		tr = ts.open(key)
		ts.all[key] = tr
	}
	return tr
}

func (ts *transports) open(key transportKey) transport {
	o, h2 := key.origin, key.h2
	conf := o.tls.Clone() // nil stays nil
	if conf == nil {
		conf = &tls.Config{}
	}
	conf.MinVersion = tls.VersionTLS12
	conf.ClientSessionCache = tls.NewLRUClientSessionCache(1024) // its own: a ticket links two connections
	conf.NextProtos = []string{"http/1.1"}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	if h2 {
		conf.NextProtos = []string{"h2", "http/1.1"}
		protocols.SetHTTP2(true)
	}
	dial := func(ctx context.Context, _, addr string) (net.Conn, error) {
		if key.exit == nil {
			return ts.dial(ctx, o, addr)
		}
		c, err := key.exit.Dial(ctx, o.dialAddr(addr))
		if err != nil {
			return nil, dialError{err}
		}
		return c, nil
	}
	t := &http.Transport{
		Proxy:       nil, // never the environment's
		DialContext: dial,
		DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			tc, err := handshake(ctx, c, addr, conf, ts.timeouts.Handshake)
			if err != nil {
				return nil, err
			}
			if h2 && tc.ConnectionState().NegotiatedProtocol != "h2" {
				o.refusedH2(addr)
				return http1.Watch(tc), nil
			}
			return tc, nil
		},
		Protocols:              protocols,
		ResponseHeaderTimeout:  ts.timeouts.ResponseHead,
		ExpectContinueTimeout:  time.Second, // then the body goes unasked, as RFC 9110 section 10.1.1 allows
		DisableCompression:     true,        // a client's Accept-Encoding is its own
		DisableKeepAlives:      key.once,
		MaxIdleConnsPerHost:    256,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: 256 << 10,
		// A connection that all share must not be a dead one.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 15 * time.Second},
	}
	switch {
	case key.forward:
		return newForward(t, key.exit)
	case h2:
		return t
	}
	return http1.New(t) // which leaves to t what is sent once: see send
}

// handshake makes c a TLS connection to addr's host, verified.
func handshake(ctx context.Context, c net.Conn, addr string, conf *tls.Config, limit time.Duration) (*tls.Conn, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		c.Close()
		return nil, dialError{err}
	}
	conf = conf.Clone()
	conf.ServerName = strings.TrimSuffix(host, ".") // RFC 6066 section 3
	tc := tls.Client(c, conf)
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := tc.HandshakeContext(ctx); err != nil {
		c.Close()
		return nil, dialError{fmt.Errorf("TLS handshake: %w", err)}
	}
	return tc, nil
}

// keep closes the idle connections of origins that are no longer in use.
func (ts *transports) keep(used map[*origin]bool) {
	ts.closeAll(func(key transportKey) bool { return !used[key.origin] })
}

// leave forgets the connections through an exit: new requests open others.
func (ts *transports) leave(exit *upstream.Exit) {
	ts.closeAll(func(key transportKey) bool { return key.exit == exit })
}

// closeAll closes the idle connections of the pools that are over, and forgets
// them.
func (ts *transports) closeAll(over func(transportKey) bool) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	for key, t := range ts.all {
		if over(key) {
			t.CloseIdleConnections()
			delete(ts.all, key)
		}
	}
}

func (ts *transports) close() { ts.keep(nil) }
