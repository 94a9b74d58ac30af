package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/caddyserver/certmagic"

	"github.com/sessionproxy/sessionproxy/certs/acme"
	"github.com/sessionproxy/sessionproxy/certs/acme/filestorage"
	"github.com/sessionproxy/sessionproxy/certs/acme/redisstorage"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
)

// certificate is what the ports that speak TLS show: one that was read from a
// file, or those that are fetched by ACME.
type certificate struct {
	file *tls.Certificate

	acme  *acme.Manager
	of    config.TLS // that it was made of, and the text of tls.acme_ca
	roots []byte
}

// portsTLS is for the ports that speak TLS. What they show may change with
// each reload.
func (i *instance) portsTLS() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
			if c := i.cert.Load(); c.acme != nil {
				return c.acme.GetCertificate(hello)
			}
			return i.cert.Load().file, nil
		},
		GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if c := i.cert.Load(); c.acme != nil {
				return c.acme.Challenge(hello), nil // nil: as all others
			}
			return nil, nil
		},
	}
}

// openCertificate makes what c says, or returns the one in force where nothing
// has changed. Open ports outlive a reload that declares none of them, and keep
// theirs.
func (i *instance) openCertificate(c config.TLS) (*certificate, error) {
	was := i.cert.Load()
	switch {
	case !i.config.HTTPS() || c.Cert == "" && len(c.Domains) == 0:
		return was, nil
	case c.Cert != "":
		pair, err := tls.LoadX509KeyPair(c.Cert, c.Key)
		if err != nil {
			return nil, fmt.Errorf("read tls.cert and tls.key: %w", err)
		}
		return &certificate{file: &pair}, nil
	}
	next := &certificate{of: c}
	roots, err := next.readRoots()
	if err != nil {
		return nil, err
	}
	if was != nil && was.acme != nil && reflect.DeepEqual(was.of, c) && bytes.Equal(was.roots, next.roots) {
		return was, nil
	}
	http, err := i.challenges.open(c.HTTP, i.log)
	if err != nil {
		return nil, err
	}
	i.proxy.Protect(http)
	if i.certStorage == nil {
		if i.certStorage, err = i.openCertStorage(); err != nil {
			return nil, err
		}
	}
	next.acme, err = acme.Open(acme.Options{
		Names: c.Domains, Directory: c.ACME, Email: c.Email, Roots: roots,
		Storage: i.certStorage, HTTP: http, Log: i.log,
	})
	return next, err
}

// readRoots are what the authority's directory is verified against; nil: the
// system's.
func (c *certificate) readRoots() (*x509.CertPool, error) {
	if c.of.ACMECA == "" {
		return nil, nil
	}
	var err error
	if c.roots, err = os.ReadFile(c.of.ACMECA); err != nil {
		return nil, fmt.Errorf("read tls.acme_ca: %w", err)
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the system has none
	}
	pool.AppendCertsFromPEM(c.roots)
	return pool, nil
}

// useCertificate puts next in force.
func (i *instance) useCertificate(next *certificate) {
	was := i.cert.Swap(next)
	if was == next {
		return
	}
	if next.acme != nil {
		i.challenges.answer(next.acme)
		next.acme.Start()
	}
	i.discard(was)
}

// discard ends a certificate that is not in force.
func (i *instance) discard(c *certificate) {
	if c != nil && c.acme != nil && c != i.cert.Load() {
		c.acme.Close()
	}
}

// certStorage keeps certificates that were fetched.
type certStorage interface {
	certmagic.Storage
	Close() error
}

// openCertStorage opens the storage that proxies share, or this machine's own.
func (i *instance) openCertStorage() (certStorage, error) {
	if i.client == nil {
		return filestorage.Open(filepath.Join(i.config.State, "acme.db"))
	}
	// Private keys are never there in clear: without a key of the operator's, the
	// CA's gives one, which all proxies on this Redis have.
	secret, err := i.authority.Secret("sessionproxy acme")
	if err != nil {
		return nil, err
	}
	sealer, err := seal.New(append(slices.Clone(i.config.Store.Keys()), secret))
	if err != nil {
		return nil, err
	}
	return redisstorage.New(redisstorage.Options{
		Client: i.client.UniversalClient, Prefix: i.config.Store.Prefix, Sealer: sealer,
	}), nil
}

// closeCertificate frees what openCertificate took.
func (i *instance) closeCertificate() {
	i.discard(i.cert.Swap(nil))
	i.challenges.close()
	if i.certStorage != nil {
		if err := i.certStorage.Close(); err != nil {
			i.log.Error("close certificate storage", "err", err)
		}
	}
}

// complete says whether all names have a certificate that is good now.
func (c *certificate) complete() bool { return c == nil || c.acme == nil || c.acme.Complete() }

// names are those that it is good for, wildcards included.
func (c *certificate) names() []string {
	if c.acme != nil {
		return c.acme.Names()
	}
	names := slices.Clone(c.file.Leaf.DNSNames)
	for _, ip := range c.file.Leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// name is by what a client can verify a port that is dialled as host, or host
// where there is nothing.
func (c *certificate) name(host string) string {
	names := c.names()
	if slices.Contains(names, host) {
		return host
	}
	for _, name := range names {
		if !strings.HasPrefix(name, "*.") && net.ParseIP(name) == nil {
			return name
		}
	}
	return host
}

// adminNames are more names that the admin API is called by.
func (i *instance) adminNames() []string {
	switch c := i.cert.Load(); {
	case c == nil, c.acme == nil && !i.config.AdminTLS():
		return nil
	default:
		return c.names()
	}
}
