package proxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/elazarl/goproxy"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/sightings"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/internal/spool"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
	"github.com/sessionproxy/sessionproxy/proxy/http1"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// CertSource makes the certificates that intercepted clients are shown.
type CertSource interface {
	// Leaf returns a certificate for host: a lower-case A-label or an IP.
	Leaf(ctx context.Context, host string) (*tls.Certificate, error)
}

// Options are the parts a Proxy is made of. All but Audit, Access, Timeouts,
// Leases, Locks, Widgets and StoreUp are needed.
type Options struct {
	Config   *config.Config
	Store    session.Store
	Locks    login.Locks // shared with the other proxies; nil: there are none
	Certs    CertSource
	CA       []byte // PEM of the authority behind Certs, given out at sessionproxy.internal
	Log      *slog.Logger
	Audit    *audit.Log        // may be nil
	Access   *access.Authority // of tokens; nil: none is taken
	Metrics  prometheus.Registerer
	Timeouts Timeouts
	Leases   upstream.Ledger // nil: leases are this process's alone
	Tokens   *captcha.Pool   // for forms
	Spool    *spool.Spool    // for forms that wait for a token
	Widgets  sightings.Store // which pages show captchas; nil: this process remembers it alone

	// StoreUp says whether the session store is there, where requests of
	// declared sites may not go on without it. nil: they may.
	StoreUp func() bool
}

// Proxy is a forward proxy that injects shared sessions. Make it with New.
type Proxy struct {
	store    session.Store
	storeUp  func() bool // nil: requests go on without the store
	certs    CertSource
	ca       []byte
	log      *slog.Logger
	metrics  *metrics
	timeouts Timeouts

	rules      atomic.Pointer[rules]
	engine     *goproxy.ProxyHttpServer
	pool       *transports
	upstreams  *upstream.Pools
	browsers   *memory // clients, with their User-Agent, that have sent Fetch metadata
	keepers    *memory // workers that keep private cookies of a name themselves
	turns      *login.Turns
	verdicts   login.Verdicts
	doubts     login.Doubts
	recipes    *recipes
	held       atomic.Int64 // requests that wait for a login
	passwords  *password.Verifier
	publicOnly *memory // what pages can read without credentials only
	uses       *uses
	alerts     *alerts
	audit      *audit.Log
	access     *access.Authority
	tokens     *captcha.Pool
	spool      *spool.Spool
	seen       *sightings.Sightings
	prefetches sync.WaitGroup
	workers    workers
	audited    *memory // what it has a line of
	traced     *trace.Log
	ids        ids
	conns      *tracked    // hijacked connections
	own        own         // addresses that nobody reaches through us
	tls        *tls.Config // towards clients; one, so that sessions resume
	tlsLocal   *tls.Config // the same towards clients on this machine

	plain     *http1.Server  // serves the decrypted connections first
	inner     *http.Server   // serves those that are not for it
	decrypted chan net.Conn  // from intercept to inner
	innerDone sync.WaitGroup // inner's accept loop

	mu     sync.Mutex // guards what follows
	fronts []*http.Server
	closed bool
}

// New makes a proxy. It serves nothing until Serve is called.
func New(o Options) (*Proxy, error) {
	p := &Proxy{
		store:      o.Store,
		storeUp:    o.StoreUp,
		certs:      o.Certs,
		ca:         o.CA,
		log:        o.Log,
		metrics:    newMetrics(o.Metrics),
		timeouts:   o.Timeouts.withDefaults(),
		browsers:   newMemory(),
		keepers:    newMemory(),
		turns:      login.NewTurns(o.Locks, o.Log),
		recipes:    newRecipes(),
		passwords:  password.NewVerifier(),
		publicOnly: newMemory(),
		uses:       newUses(),
		alerts:     newAlerts(o.Log),
		audit:      o.Audit,
		access:     o.Access,
		tokens:     o.Tokens,
		spool:      o.Spool,
		seen:       sightings.New(o.Widgets, o.Log),
		workers:    workers{all: map[workerName]*worker{}},
		audited:    newMemory(),
		traced:     trace.New(o.Store),
		ids:        newIDs(),
		conns:      newTracked(),
		decrypted:  make(chan net.Conn),
	}
	p.tls = &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"}, GetCertificate: p.leaf,
		// Clients are near: small first records would gain them nothing, and
		// cost a write each.
		DynamicRecordSizingDisabled: true,
	}
	// ML-KEM guards against those who record traffic today. On loopback they
	// would have the keys already, and it is a third of the handshake's cost.
	p.tlsLocal = p.tls.Clone()
	p.tlsLocal.CurvePreferences = []tls.CurveID{tls.X25519, tls.CurveP256, tls.CurveP384, tls.CurveP521}
	p.pool = newTransports(p.dial, p.timeouts)
	p.upstreams = p.newUpstreams(o.Leases)
	if err := p.Reload(o.Config); err != nil {
		p.seen.Close()
		return nil, err
	}
	o.Metrics.MustRegister(leaseCollector{p.upstreams})
	p.engine = p.newEngine()
	p.plain = p.newPlain()
	p.inner = p.newInner()
	p.innerDone.Go(func() {
		if err := p.inner.Serve(newHandover(p.decrypted, p.conns.done())); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("serve decrypted connections", "err", err)
		}
	})
	if p.access != nil {
		p.access.OnDenied(func(id string) {
			p.conns.closeOf(func(o owner) bool { return o.token == id })
		})
		p.innerDone.Go(p.endTokens)
	}
	return p, nil
}

// newEngine is goproxy with our hooks, and without its defaults that look at
// the environment, rewrite headers or write to the standard logger.
func (p *Proxy) newEngine() *goproxy.ProxyHttpServer {
	e := goproxy.NewProxyHttpServer()
	e.Logger = engineLog{p.log}
	e.ConnectDial = nil // would obey HTTPS_PROXY
	e.Tr = &http.Transport{Proxy: nil, DialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
		return p.dial(ctx, p.rules.Load().direct, addr)
	}}
	e.KeepAcceptEncoding = true
	e.OnRequest().HandleConnectFunc(hijackConnect)
	e.OnRequest().DoFunc(func(r *http.Request, ctx *goproxy.ProxyCtx) (*http.Request, *http.Response) {
		x := exchangeOf(r)
		ctx.RoundTripper = x
		return r, x.enter(r)
	})
	return e
}

// Reload puts a new configuration in force for new requests, all at once. What
// needs a restart stays as it was (see [config.Config.NeedsRestart]). On an
// error the old one stays.
func (p *Proxy) Reload(c *config.Config) error {
	r, err := compile(c, p.rules.Load(), p.metrics)
	if err != nil {
		return err
	}
	leave, err := pools(c)
	if err != nil {
		return err
	}
	p.upstreams.Reload(leave)
	r.lease(c, p.upstreams)
	p.rules.Store(r)
	p.seen.Follow(context.Background(), r.withForms())
	p.passwords.Forget()
	p.pool.keep(r.origins())
	return nil
}

// Serve accepts clients on ln, which l describes, until Shutdown. For an HTTPS
// proxy port ln yields TLS connections.
func (p *Proxy) Serve(ln net.Listener, l config.Listen) error {
	front := &http.Server{
		Handler:           p.front(l),
		ReadHeaderTimeout: p.timeouts.Header,
		IdleTimeout:       p.timeouts.Idle,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          serverLog(p.log),
		ConnContext:       withH1Conn,
		// HTTP/1.1 only: a CONNECT in an HTTP/2 stream has no connection to hijack.
		TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){},
	}
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return http.ErrServerClosed
	}
	p.fronts = append(p.fronts, front)
	p.mu.Unlock()
	p.Protect(ln.Addr())
	if err := front.Serve(h1Listener{ln, p}); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	return nil
}

// Protect makes an address of ours unreachable through the proxy, by whatever
// name a client calls it. Serve protects its own.
func (p *Proxy) Protect(a net.Addr) { p.own.add(a) }

// Shutdown stops accepting, lets requests under way finish until ctx ends, and
// then closes what is left, tunnels and WebSockets included.
func (p *Proxy) Shutdown(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	fronts := p.fronts
	p.mu.Unlock()

	// All at once: while one waits for a slow request, no other may take new ones.
	servers := append([]*http.Server{p.inner}, fronts...)
	errs := make([]error, len(servers))
	var wg sync.WaitGroup
	for i, s := range servers {
		wg.Go(func() { errs[i] = s.Shutdown(ctx) })
	}
	err := p.plain.Shutdown(ctx)
	wg.Wait()
	if ctx.Err() != nil {
		p.plain.Close()
		for _, s := range servers {
			s.Close()
		}
	}
	p.conns.close()
	p.innerDone.Wait()
	p.recipes.close()
	p.prefetches.Wait()
	p.seen.Close()
	p.upstreams.Close(ctx)
	p.pool.close()
	p.alerts.close()
	return errors.Join(append(errs, err)...)
}

// Timeouts bound each phase in which a peer may be silent. Bodies are never
// bounded as a whole: a slow download is not an error.
type Timeouts struct {
	Dial         time.Duration // TCP connect, DNS included; 10 s
	Handshake    time.Duration // TLS, either side; 10 s
	Header       time.Duration // a client's request head; 30 s
	Connect      time.Duration // an upstream's answer to CONNECT or SOCKS5, its own dial included; 30 s
	ResponseHead time.Duration // from the last byte of the request to the origin's head; 5 min, since long polls are slow
	Idle         time.Duration // a keep-alive connection without a request; 3 min
	Sniff        time.Duration // for a client to speak first in a tunnel; 300 ms
	Tunnel       time.Duration // a tunnel or WebSocket on which neither side speaks; 1 h
}

func (t Timeouts) withDefaults() Timeouts {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{
		{&t.Dial, 10 * time.Second},
		{&t.Handshake, 10 * time.Second},
		{&t.Header, 30 * time.Second},
		{&t.Connect, 30 * time.Second},
		{&t.ResponseHead, 5 * time.Minute},
		{&t.Idle, 3 * time.Minute},
		{&t.Sniff, 300 * time.Millisecond},
		{&t.Tunnel, time.Hour},
	} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	return t
}

// maxHeaderBytes bounds a request's head: several times what browsers send,
// and what origins take.
const maxHeaderBytes = 64 << 10
