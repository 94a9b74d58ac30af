package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// Certificates are files (PEM) of a throwaway authority, and of a certificate
// that servers and clients show.
type Certificates struct {
	CA, Cert, Key string

	clients string // tls-auth-clients of redis.conf
}

// NewCertificates makes them for the names given, else for localhost and
// 127.0.0.1. Where clients is set, servers ask clients for a certificate of the
// same authority.
func NewCertificates(t testing.TB, clients bool, names ...string) *Certificates {
	t.Helper()
	dir := t.TempDir()
	c := &Certificates{
		CA: filepath.Join(dir, "ca.pem"), Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"),
		clients: "no",
	}
	if clients {
		c.clients = "yes"
	}
	write := func(file, kind string, der []byte) {
		if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	sign := func(cert, parent *x509.Certificate, of, by *ecdsa.PrivateKey) []byte {
		cert.NotBefore, cert.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
		der, err := x509.CreateCertificate(rand.Reader, cert, parent, of.Public(), by)
		if err != nil {
			t.Fatal(err)
		}
		return der
	}
	caKey, leafKey := key(), key()
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redistest"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	write(c.CA, "CERTIFICATE", sign(ca, ca, caKey, caKey))
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), DNSNames: names,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	if len(names) == 0 {
		leaf.DNSNames, leaf.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	write(c.Cert, "CERTIFICATE", sign(leaf, ca, leafKey, caKey))
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	write(c.Key, "PRIVATE KEY", der)
	return c
}
