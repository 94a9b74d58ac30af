package trust

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

// newRoot makes an authority. Two of one name are different ones.
func newRoot(t *testing.T, name string) *x509.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}

func pemOf(cert *x509.Certificate) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Raw})
}

func write(t *testing.T, data []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "roots.pem")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestRootsAreThoseOfTheFileAndOurs(t *testing.T) {
	t.Parallel()
	a, b, ours := newRoot(t, "a"), newRoot(t, "b"), newRoot(t, "ours")
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: []byte("secret")})
	for _, tt := range []struct {
		name string
		file []byte
		want []*x509.Certificate
	}{
		{"ours comes last", bytes.Join([][]byte{pemOf(a), pemOf(b)}, nil), []*x509.Certificate{a, b, ours}},
		{"one that stands twice is taken once", bytes.Join([][]byte{pemOf(a), pemOf(b), pemOf(a)}, nil), []*x509.Certificate{a, b, ours}},
		{"a file that has ours already is as it was", bytes.Join([][]byte{pemOf(ours), pemOf(a)}, nil), []*x509.Certificate{ours, a}},
		{"comments and keys are left out", bytes.Join([][]byte{[]byte("# a\n"), pemOf(a), key, []byte("# end\n")}, nil), []*x509.Certificate{a, ours}},
		{"a last line without an end is read", bytes.TrimSpace(pemOf(a)), []*x509.Certificate{a, ours}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			roots, err := ReadRoots(write(t, tt.file))
			if err != nil {
				t.Fatal(err)
			}
			var want []byte
			for _, cert := range tt.want {
				want = append(want, pemOf(cert)...)
			}
			if got := roots.With(pemOf(ours)).PEM(); !bytes.Equal(got, want) {
				t.Errorf("bundle\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestWithLeavesTheRootsAsTheyAre(t *testing.T) {
	t.Parallel()
	roots := Roots(nil).With(pemOf(newRoot(t, "a")))
	one, two := roots.With(pemOf(newRoot(t, "b"))), roots.With(pemOf(newRoot(t, "c")))
	if len(roots) != 1 || bytes.Equal(one[1], two[1]) {
		t.Error("two bundles of the same roots share their last certificate")
	}
}

func TestReadRootsReports(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "none.pem")
	empty := write(t, []byte("# nothing\n"))
	for _, tt := range []struct{ name, file, want string }{
		{"a file that is missing", missing, "read roots: open " + missing + ": no such file or directory"},
		{"a file without certificates", empty, "read roots: " + empty + ": no PEM certificate in it"},
	} {
		if _, err := ReadRoots(tt.file); err == nil || err.Error() != tt.want {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}

func TestPKCS12HoldsEachRoot(t *testing.T) {
	t.Parallel()
	want := []*x509.Certificate{newRoot(t, "same name"), newRoot(t, "same name"), newRoot(t, "other")}
	var roots Roots
	for _, cert := range want {
		roots = roots.With(pemOf(cert))
	}
	b, err := roots.PKCS12()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := roots.PKCS12(); err != nil || !bytes.Equal(again, b) {
		t.Errorf("the same roots make another store the second time (%v)", err)
	}
	got, err := pkcs12.DecodeTrustStore(b, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != len(want) {
		t.Fatalf("%d certificates in the store, want %d", len(got), len(want))
	}
	for i := range want {
		if !got[i].Equal(want[i]) {
			t.Errorf("certificate %d is %s, want %s", i, got[i].Subject, want[i].Subject)
		}
	}
}

// The names are in the file as BMPStrings: UTF-16.
func TestPKCS12NamesEachRootOnce(t *testing.T) {
	t.Parallel()
	a, b := newRoot(t, "same name"), newRoot(t, "same name")
	store, err := Roots(nil).With(pemOf(a)).With(pemOf(b)).PKCS12()
	if err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll(string(store), "\x00", "")
	for _, cert := range []*x509.Certificate{a, b} {
		// The nickname's 16 digits are the first of the fingerprint.
		if n := strings.Count(text, strings.TrimPrefix(nickname(cert), "sessionproxy ")); n != 1 {
			t.Errorf("a root's own name is there %d times, want once", n)
		}
	}
}
