package certs

import (
	"cmp"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Open returns the authority that dir keeps in ca.pem and ca.key, and makes it
// where there is none: P-256, good for ten years, the key readable by its owner
// alone. A new dir gets mode 0700; its file system needs hard links. Several
// processes may open one empty dir at once: all get the same authority. A start
// cut short is completed by the next.
//
// With permitted, host patterns of the form "shop.test", "*.shop.test" or an IP
// address, each with or without a port, the authority is constrained to these
// hosts, and those below the names: clients refuse its leaves for any other.
// Nil sets no constraint. An authority that is constrained otherwise than asked
// is an error that names the remedy, as is every fault of the files.
func Open(dir string, permitted []string) (*Authority, error) {
	a, err := open(dir, permitted)
	if err != nil {
		return nil, fmt.Errorf("open CA: %w", err)
	}
	return a, nil
}

func open(dir string, permitted []string) (*Authority, error) {
	var asked x509.Certificate
	if err := constrain(&asked, permitted); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}

	// The key is there before its certificate, always: a key alone can be given
	// its certificate later, by the next start or by another process.
	f := files{cert: filepath.Join(dir, "ca.pem"), key: filepath.Join(dir, "ca.key")}
	keyPEM, err := f.readKey()
	if errors.Is(err, fs.ErrNotExist) {
		keyPEM, err = f.makeKey()
	}
	if err != nil {
		return nil, err
	}
	made := false
	certPEM, err := os.ReadFile(f.cert)
	if errors.Is(err, fs.ErrNotExist) {
		certPEM, made, err = f.makeCertificate(keyPEM, permitted)
	}
	if err != nil {
		return nil, err
	}

	a, err := f.authority(certPEM, keyPEM)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, f.remedy())
	}
	a.made = made
	if got, want := constraints(a.issuer()), constraints(&asked); got != want {
		return nil, fmt.Errorf("%s permits %s, the settings ask for %s; %s", f.cert, got, want, f.remedy())
	}
	return a, nil
}

// remedy is for faults that only a new authority mends. Both files go: a new
// certificate for an old key would leave the old one as good as ever.
func (f files) remedy() string {
	return fmt.Sprintf("remove %s and %s to have a new CA made, which clients must then trust", f.cert, f.key)
}

func (f files) readKey() ([]byte, error) { return readSecret(f.key, 0o077) }

// makeKey writes a new key, or returns the one that another process wrote first.
func (f files) makeKey() ([]byte, error) {
	if _, err := os.Lstat(f.cert); err == nil {
		// Another process has made both since we looked, or the key is lost.
		keyPEM, err := f.readKey()
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s has lost its key; put %s back, or %s", f.cert, f.key, f.remedy())
		}
		return keyPEM, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	err = writeNew(f.key, 0o600, keyPEM)
	if errors.Is(err, fs.ErrExist) {
		return f.readKey()
	}
	return keyPEM, err
}

// makeCertificate writes a certificate for the key, or returns the one that
// another process wrote first. made tells the two apart.
func (f files) makeCertificate(keyPEM []byte, permitted []string) (certPEM []byte, made bool, err error) {
	key, err := parseKey(keyPEM)
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w; remove it to have a new CA made", f.key, err)
	}
	id, err := keyID(key.Public())
	if err != nil {
		return nil, false, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: newSerial(),
		Subject:      pkix.Name{CommonName: commonName(id)},
		// As old as a leaf claims to be on the first day.
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.AddDate(10, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true, // it signs leaves and no other CA
		SubjectKeyId:          id,
	}
	if err := constrain(template, permitted); err != nil {
		return nil, false, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, false, err
	}
	certPEM = encodeCertificate(der)
	err = writeNew(f.cert, 0o644, certPEM)
	if errors.Is(err, fs.ErrExist) {
		certPEM, err = os.ReadFile(f.cert)
		return certPEM, false, err
	}
	return certPEM, err == nil, err
}

// commonName tells this authority from others in a trust store: for people by
// its machine, and by its key, for clients look an issuer up by its name
// (RFC 5280 §6.1.3). RFC 5280 appendix A.1 grants 64 characters.
func commonName(keyID []byte) string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("sessionproxy CA %s %x", strings.ToValidUTF8(host[:min(len(host), 39)], ""), keyID[:4])
}

// writeNew puts data at path, whole and on disk, or returns fs.ErrExist where
// a file is already. A rename would replace that file; a link does not.
func writeNew(path string, mode fs.FileMode, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err := cmp.Or(err, f.Chmod(mode), f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// syncDir puts the names in dir on disk.
func syncDir(dir string) error {
	if !posix {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
