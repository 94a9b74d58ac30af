package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchaai"
	"github.com/sessionproxy/sessionproxy/captcha/sightings"
	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/spool"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
	"github.com/sessionproxy/sessionproxy/proxy/group"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// instance is one running proxy with its store, its CA and its ports. All
// ports are bound before any serves.
type instance struct {
	config    *config.Config
	log       *slog.Logger
	authority *certs.Authority
	store     session.Store
	redis     *redisstore.Store // store, where it is that
	client    *conn.Client      // its own
	declared  atomic.Pointer[map[string]redisstore.Site]
	tokens    *captcha.Pool
	solver    *captchaai.Client // in force; nil without an account
	widgets   sightings.Store
	proxy     *proxy.Proxy
	audit     *audit.Log
	grants    access.Store
	access    *access.Authority
	events    *admin.Events
	group     *group.Group
	reloads   chan chan struct{} // each asks for a reload, and hears of its end
	registry  *prometheus.Registry
	reloadOK  prometheus.Gauge
	current   atomic.Pointer[config.Config] // in force, for the admin API
	loaded    atomic.Pointer[loaded]

	cert        atomic.Pointer[certificate] // in force, of the ports that speak TLS; nil without any
	certStorage certStorage                 // of those that are fetched; nil before the first
	challenges  challenges

	listeners []net.Listener // as config.Listen
	admin     net.Listener
	ops       net.Listener
	readiness admin.Readiness
	token     string
}

// openInstance makes the parts and binds the ports. The audit log goes to stdout
// where the configuration says so.
func openInstance(c *config.Config, log *slog.Logger, stdout io.Writer) (*instance, error) {
	i := &instance{config: c, log: log, registry: prometheus.NewRegistry(), reloads: make(chan chan struct{})}
	if err := i.open(stdout); err != nil {
		i.close()
		return nil, err
	}
	return i, nil
}

func (i *instance) open(stdout io.Writer) (err error) {
	c := i.config
	i.current.Store(c)
	i.loaded.Store(&loaded{at: time.Now()})
	if err := makeState(c.State); err != nil {
		return err
	}
	if i.authority, err = openCA(c); err != nil {
		return err
	}
	if i.token, err = admin.Token(c.State); err != nil {
		return err
	}
	if err := i.bindAll(); err != nil {
		return err
	}
	if err := i.openStore(); err != nil {
		return err
	}
	if err := i.openAccess(stdout); err != nil {
		return err
	}
	if err := i.openTokens(); err != nil {
		return err
	}
	if err := i.openWidgets(); err != nil {
		return err
	}
	bodies, err := spool.Open(filepath.Join(c.State, "spool"), int64(c.Spool.MaxMiB)<<20)
	if err != nil {
		return err
	}
	i.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "sessionproxy_spool_bytes", Help: "What forms that wait for captcha tokens take of the disk."},
		func() float64 { return float64(bodies.Used()) }))
	i.proxy, err = proxy.New(proxy.Options{
		Config: c, Store: i.store, Certs: i.authority, CA: i.authority.PEM(), Log: i.log, Metrics: i.registry,
		Audit: i.audit, Access: i.access, StoreUp: i.storeUp(), Leases: i.leases(), Locks: i.locks(),
		Tokens: i.tokens, Spool: bodies, Widgets: i.widgets,
	})
	if err != nil {
		return err
	}
	cert, err := i.openCertificate(c.TLS)
	if err != nil {
		return err
	}
	i.useCertificate(cert)
	i.readiness.Need(func() bool { return i.cert.Load().complete() }, false)
	i.joinGroup()
	i.proxy.Protect(i.admin.Addr())
	i.proxy.Protect(i.ops.Addr())
	i.registerMetrics()
	return nil
}

// openCA takes the operator's CA, or makes one at first start.
func openCA(c *config.Config) (*certs.Authority, error) {
	if c.CA.Cert != "" {
		return certs.Load(c.CA.Cert, c.CA.Key)
	}
	var permitted []string
	if c.CA.Constrain {
		for _, s := range c.Sites {
			for _, p := range s.Patterns {
				permitted = append(permitted, p.Host)
			}
		}
	}
	return certs.Open(c.State, permitted)
}

// makeState makes the state directory and sees that it can be written.
func makeState(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the state directory: %w; give --state a directory that can be written", err)
	}
	f, err := os.CreateTemp(dir, ".probe-*")
	if err != nil {
		return fmt.Errorf("write to the state directory: %w; give --state a directory that can be written", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (i *instance) bindAll() error {
	https := i.portsTLS()
	for _, l := range i.config.Listen {
		ln, err := bind("listen", l.Addr)
		if err != nil {
			return err
		}
		if l.TLS {
			ln = tls.NewListener(ln, https)
		}
		i.listeners = append(i.listeners, ln)
	}
	var err error
	if i.admin, err = bind("admin", i.config.Admin); err != nil {
		return err
	}
	if i.config.AdminTLS() {
		i.admin = tls.NewListener(i.admin, https)
	}
	if len(i.config.TLS.Domains) > 0 {
		if err := i.challenges.bind(i.config.TLS.HTTP); err != nil {
			return err
		}
	}
	i.ops, err = bind("ops", i.config.Ops)
	return err
}

func bindRemedy(setting string, err error) string {
	where := "--" + setting
	if strings.Contains(setting, ".") { // which has no flag
		where = setting
	}
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program has this port: stop it, or choose another with " + where
	case errors.Is(err, syscall.EACCES):
		return "; ports below 1024 need a privilege: choose a higher one with " + where
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; this machine has no such address"
	}
	return ""
}

// serve runs until ctx ends or a server fails, and drains.
func (i *instance) serve(ctx context.Context) error {
	api := admin.Server(admin.New(admin.Options{
		Token: i.token, Addr: i.admin.Addr().String(), Hosts: i.adminNames, Store: i.store, Tokens: i.tokens,
		CA: i.authority.PEM(), Proxy: i.entry, Listeners: i.adminListeners(), Version: versionString(), Log: i.log,
		Access: i.access, Audit: i.audit, Events: i.events, Trace: i.proxy.Trace(), Metrics: i.registry, Workers: i.workers, Config: i.loadedConfig,
		Sites:   func() []config.Site { return i.current.Load().Sites },
		Clients: func() []config.Client { return i.current.Load().Clients }, Upstreams: i.proxy.Upstreams(),
		Revoke: i.proxy.Revoke, EachUse: i.proxy.EachUse, Locate: i.proxy.Locate, Explain: i.proxy.Explain,
		LogIn: i.proxy.LogIn, LoginStatus: i.proxy.LoginStatus, ExplainLogin: i.proxy.ExplainLogin,
		Learned: i.proxy.Learned,
		Group:   i.group, Reload: i.askReload,
	}), i.log)
	ops := admin.Server(admin.NewOps(admin.OpsOptions{Metrics: i.registry, Readiness: &i.readiness, Log: i.log}), i.log)

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	start := func(serve func() error) {
		wg.Go(func() {
			if err := serve(); err != nil && !errors.Is(err, http.ErrServerClosed) {
				cancel(err)
			}
		})
	}
	for n, ln := range i.listeners {
		start(func() error { return i.proxy.Serve(ln, i.config.Listen[n]) })
	}
	start(func() error { return api.Serve(i.admin) })
	start(func() error { return ops.Serve(i.ops) })
	i.readiness.Set(admin.Ready)

	<-ctx.Done()
	i.readiness.Set(admin.Draining)
	i.group.Leave()
	i.log.Info("stopping: requests under way may finish", "within", drain)
	limit, stop := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer stop()
	err := i.proxy.Shutdown(limit)
	_ = api.Close()
	_ = ops.Close()
	wg.Wait()
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	if errors.Is(err, context.DeadlineExceeded) {
		i.log.Warn("stopped before all requests had finished")
		return nil
	}
	return err
}

// close frees what openInstance took.
func (i *instance) close() {
	for _, ln := range append(i.listeners, i.admin, i.ops) {
		if ln != nil {
			_ = ln.Close() // served ones are closed already
		}
	}
	if i.tokens != nil {
		i.tokens.Close()
	}
	if i.solver != nil {
		i.solver.Close()
	}
	if file, ok := i.widgets.(io.Closer); ok {
		_ = file.Close() // each page was written when it was seen
	}
	i.closeCertificate()
	if i.group != nil {
		i.group.Leave()
	}
	i.closeAccess()
	if i.store != nil {
		if err := i.store.Close(); err != nil {
			i.log.Error("close store", "err", err)
		}
	}
	if i.client != nil {
		_ = i.client.Close() // all that is left are idle connections
	}
}

func (i *instance) reloaded(ok bool) {
	value := 0.0
	if ok {
		value = 1
	}
	i.reloadOK.Set(value)
}

func (i *instance) adminListeners() []admin.Listener {
	var ports []admin.Listener
	for n, l := range i.config.Listen {
		ports = append(ports, admin.Listener{Addr: i.listeners[n].Addr().String(), TLS: l.TLS, Auth: l.Auth, Client: l.Client, Session: l.Session})
	}
	return ports
}

// caPath is the certificate that clients must trust.
func (i *instance) caPath() string {
	if i.config.CA.Cert != "" {
		return absolute(i.config.CA.Cert)
	}
	return absolute(filepath.Join(i.config.State, "ca.pem"))
}

func (i *instance) proxyAddrs() string {
	var addrs []string
	for _, ln := range i.listeners {
		addrs = append(addrs, ln.Addr().String())
	}
	return strings.Join(addrs, " ")
}
