// Package certs makes the certificates that the proxy shows to its clients:
// our own authority, made at first start or taken from the operator's files,
// and its short-lived leaves, one for each host.
//
// It signs for whom it is told to. Which hosts are declared, package proxy
// says; who trusts the authority, the operator.
package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"
)

// Authority signs leaves. It is safe for concurrent use.
type Authority struct {
	chain  []*x509.Certificate // the issuer, then those above it
	key    crypto.Signer       // the issuer's
	sent   [][]byte            // what follows a leaf in a handshake
	made   bool                // by Open, just now
	now    func() time.Time
	signed atomic.Int64

	// All leaves share one key. Making a key for each would cost more than
	// signing, and guard nothing: one process holds them all.
	leafKey   *ecdsa.PrivateKey
	leafKeyID []byte

	leaves  leafCache
	signing singleflight.Group // by host: who asks late waits for the first
}

// newAuthority returns an authority that signs with key, which is that of
// chain's first certificate.
func newAuthority(chain []*x509.Certificate, key crypto.Signer) (*Authority, error) {
	leafKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the leaves' key: %w", err)
	}
	id, err := keyID(leafKey.Public())
	if err != nil {
		return nil, err
	}
	a := &Authority{chain: chain, key: key, now: time.Now, leafKey: leafKey, leafKeyID: id, leaves: newLeafCache(maxLeaves)}
	for _, c := range chain {
		// A client trusts a root by its own copy or not at all (RFC 8446 §4.4.2).
		if !selfSigned(c) {
			a.sent = append(a.sent, c.Raw)
		}
	}
	return a, nil
}

// New says that this call of Open has made the authority, and not found it: no
// process can have used it before.
func (a *Authority) New() bool { return a.made }

// issuer is the certificate whose key signs the leaves.
func (a *Authority) issuer() *x509.Certificate { return a.chain[0] }

// PEM returns what clients are to trust: the issuer's certificate, and after
// it those above it that the operator's file holds. Never a key.
func (a *Authority) PEM() []byte {
	var b bytes.Buffer
	for _, c := range a.chain {
		b.Write(encodeCertificate(c.Raw))
	}
	return b.Bytes()
}

// DER returns the issuer's certificate alone.
func (a *Authority) DER() []byte { return bytes.Clone(a.issuer().Raw) }

// Fingerprint returns the SHA-256 of DER as browsers and openssl show it: hex
// pairs in upper case with colons between.
func (a *Authority) Fingerprint() string {
	sum := sha256.Sum256(a.issuer().Raw)
	return strings.ReplaceAll(fmt.Sprintf("% X", sum), " ", ":")
}

// Expires returns the last second of the issuer's certificate. No leaf lives longer.
func (a *Authority) Expires() time.Time { return a.issuer().NotAfter }

// Signed returns how many leaves have been signed since the start.
func (a *Authority) Signed() int64 { return a.signed.Load() }

// selfSigned says whether c is a root. Equal names alone do not make one: a
// root's successor may be signed by its elder under the same name (RFC 5280 §3.2).
func selfSigned(c *x509.Certificate) bool {
	return bytes.Equal(c.RawIssuer, c.RawSubject) && c.CheckSignatureFrom(c) == nil
}

// keyID returns the key identifier of pub, a hash that RFC 5280 §4.2.1.2
// leaves to the issuer: here 160 bits of the SHA-256 of the whole SubjectPublicKeyInfo.
func keyID(pub crypto.PublicKey) ([]byte, error) {
	spki, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return nil, fmt.Errorf("identify public key: %w", err)
	}
	sum := sha256.Sum256(spki)
	return sum[:20], nil
}

func encodeCertificate(der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

// Secret returns 32 bytes that only the holder of the issuer's key can make,
// another for each use: proxies with one CA have them without being told.
func (a *Authority) Secret(use string) ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(a.key)
	if err != nil {
		return nil, fmt.Errorf("derive a secret from the CA's key: %w", err)
	}
	return hkdf.Key(sha256.New, der, nil, use, 32)
}
