package certs

import (
	"crypto"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"time"
)

// posix is false where files have no mode and directories cannot be synced.
const posix = runtime.GOOS != "windows"

// Load returns the operator's own authority. Both files are PEM. The first
// certificate is the issuer's; those above it may follow, each the signer of
// the one before, and go out with every leaf, but for a root. The key is RSA,
// ECDSA or Ed25519, not encrypted, and not open to all users: a group may read
// it, as Kubernetes (fsGroup) and Debian (ssl-cert) hand keys out.
func Load(certFile, keyFile string) (*Authority, error) {
	a, err := load(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("load CA: %w", err)
	}
	return a, nil
}

func load(certFile, keyFile string) (*Authority, error) {
	certPEM, err := os.ReadFile(certFile)
	if err != nil {
		return nil, err
	}
	keyPEM, err := readSecret(keyFile, 0o007)
	if err != nil {
		return nil, err
	}
	return files{certFile, keyFile}.authority(certPEM, keyPEM)
}

// files name the two halves of an authority.
type files struct{ cert, key string }

// authority makes one of what the files hold.
func (f files) authority(certPEM, keyPEM []byte) (*Authority, error) {
	chain, err := parseChain(certPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.cert, err)
	}
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.key, err)
	}
	if err := checkChain(chain, time.Now()); err != nil {
		return nil, fmt.Errorf("%s: %w", f.cert, err)
	}
	if pub, ok := chain[0].PublicKey.(interface{ Equal(crypto.PublicKey) bool }); !ok || !pub.Equal(key.Public()) {
		return nil, fmt.Errorf("%s: not the key of %s", f.key, f.cert)
	}
	return newAuthority(chain, key)
}

// readSecret reads path, unless its mode has one of the forbidden bits.
func readSecret(path string, forbidden fs.FileMode) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat() // of what is open, not of what path names by now
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); posix && mode&forbidden != 0 {
		return nil, fmt.Errorf("%s: mode %04o opens the key to other users; chmod 600 %[1]s", path, mode)
	}
	return io.ReadAll(f)
}

// parseChain returns the certificates in data, in their order; at least one.
func parseChain(data []byte) ([]*x509.Certificate, error) {
	var chain []*x509.Certificate
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("certificate %d: %w", len(chain)+1, err)
		}
		chain = append(chain, c)
	}
	if chain == nil {
		return nil, errors.New("no PEM certificate in it")
	}
	return chain, nil
}

// parseKey returns the first private key in data. Other blocks, such as
// openssl's EC PARAMETERS, are passed over.
func parseKey(data []byte) (crypto.Signer, error) {
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		var key any
		var err error
		switch {
		// RFC 7468 §11; the header is openssl's older way (RFC 1421 §4.6.1.1).
		case block.Type == "ENCRYPTED PRIVATE KEY", block.Headers["Proc-Type"] == "4,ENCRYPTED":
			return nil, errors.New("the key is encrypted; decrypt it with openssl pkey")
		case block.Type == "PRIVATE KEY":
			key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
		case block.Type == "EC PRIVATE KEY":
			key, err = x509.ParseECPrivateKey(block.Bytes)
		case block.Type == "RSA PRIVATE KEY":
			key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
		default:
			continue
		}
		if err != nil {
			return nil, err
		}
		signer, ok := key.(crypto.Signer)
		if !ok {
			return nil, fmt.Errorf("a %T cannot sign", key)
		}
		return signer, nil
	}
	return nil, errors.New("no PEM private key in it")
}

// checkChain says why the first certificate cannot sign leaves at now.
func checkChain(chain []*x509.Certificate, now time.Time) error {
	ca := chain[0]
	if !ca.BasicConstraintsValid || !ca.IsCA {
		return errors.New("not a CA: its basic constraints do not say CA:TRUE")
	}
	if ca.KeyUsage != 0 && ca.KeyUsage&x509.KeyUsageCertSign == 0 {
		return errors.New("not a CA: its key usage lacks keyCertSign")
	}
	for i := range len(chain) - 1 {
		if err := chain[i].CheckSignatureFrom(chain[i+1]); err != nil {
			return fmt.Errorf("certificate %d is not signed by the next: %w", i+1, err)
		}
	}
	return checkDates(ca, now)
}

func checkDates(c *x509.Certificate, now time.Time) error {
	if now.Before(c.NotBefore) {
		return fmt.Errorf("not valid before %s", c.NotBefore.UTC().Format(time.RFC3339))
	}
	if now.After(c.NotAfter) {
		return fmt.Errorf("expired on %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
	return nil
}
