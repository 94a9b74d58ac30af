package certs

import (
	"bytes"
	"crypto"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func newKey(t testing.TB, kind string) crypto.Signer {
	t.Helper()
	var key crypto.Signer
	var err error
	switch kind {
	case "p256":
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "p384":
		key, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "rsa":
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case "ed25519":
		_, key, err = ed25519.GenerateKey(rand.Reader)
	}
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// issue signs a CA certificate for key, by the parent or by itself.
func issue(t testing.TB, name string, key crypto.Signer, parent *x509.Certificate, parentKey crypto.Signer, edit func(*x509.Certificate)) *x509.Certificate {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber:          newSerial(),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             time.Now().AddDate(-1, 0, 0),
		NotAfter:              time.Now().AddDate(1, 0, 0),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	if edit != nil {
		edit(template)
	}
	if parent == nil {
		parent, parentKey = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	c, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// makeCA makes a root of the kind.
func makeCA(t testing.TB, kind string, edit func(*x509.Certificate)) ([]*x509.Certificate, crypto.Signer) {
	t.Helper()
	key := newKey(t, kind)
	return []*x509.Certificate{issue(t, "Test Root", key, nil, nil, edit)}, key
}

func encodeChain(chain ...*x509.Certificate) []byte {
	var b bytes.Buffer
	for _, c := range chain {
		b.Write(encodeCertificate(c.Raw))
	}
	return b.Bytes()
}

func encodeKey(t testing.TB, key any) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
}

func write(t testing.TB, path string, data []byte, mode fs.FileMode) {
	t.Helper()
	if err := os.WriteFile(path, data, mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask
		t.Fatal(err)
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	rootKey := newKey(t, "p256")
	root := issue(t, "Test Root", rootKey, nil, nil, nil)
	rsaKey := newKey(t, "rsa").(*rsa.PrivateKey)
	ecKey := newKey(t, "p384").(*ecdsa.PrivateKey)
	edKey := newKey(t, "ed25519")
	rsaCA := issue(t, "Test RSA", rsaKey, root, rootKey, nil)
	ecCA := issue(t, "Test EC", ecKey, root, rootKey, nil)
	edRoot := issue(t, "Test Ed25519", edKey, nil, nil, nil)
	ecDER, err := x509.MarshalECPrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		cert, key []byte
		mode      fs.FileMode
		sent      int // certificates in a handshake
	}{
		{"an Ed25519 root", encodeChain(edRoot), encodeKey(t, edKey), 0o600, 1},
		{"an RSA intermediate without its root", encodeChain(rsaCA), encodeKey(t, rsaKey), 0o600, 2},
		{"an RSA intermediate with its root", encodeChain(rsaCA, root), encodeKey(t, rsaKey), 0o600, 2},
		{
			"an RSA key in PKCS #1", encodeChain(rsaCA),
			pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}), 0o400, 2,
		},
		{
			"an EC key behind its parameters, as openssl writes them", encodeChain(ecCA),
			join(pem.EncodeToMemory(&pem.Block{Type: "EC PARAMETERS", Bytes: []byte{5, 0}}), pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: ecDER})), 0o600, 2,
		},
		{"a key that its group may read", encodeChain(edRoot), encodeKey(t, edKey), 0o640, 1},
		{"key and certificate in one file", join(encodeKey(t, edKey), encodeChain(edRoot)), join(encodeChain(edRoot), encodeKey(t, edKey)), 0o600, 1},
		{"text before the PEM", join([]byte("subject: Test\n"), encodeChain(edRoot)), encodeKey(t, edKey), 0o600, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certFile, keyFile := filepath.Join(dir, "our.crt"), filepath.Join(dir, "our.key")
			write(t, certFile, tt.cert, 0o644)
			write(t, keyFile, tt.key, tt.mode)
			a, err := Load(certFile, keyFile)
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(a.PEM(), []byte("PRIVATE")) {
				t.Error("PEM gives the key out")
			}
			client := trusting(a, "shop.test")
			client.RootCAs.AddCert(root)
			state, err := handshake(t.Context(), serverConfig(a, bySNI), client)
			if err != nil {
				t.Fatal(err)
			}
			if got := len(state.PeerCertificates); got != tt.sent {
				t.Errorf("sent %d certificates, want %d", got, tt.sent)
			}
		})
	}
}

func join(a, b []byte) []byte { return bytes.Join([][]byte{a, b}, nil) }

func TestLoadRefuses(t *testing.T) {
	t.Parallel()
	chain, key := makeCA(t, "p256", nil)
	cert, keyPEM := encodeChain(chain...), encodeKey(t, key)
	edited := func(edit func(*x509.Certificate)) []byte {
		return encodeChain(issue(t, "Test Root", key, nil, nil, edit))
	}
	otherChain, otherKey := makeCA(t, "p256", nil)
	x25519, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		cert, key []byte // nil: no such file
		mode      fs.FileMode
		want      string
	}{
		{"no certificate", nil, keyPEM, 0o600, "open DIR/our.crt: no such file or directory"},
		{"no key", cert, nil, 0o600, "open DIR/our.key: no such file or directory"},
		{"an empty certificate", []byte{}, keyPEM, 0o600, "DIR/our.crt: no PEM certificate in it"},
		{"a certificate in DER", chain[0].Raw, keyPEM, 0o600, "DIR/our.crt: no PEM certificate in it"},
		{"a key for a certificate", keyPEM, keyPEM, 0o600, "DIR/our.crt: no PEM certificate in it"},
		{"a broken certificate", encodeCertificate([]byte("x")), keyPEM, 0o600, "DIR/our.crt: certificate 1: x509: malformed certificate"},
		{"a broken second certificate", join(cert, encodeCertificate([]byte("x"))), keyPEM, 0o600, "DIR/our.crt: certificate 2: x509: malformed certificate"},
		{
			"a server's certificate", edited(func(c *x509.Certificate) { c.IsCA, c.KeyUsage = false, x509.KeyUsageDigitalSignature }), keyPEM, 0o600,
			"DIR/our.crt: not a CA: its basic constraints do not say CA:TRUE",
		},
		{
			"a certificate without basic constraints", edited(func(c *x509.Certificate) { c.IsCA, c.BasicConstraintsValid = false, false }), keyPEM, 0o600,
			"DIR/our.crt: not a CA: its basic constraints do not say CA:TRUE",
		},
		{
			"a CA that may sign CRLs only", edited(func(c *x509.Certificate) { c.KeyUsage = x509.KeyUsageCRLSign }), keyPEM, 0o600,
			"DIR/our.crt: not a CA: its key usage lacks keyCertSign",
		},
		{
			"an expired CA", edited(func(c *x509.Certificate) { c.NotAfter = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }), keyPEM, 0o600,
			"DIR/our.crt: expired on 2026-01-02T03:04:05Z",
		},
		{
			"a CA of the future", edited(func(c *x509.Certificate) {
				c.NotBefore = time.Date(2999, 1, 2, 3, 4, 5, 0, time.UTC)
				c.NotAfter = c.NotBefore.AddDate(1, 0, 0)
			}), keyPEM, 0o600,
			"DIR/our.crt: not valid before 2999-01-02T03:04:05Z",
		},
		{
			"a chain with a stranger", encodeChain(chain[0], otherChain[0]), keyPEM, 0o600,
			"DIR/our.crt: certificate 1 is not signed by the next: x509: ECDSA verification failure",
		},
		{"an empty key", cert, []byte{}, 0o600, "DIR/our.key: no PEM private key in it"},
		{"a certificate for a key", cert, cert, 0o600, "DIR/our.key: no PEM private key in it"},
		{
			"an encrypted key", cert, pem.EncodeToMemory(&pem.Block{Type: "ENCRYPTED PRIVATE KEY", Bytes: []byte("x")}), 0o600,
			"DIR/our.key: the key is encrypted; decrypt it with openssl pkey",
		},
		{
			"a key encrypted the old way", cert,
			pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Headers: map[string]string{"Proc-Type": "4,ENCRYPTED", "DEK-Info": "AES-128-CBC,00"}, Bytes: []byte("x")}), 0o600,
			"DIR/our.key: the key is encrypted; decrypt it with openssl pkey",
		},
		{"a key that cannot sign", cert, encodeKey(t, x25519), 0o600, "DIR/our.key: a *ecdh.PrivateKey cannot sign"},
		{"another certificate's key", cert, encodeKey(t, otherKey), 0o600, "DIR/our.key: not the key of DIR/our.crt"},
		{"a key of another kind", cert, encodeKey(t, newKey(t, "ed25519")), 0o600, "DIR/our.key: not the key of DIR/our.crt"},
		{"a key that all may read", cert, keyPEM, 0o604, "DIR/our.key: mode 0604 opens the key to other users; chmod 600 DIR/our.key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			certFile, keyFile := filepath.Join(dir, "our.crt"), filepath.Join(dir, "our.key")
			if tt.cert != nil {
				write(t, certFile, tt.cert, 0o644)
			}
			if tt.key != nil {
				write(t, keyFile, tt.key, tt.mode)
			}
			_, err := Load(certFile, keyFile)
			wantError(t, err, dir, "load CA: "+tt.want)
		})
	}
}

// wantError compares an error's whole text; dir reads DIR in want.
func wantError(t *testing.T, err error, dir, want string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want %s", want)
	}
	if got := strings.ReplaceAll(err.Error(), dir, "DIR"); got != want {
		t.Errorf("error\n\t%s\nwant\n\t%s", got, want)
	}
}

// The client needs no copy of an intermediate: it comes with the leaf.
func TestChainIsComplete(t *testing.T) {
	t.Parallel()
	rootKey, key := newKey(t, "p256"), newKey(t, "p256")
	root := issue(t, "Test Root", rootKey, nil, nil, nil)
	a, err := newAuthority([]*x509.Certificate{issue(t, "Test Intermediate", key, root, rootKey, nil)}, key)
	if err != nil {
		t.Fatal(err)
	}
	client := &tls.Config{RootCAs: x509.NewCertPool(), ServerName: "shop.test"}
	client.RootCAs.AddCert(root)
	if _, err := handshake(t.Context(), serverConfig(a, bySNI), client); err != nil {
		t.Error(err)
	}
}
