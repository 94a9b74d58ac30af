package certs

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"net/netip"
	"strings"
	"time"
)

const (
	// leafLife is far below what clients bear: Apple's stop at 825 days for a
	// root that a user added.
	leafLife = 90 * 24 * time.Hour

	// backdate: a client with a slow clock would refuse a leaf from its future.
	backdate = 24 * time.Hour

	// maxLeaves bounds the cache: under a declared "*.x" clients may name any
	// number of hosts.
	maxLeaves = 4096
)

// Leaf returns a certificate for host, from a bounded cache where it can. The
// certificate is shared: callers do not change it.
//
// The host is an A-label, an IPv4 address, or an IPv6 address without
// brackets; case and a final dot do not matter. Anything else, a wildcard
// too, is an error, and so is an authority outside its dates. When ctx ends
// first, the error wraps its cause.
func (a *Authority) Leaf(ctx context.Context, host string) (*tls.Certificate, error) {
	key := strings.ToLower(strings.TrimSuffix(host, "."))
	if cert := a.leaves.get(key, a.now()); cert != nil {
		return cert, nil
	}
	cert, err := a.signOnce(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("sign leaf for %q: %w", host, err)
	}
	return cert, nil
}

// signOnce signs a leaf for host, or waits for whoever is at it. The work goes
// on when ctx ends: others may be waiting, and the next asker will want it.
func (a *Authority) signOnce(ctx context.Context, host string) (*tls.Certificate, error) {
	result := a.signing.DoChan(host, func() (any, error) {
		now := a.now()
		// Another's signing may have ended between our miss and this call.
		if cert := a.leaves.get(host, now); cert != nil {
			return cert, nil
		}
		l, err := a.sign(host, now)
		if err != nil {
			return nil, err
		}
		a.leaves.put(l)
		return l.cert, nil
	})
	select {
	case r := <-result:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*tls.Certificate), nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sign makes the leaf of one host.
func (a *Authority) sign(host string, now time.Time) (*leaf, error) {
	ca := a.issuer()
	if err := checkDates(ca, now); err != nil {
		return nil, fmt.Errorf("CA %w", err)
	}

	// The subject is empty. A common name is no host's name (RFC 9525 §2), and
	// one over 64 characters breaks strict parsers (RFC 5280 appendix A.1). x509
	// then marks the SAN critical, as RFC 5280 §4.2.1.6 asks.
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		NotBefore:             latest(now.Add(-backdate), ca.NotBefore),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		SubjectKeyId:          a.leafKeyID,
	}
	// A life counts its last second too (RFC 5280 §4.1.2.5).
	template.NotAfter = earliest(template.NotBefore.Add(leafLife-time.Second), ca.NotAfter)

	// One name only: an HTTP/2 client may send the requests of all hosts that a
	// certificate covers down one tunnel (RFC 9113 §9.1.1).
	switch ip, err := netip.ParseAddr(host); {
	case err == nil:
		template.IPAddresses = []net.IP{ip.AsSlice()} // a zone has no place in a SAN
	case isName(host):
		template.DNSNames = []string{host}
	default:
		return nil, errors.New("neither a host name nor an IP address")
	}

	der, err := x509.CreateCertificate(rand.Reader, template, ca, a.leafKey.Public(), a.key)
	if err != nil {
		return nil, err
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	a.signed.Add(1)

	l := &leaf{host: host, renew: parsed.NotAfter, cert: &tls.Certificate{
		Certificate: append([][]byte{parsed.Raw}, a.sent...),
		PrivateKey:  a.leafKey,
		Leaf:        parsed,
	}}
	// A leaf that ends with its CA serves to the end: a new one would live no longer.
	if parsed.NotAfter.Before(ca.NotAfter) {
		l.renew = parsed.NotAfter.Add(-parsed.NotAfter.Sub(parsed.NotBefore) / 3)
	}
	return l, nil
}

// newSerial returns 128 random bits. Firefox refuses an issuer that repeats a
// serial (SEC_ERROR_REUSED_ISSUER_AND_SERIAL), and proxies may share one.
func newSerial() *big.Int {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return new(big.Int).SetBytes(b[:])
}

// isName says whether host is a DNS name in lower-case A-labels, not a
// wildcard. The underscore is no letter of a host name (RFC 952), yet in use.
func isName(host string) bool {
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || len(label) > 63 || strings.Trim(label, "abcdefghijklmnopqrstuvwxyz0123456789-_") != "" {
			return false
		}
	}
	return len(host) <= 253
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
