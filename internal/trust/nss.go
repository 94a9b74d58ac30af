package trust

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// nssPlaces are where browsers keep their databases, below a home directory.
// truststore knows two of them, and says nothing where one of several fails.
var nssPlaces = []string{
	".pki/nssdb", // Chromium and its kin on Linux
	".local/share/pki/nssdb",
	"snap/chromium/current/.pki/nssdb",
	".mozilla/firefox/*",
	".config/mozilla/firefox/*",
	"snap/firefox/common/.mozilla/firefox/*",
	".var/app/org.mozilla.firefox/.mozilla/firefox/*",
	"Library/Application Support/Firefox/Profiles/*", // macOS
}

// NSS is a database of Chromium or Firefox.
type NSS struct{ certutil, dir string }

// FindNSS returns the databases below home. Chromium makes its own when it
// first needs one, so with create there is one at least.
func FindNSS(ctx context.Context, home string, create bool) ([]NSS, error) {
	var dirs []string
	for _, place := range nssPlaces {
		found, err := fs.Glob(os.DirFS(home), place+"/cert9.db")
		if err != nil {
			return nil, fmt.Errorf("find NSS databases: %w", err)
		}
		for _, f := range found {
			dirs = append(dirs, filepath.Join(home, filepath.Dir(f)))
		}
	}
	if runtime.GOOS == "windows" || len(dirs) == 0 && !create {
		return nil, nil // on Windows, certutil is another program, and browsers read the system's store
	}
	certutil, err := exec.LookPath("certutil")
	if err != nil {
		return nil, errors.New("find certutil, which NSS databases need: install libnss3-tools (Debian), nss-tools (Fedora) or nss (Homebrew)")
	}
	if len(dirs) == 0 {
		dir := filepath.Join(home, nssPlaces[0])
		err := os.MkdirAll(dir, 0o700)
		if err == nil {
			_, err = run(ctx, nil, certutil, "-d", "sql:"+dir, "-N", "--empty-password")
		}
		if err != nil {
			return nil, fmt.Errorf("make an NSS database: %w", err)
		}
		dirs = []string{dir}
	}
	all := make([]NSS, len(dirs))
	for i, dir := range dirs {
		all[i] = NSS{certutil, dir}
	}
	return all, nil
}

// Name implements [Store].
func (n NSS) Name() string { return n.dir }

// Install implements [Store].
func (n NSS) Install(ctx context.Context, cert *x509.Certificate) error {
	pemData := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
	_, err := n.run(ctx, pemData, "-A", "-t", "C,,", "-n", nickname(cert), "-a")
	return err
}

// Uninstall implements [Store].
func (n NSS) Uninstall(ctx context.Context, cert *x509.Certificate) error {
	if _, err := n.run(ctx, nil, "-L", "-n", nickname(cert)); err != nil {
		_, err = n.run(ctx, nil, "-L") // it is not there, unless nothing can be read
		return err
	}
	_, err := n.run(ctx, nil, "-D", "-n", nickname(cert))
	return err
}

func (n NSS) run(ctx context.Context, stdin []byte, args ...string) ([]byte, error) {
	return run(ctx, stdin, n.certutil, append([]string{"-d", "sql:" + n.dir}, args...)...)
}

// nickname is a certificate's name in the stores that want one. Subjects may
// repeat.
func nickname(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.Raw)
	return fmt.Sprintf("sessionproxy %x", sum[:8])
}
