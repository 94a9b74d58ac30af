package acme

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/caddyserver/certmagic"
	"go.uber.org/zap"
)

// take takes a certificate that is stored. It returns false where there is none,
// or none that can be served.
func (m *Manager) take(ctx context.Context, name string) (bool, error) {
	whole, err := m.whole(ctx, name)
	if err != nil || !whole {
		return false, err
	}
	if _, err := m.config.CacheManagedCertificate(ctx, name); err != nil {
		return false, fmt.Errorf("take the certificate of %s: %w", name, err)
	}
	select {
	case m.loaded <- struct{}{}:
	default: // it is known already
	}
	return true, nil
}

// whole says whether a certificate and its key are stored and belong together:
// they are stored one by one, and their proxy may have been killed in between.
func (m *Manager) whole(ctx context.Context, name string) (bool, error) {
	var pair [2][]byte
	for i, key := range []string{
		certmagic.StorageKeys.SiteCert(m.issuer.IssuerKey(), name), certmagic.StorageKeys.SitePrivateKey(m.issuer.IssuerKey(), name),
	} {
		value, err := m.config.Storage.Load(ctx, key)
		if errors.Is(err, fs.ErrNotExist) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		pair[i] = value
	}
	_, err := tls.X509KeyPair(pair[0], pair[1])
	return err == nil, nil
}

// How long to wait before a name is tried anew, after certmagic gave it up. It
// does so where the storage is away; what the authority refuses, it tries again
// by itself.
const (
	firstWait = time.Second
	lastWait  = 5 * time.Minute
)

// fetch has a certificate fetched, by this proxy or by another, until it is
// there or ctx ends.
func (m *Manager) fetch(ctx context.Context, name string) {
	for wait := firstWait; ; wait = min(2*wait, lastWait) {
		err := m.config.ObtainCertAsync(ctx, name) // nothing where all is stored
		if err == nil {
			err = m.mend(ctx, name)
		}
		there := false
		if err == nil {
			there, err = m.take(ctx, name)
		}
		if there {
			m.log.Info("certificate", "name", name, "until", m.Expiry(name))
			return
		}
		if ctx.Err() != nil {
			return
		}
		m.log.Warn("no certificate yet", "name", name, "again_in", wait, "err", err)
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return
		}
	}
}

// mend has a certificate fetched anew that is stored and can't be served.
func (m *Manager) mend(ctx context.Context, name string) error {
	whole, err := m.whole(ctx, name)
	if err == nil && !whole {
		err = m.config.RenewCertAsync(ctx, name, true)
	}
	return err
}

// Certificates are looked at every ten minutes, whether they are due or another
// proxy has renewed them. Those that live for hours are looked at more often.
const (
	lookEvery  = 10 * time.Minute
	lookOften  = time.Second
	looksALife = 100
)

// maintain renews certificates until ctx ends.
func (m *Manager) maintain(ctx context.Context) {
	for {
		every := m.every()
		// certmagic has to know: it renews what would be too late the next time.
		m.cache.SetOptions(m.cacheOptions(every, m.config.Logger))
		select {
		case <-ctx.Done():
			return
		case <-m.loaded: // it may have ended while no proxy ran
		case <-time.After(every):
		}
		if err := m.cache.RenewManagedCertificates(ctx); err != nil {
			m.log.Warn("renew certificates", "err", err)
		}
	}
}

// every is how often certificates are to be looked at.
func (m *Manager) every() time.Duration {
	every := lookEvery
	for _, name := range m.names {
		for _, c := range m.cache.AllMatchingCertificates(name) {
			every = min(every, max(c.Lifetime()/looksALife, lookOften))
		}
	}
	return every
}

func (m *Manager) cacheOptions(every time.Duration, logger *zap.Logger) certmagic.CacheOptions {
	return certmagic.CacheOptions{
		GetConfigForCert:   func(certmagic.Certificate) (*certmagic.Config, error) { return m.config, nil },
		RenewCheckInterval: every, Logger: logger,
	}
}

// heard counts certmagic's failures, and says in the log what it begins.
func (m *Manager) heard(_ context.Context, event string, data map[string]any) error {
	switch event {
	case "cert_obtaining":
		m.log.Info("fetching a certificate", "name", data["identifier"], "renewal", data["renewal"] == true, "from", m.issuer.CA)
	case "cert_obtained":
		m.log.Info("certificate fetched", "name", data["identifier"], "renewal", data["renewal"] == true)
	case "cert_failed":
		m.failures.Add(1)
	}
	return nil
}
