// Package acme fetches certificates for the proxy's own names from an authority
// by ACME (RFC 8555), renews them, and answers the authority's challenges:
// http-01 on a port of its own, tls-alpn-01 (RFC 8737) on the ports that speak
// TLS. The work is certmagic's. Proxies that share its storage share
// certificates: one of them fetches, and any of them answers.
//
// It binds no port and stores nothing itself: packages redisstorage and
// filestorage do, and its caller.
package acme

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// Options are what a Manager is made of. All but Email and Roots are needed.
type Options struct {
	Names     []string // exact ones, A-labels; the first is shown to who asks for none of them
	Directory string   // URL of the authority's directory
	Email     string   // whom it writes to
	Roots     *x509.CertPool
	Storage   certmagic.Storage
	HTTP      net.Addr // of the listener whose server has [Manager.ServeHTTP]
	Log       *slog.Logger
}

// Manager has the certificates of some names. Make it with Open. It is safe for
// concurrent use.
type Manager struct {
	names  []string
	config *certmagic.Config
	issuer *certmagic.ACMEIssuer
	cache  *certmagic.Cache
	log    *slog.Logger

	failures atomic.Uint64
	missing  []string      // names that Open found no certificate of
	loaded   chan struct{} // a certificate came
	ctx      context.Context
	stop     context.CancelFunc
	closed   sync.Once
	wg       sync.WaitGroup
}

// openLimit bounds what Open waits for the storage.
const openLimit = 10 * time.Second

// Open takes the certificates that are stored. The error is of the storage.
func Open(o Options) (*Manager, error) {
	m := &Manager{names: o.Names, log: o.Log, loaded: make(chan struct{}, 1)}
	logger := zap.New(core{log: o.Log})
	m.cache = certmagic.NewCache(m.cacheOptions(lookEvery, logger))
	m.config = certmagic.New(m.cache, certmagic.Config{
		Storage: o.Storage, OnEvent: m.heard, Logger: logger,
		DefaultServerName: o.Names[0], FallbackServerName: o.Names[0],
	})
	host, port, err := addr(o.HTTP)
	if err != nil {
		return nil, err
	}
	m.issuer = certmagic.NewACMEIssuer(m.config, certmagic.ACMEIssuer{
		CA: o.Directory, Email: o.Email, Agreed: true, TrustedRoots: o.Roots, Logger: logger,
		// certmagic opens ports for its challenges, unless it finds them taken. All
		// are answered by listeners that are there already: this one is taken.
		ListenHost: host, AltHTTPPort: port, AltTLSALPNPort: port,
		// The environment's proxy may be this one.
		HTTPProxy: func(*http.Request) (*url.URL, error) { return nil, nil },
	})
	m.config.Issuers = []certmagic.Issuer{m.issuer}

	m.ctx, m.stop = context.WithCancel(context.Background())
	if err := m.open(); err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

func addr(a net.Addr) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(a.String())
	if err == nil {
		port, err = strconv.Atoi(text)
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the address for http-01: %w", err)
	}
	return host, port, nil
}

func (m *Manager) open() error {
	ctx, cancel := context.WithTimeout(m.ctx, openLimit)
	defer cancel()
	for _, name := range m.names {
		there, err := m.take(ctx, name)
		if err != nil {
			return err
		}
		if !there {
			m.missing = append(m.missing, name)
		}
	}
	return nil
}

// Start fetches in the background what is missing, and renews what is due,
// until Close. From now on the authority looks at the names.
func (m *Manager) Start() {
	for _, name := range m.missing {
		m.log.Warn("no certificate yet: who uses this name is refused until it is fetched", "name", name, "from", m.issuer.CA)
		m.wg.Go(func() { m.fetch(m.ctx, name) })
	}
	m.wg.Go(func() { m.maintain(m.ctx) })
}

// Close ends what is under way, and lets go of its locks.
func (m *Manager) Close() {
	m.stop()
	m.wg.Wait()
	m.closed.Do(m.cache.Stop)
}

// Names are those that it has or fetches certificates for.
func (m *Manager) Names() []string { return m.names }

// Expiry is when the certificate of a name ends; zero where there is none yet.
func (m *Manager) Expiry(name string) time.Time {
	var last time.Time
	for _, c := range m.cache.AllMatchingCertificates(name) {
		if c.Leaf.NotAfter.After(last) {
			last = c.Leaf.NotAfter
		}
	}
	return last
}

// Complete says whether all names have a certificate that is good now.
func (m *Manager) Complete() bool {
	return !slices.ContainsFunc(m.names, func(name string) bool { return m.Expiry(name).Before(time.Now()) })
}

// Failures counts the attempts to fetch a certificate that came to nothing.
func (m *Manager) Failures() uint64 { return m.failures.Load() }

// GetCertificate is for [tls.Config].
func (m *Manager) GetCertificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	cert, err := m.config.GetCertificate(hello)
	if err != nil {
		return nil, fmt.Errorf("no certificate of %s yet: it is being fetched", strings.Join(m.names, ", "))
	}
	return cert, nil
}

// tlsALPN is the protocol that an authority asks for (RFC 8737 section 6.2).
const tlsALPN = "acme-tls/1"

// Challenge returns the configuration by which an authority's look at one of
// the names is answered (RFC 8737 section 3), nil where hello is no such look.
// For other names nobody looks into the storage.
func (m *Manager) Challenge(hello *tls.ClientHelloInfo) *tls.Config {
	if !slices.Equal(hello.SupportedProtos, []string{tlsALPN}) || !m.knows(hello.ServerName) {
		return nil
	}
	return m.config.TLSConfig()
}

// ServeHTTP answers an authority's look at one of the names (RFC 8555 section
// 8.3), and 404 to all else.
func (m *Manager) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if m.knows(host) && m.issuer.HandleHTTPChallenge(w, r) {
		return
	}
	http.NotFound(w, r)
}

func (m *Manager) knows(host string) bool {
	return slices.Contains(m.names, strings.ToLower(strings.TrimSuffix(host, ".")))
}
