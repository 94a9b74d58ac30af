package config

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// writeKeys makes signing.key, ca.pem and ca.key, an authority, and proxy.pem and
// proxy.key, which sign nothing.
func writeKeys(t *testing.T, dir string) {
	t.Helper()
	for _, name := range []string{"ca", "proxy"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		template := &x509.Certificate{
			SerialNumber:          big.NewInt(1),
			Subject:               pkix.Name{CommonName: name},
			NotAfter:              time.Now().Add(time.Hour),
			IsCA:                  name == "ca",
			BasicConstraintsValid: true,
		}
		cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		der, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range []struct {
			file  string
			block *pem.Block
		}{
			{name + ".pem", &pem.Block{Type: "CERTIFICATE", Bytes: cert}},
			{name + ".key", &pem.Block{Type: "PRIVATE KEY", Bytes: der}},
		} {
			if err := os.WriteFile(filepath.Join(dir, b.file), pem.EncodeToMemory(b.block), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, signing, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(signing)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "signing.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}
