// Package world builds a small internet on loopback for tests: an origin with
// certificates of a throwaway authority, proxies before it, and clients that
// reach the one through the other in each of the ways there are. A test then
// asserts what both ends saw, and what was logged.
//
// No packet leaves the machine, and nothing outlives its test.
package world

import (
	"cmp"
	"maps"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/sightings"
	"github.com/sessionproxy/sessionproxy/certs"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/spool"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// Options say what is particular about a world. The zero value has an origin
// that answers 404, and a proxy that asks nobody.
type Options struct {
	// Handler is the origin: of all declared hosts, on all ports.
	Handler http.Handler
	// Script is an origin that writes its bytes by hand, in Handler's place:
	// it is called with each connection, after the TLS handshake.
	Script func(*Conn)
	// Config changes the configuration before the proxy sees it.
	Config func(*config.Config)
	// Listen is the proxy's port.
	Listen config.Listen
	// Timeouts of the proxy. Sniff is a second, lest a client of a busy
	// machine be taken for one that waits for the server.
	Timeouts proxy.Timeouts
	// Leases makes the ledger of a proxy, for the upstreams that Config names;
	// nil: one of its own.
	Leases func() upstream.Ledger
	// Store wraps the embedded store.
	Store func(session.Store) session.Store
	// Locks are those of all the world's proxies. Nil: each has its own.
	Locks login.Locks
	// StoreUp is the proxy's: see [proxy.Options].
	StoreUp func() bool
	// Access judges tokens; nil: the proxies take none.
	Access *access.Authority
	// Tokens are for forms; nil: those that were pushed, of which there are none.
	Tokens *captcha.Pool
	// Widgets are what all proxies of the world know of pages. Nil: each knows
	// what it has seen.
	Widgets sightings.Store
	// SpoolMax is how many bytes all spooled bodies have; 0: 1 GiB.
	SpoolMax int64
	// Faulty worlds may log errors, and leave connections to the origin:
	// either fails the test otherwise.
	Faulty bool
}

// World is one origin and one proxy; AddProxy adds another.
type World struct {
	*Proxy
	Origin *Origin

	t       testing.TB
	options Options
	store   session.Store
	ca      *certs.Authority
	caFile  string // of the origin's authority
	config  *config.Config
}

// New builds a world that ends with the test.
func New(t testing.TB, o Options) *World {
	t.Helper()
	o.Timeouts.Sniff = cmp.Or(o.Timeouts.Sniff, time.Second)
	w := &World{t: t, options: o}
	siteCA := t.TempDir()
	w.Origin = newOrigin(t, openCA(t, siteCA), o)
	w.caFile = filepath.Join(siteCA, "ca.pem")
	w.config = w.configure()

	store, err := embedded.Open(filepath.Join(t.TempDir(), "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	w.store = store
	if o.Store != nil {
		w.store = o.Store(store)
	}
	w.ca = openCA(t, t.TempDir())
	t.Cleanup(func() {
		if o.Faulty {
			return
		}
		Eventually(t, "the proxies have closed their connections to the origin", func() bool { return w.Origin.Open() == 0 })
	})
	w.Proxy = w.AddProxy()
	return w
}

func openCA(t testing.TB, dir string) *certs.Authority {
	t.Helper()
	ca, err := certs.Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

// AddProxy starts another proxy with the same configuration, store and CA.
func (w *World) AddProxy() *Proxy {
	w.t.Helper()
	return w.AddProxyOn(w.store)
}

// AddProxyOn starts one with a store of its own, as on another machine.
func (w *World) AddProxyOn(store session.Store) *Proxy {
	w.t.Helper()
	l := w.options.Listen
	l.Auth = cmp.Or(l.Auth, config.AuthNone)
	o := proxy.Options{
		Config: w.config, Store: store, Locks: w.options.Locks, Certs: w.ca, CA: w.ca.PEM(), Timeouts: w.options.Timeouts,
		StoreUp: w.options.StoreUp, Access: w.options.Access, Widgets: w.options.Widgets,
	}
	o.Tokens = w.options.Tokens
	if o.Tokens == nil {
		o.Tokens = captcha.New(captcha.Options{Store: captcha.NewMemory()})
		w.t.Cleanup(o.Tokens.Close)
	}
	var err error
	if o.Spool, err = spool.Open(w.t.TempDir(), cmp.Or(w.options.SpoolMax, 1<<30)); err != nil {
		w.t.Fatal(err)
	}
	if w.options.Leases != nil {
		o.Leases = w.options.Leases()
	}
	p := startProxy(w.t, o, l)
	p.faulty = w.options.Faulty
	return p
}

// Store is what the proxies keep sessions in.
func (w *World) Store() session.Store { return w.store }

// Change gives the first proxy another configuration: that of the options,
// changed.
func (w *World) Change(t testing.TB, change func(*config.Config)) {
	t.Helper()
	c := w.configure(change)
	if err := w.Reload(c); err != nil {
		t.Fatal(err)
	}
}

// configure makes the configuration, with all exact hosts of all sites
// resolved to the origin.
func (w *World) configure(changes ...func(*config.Config)) *config.Config {
	c := &config.Config{
		Undeclared: config.Tunnel,
		Egress:     config.Egress{Mode: config.EgressOpen}, // all of this internet is on loopback
		Sites:      []config.Site{Site("shop", Host, "www."+Host, "*."+Host)},
	}
	for _, change := range append([]func(*config.Config){w.options.Config}, changes...) {
		if change != nil {
			change(c)
		}
	}
	for i := range c.Sites {
		s := &c.Sites[i]
		s.Patterns = nil
		s.Origin.CA = cmp.Or(s.Origin.CA, w.caFile)
		resolve := map[string]string{}
		for _, h := range s.Hosts {
			p, err := config.ParsePattern(h)
			if err != nil {
				w.t.Fatal(err)
			}
			s.Patterns = append(s.Patterns, p)
			if !p.Wildcard {
				resolve[p.Host] = w.Origin.ports["443"] // whatever the port
				for port, addr := range w.Origin.ports {
					resolve[hostPort(p.Host, port)] = addr
				}
			}
		}
		maps.Copy(resolve, s.Origin.Resolve)
		s.Origin.Resolve = resolve
	}
	return c
}

// Site is a site with the defaults of the configuration file.
func Site(name string, hosts ...string) config.Site {
	return config.Site{
		Name: name, Key: hosts[0], Hosts: hosts,
		Cookies: config.Cookies{
			Share: []string{"*"}, Capture: true, Inject: true, Deliver: true, Precedence: config.SharedWins,
			ProtectLogout: []string{"*/logout*", "*/signout*", "*/sign_out*", "*/logoff*", "*action=logout*"},
		},
	}
}
