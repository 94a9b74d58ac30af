// Package trust makes other programs trust a certificate: by bundles of roots
// with that one added, and by the trust stores of this machine, which it is
// put into and taken out of again.
//
// It knows files and stores. Which program is told of a bundle by which
// variable is package clientenv's part.
package trust

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"software.sslmate.com/src/go-pkcs12"
)

// systemFiles are where systems keep their roots, the first one found counts:
// crypto/x509 looks at these and in this order (root_linux.go, root_bsd.go).
// macOS has /etc/ssl/cert.pem beside its keychain.
var systemFiles = []string{
	"/etc/ssl/certs/ca-certificates.crt",                // Debian, Ubuntu, Gentoo, Arch, Alpine
	"/etc/pki/tls/certs/ca-bundle.crt",                  // Fedora, RHEL 6
	"/etc/ssl/ca-bundle.pem",                            // openSUSE
	"/etc/pki/tls/cacert.pem",                           // OpenELEC
	"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", // CentOS, RHEL 7
	"/etc/ssl/cert.pem",                                 // Alpine, macOS, OpenBSD, FreeBSD
	"/usr/local/etc/ssl/cert.pem",                       // FreeBSD
	"/usr/local/share/certs/ca-root-nss.crt",            // DragonFly
	"/etc/openssl/certs/ca-certificates.crt",            // NetBSD
}

// SystemFile returns the path of the system's roots.
func SystemFile() (string, error) {
	for _, f := range systemFiles {
		if _, err := os.Stat(f); err == nil {
			return f, nil
		}
	}
	return "", errors.New("find the system's roots: there are none where systems keep them; install ca-certificates, or name a PEM file with SSL_CERT_FILE")
}

// Roots are what a program is to trust: certificates in DER, each once.
type Roots [][]byte

// ReadRoots returns the certificates of a PEM file.
func ReadRoots(file string) (Roots, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read roots: %w", err)
	}
	roots := Roots(nil).With(b)
	if len(roots) == 0 {
		return nil, fmt.Errorf("read roots: %s: no PEM certificate in it", file)
	}
	return roots, nil
}

// With returns the roots and, after them, the certificates of pemData.
func (r Roots) With(pemData []byte) Roots {
	r = slices.Clip(r)
	for block, rest := pem.Decode(pemData); block != nil; block, rest = pem.Decode(rest) {
		known := func(der []byte) bool { return bytes.Equal(der, block.Bytes) }
		if block.Type == "CERTIFICATE" && !slices.ContainsFunc(r, known) {
			r = append(r, block.Bytes)
		}
	}
	return r
}

// PEM returns the roots as most programs read them.
func (r Roots) PEM() []byte {
	var b bytes.Buffer
	for _, der := range r {
		_ = pem.Encode(&b, &pem.Block{Type: "CERTIFICATE", Bytes: der}) // a Buffer takes all
	}
	return b.Bytes()
}

// PKCS12 returns the roots as a JVM reads them (javax.net.ssl.trustStore). The
// store is neither encrypted nor signed: each Java reads such a one, whether it
// was given a password or not, and it is the same for the same roots.
func (r Roots) PKCS12() ([]byte, error) {
	entries := make([]pkcs12.TrustStoreEntry, len(r))
	for i, der := range r {
		// Of two entries of one name Java sees the last, and names of
		// authorities repeat.
		sum := sha256.Sum256(der)
		entries[i] = pkcs12.TrustStoreEntry{Cert: &x509.Certificate{Raw: der}, FriendlyName: hex.EncodeToString(sum[:])}
	}
	b, err := pkcs12.Passwordless.EncodeTrustStoreEntries(entries, "")
	if err != nil {
		return nil, fmt.Errorf("encode a Java trust store: %s", strings.TrimPrefix(err.Error(), "pkcs12: "))
	}
	return b, nil
}
