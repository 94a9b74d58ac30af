package clientenv

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sessionproxy/sessionproxy/internal/trust"
)

// Bundle returns the roots that clients of the proxy trust: its CA, and those
// of the file that SSL_CERT_FILE names, else the system's. own says that the
// caller named that file: neither the system's, nor a bundle that the state
// directory holds already.
func Bundle(state string, ca []byte, lookupEnv func(string) (string, bool)) (roots trust.Roots, own bool, err error) {
	file, _ := lookupEnv("SSL_CERT_FILE")
	if file == filepath.Join(state, bundleName+".pem") {
		file = "" // a run inside a run: the system's roots may have changed since
	}
	system, err := trust.SystemFile()
	if file == "" {
		if err != nil {
			return nil, false, err
		}
		file = system
	}
	roots, err = trust.ReadRoots(file)
	if err != nil {
		return nil, false, err
	}
	return roots.With(ca), file != system, nil
}

const bundleName = "ca-bundle"

// writeFiles writes what the variables name into the state directory. Nothing
// in it is secret. A bundle of the caller's own roots gets a name of its own: a
// program that was started with others may still read the usual one.
func (s *settings) writeFiles(state string, ca []byte) error {
	roots, own, err := Bundle(state, ca, s.lookup)
	if err != nil {
		return err
	}
	bundle := roots.PEM()
	store, err := roots.PKCS12()
	if err != nil {
		return err
	}
	base := filepath.Join(state, bundleName)
	if own {
		sum := sha256.Sum256(bundle)
		base += fmt.Sprintf("-%x", sum[:6])
	}
	s.bundle, s.java, s.wgetrc, s.phpDir = base+".pem", base+".p12", base+".wgetrc", base+".php.d"
	if err := os.MkdirAll(s.phpDir, 0o755); err != nil { //nolint:gosec // paths of public files are no secret
		return fmt.Errorf("write the files of clients: %w", err)
	}
	for _, f := range []struct {
		path string
		data []byte
	}{
		{s.bundle, bundle},
		{s.java, store},
		{s.wgetrc, fmt.Appendf(nil, "ca_certificate = %s\n", s.bundle)},
		{filepath.Join(s.phpDir, "sessionproxy.ini"), fmt.Appendf(nil, "curl.cainfo = %s\nopenssl.cafile = %[1]s\n", iniQuote(s.bundle))},
	} {
		if err := writeChanged(f.path, f.data); err != nil {
			return fmt.Errorf("write the files of clients: %w", err)
		}
	}
	return nil
}

// iniQuote quotes a value of php.ini, where "${" would take a variable.
func iniQuote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`).Replace(s) + `"`
}

// writeChanged puts data at path, whole, unless it is there already.
func writeChanged(path string, data []byte) error {
	if was, err := os.ReadFile(path); err == nil && bytes.Equal(was, data) {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(f.Name()) }() // it has its place by then, or no use
	_, err = f.Write(data)
	if err := cmp.Or(err, f.Chmod(0o644), f.Close()); err != nil { // nothing in it is secret
		return err
	}
	return os.Rename(f.Name(), path)
}
