package certs

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestOpenMakesACA(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "state")
	a, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		path string
		want fs.FileMode
	}{{dir, 0o700}, {filepath.Join(dir, "ca.key"), 0o600}, {filepath.Join(dir, "ca.pem"), 0o644}} {
		info, err := os.Stat(tt.path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != tt.want {
			t.Errorf("%s has mode %04o, want %04o", tt.path, got, tt.want)
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 2 {
		t.Errorf("%v in the directory (%v), want key and certificate", entries, err)
	}

	ca := a.issuer()
	if key, ok := ca.PublicKey.(*ecdsa.PublicKey); !ok || key.Curve != elliptic.P256() {
		t.Errorf("key is a %T, want P-256", ca.PublicKey)
	}
	if !ca.IsCA || !ca.MaxPathLenZero || ca.KeyUsage != x509.KeyUsageCertSign {
		t.Errorf("CA %t, path length %d, usage %b, want a CA that signs leaves only", ca.IsCA, ca.MaxPathLen, ca.KeyUsage)
	}
	if left := time.Until(a.Expires()); left < 3651*24*time.Hour || left > 3653*24*time.Hour {
		t.Errorf("ends in %v, want ten years", left)
	}
	if name := ca.Subject.CommonName; !regexp.MustCompile(`^sessionproxy CA .+ [0-9a-f]{8}$`).MatchString(name) || len(name) > 64 {
		t.Errorf("common name %q", name)
	}

	again, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !a.New() || again.New() {
		t.Errorf("new the first time: %t, the second: %t", a.New(), again.New())
	}
	if again.Fingerprint() != a.Fingerprint() {
		t.Error("the second start has another CA")
	}
	if other := newAuth(t); other.issuer().Subject.CommonName == ca.Subject.CommonName {
		t.Errorf("two CAs named %q", ca.Subject.CommonName)
	}
}

func TestOpenAtOnceAgrees(t *testing.T) {
	t.Parallel()
	for range 20 {
		dir := filepath.Join(t.TempDir(), "state")
		var got [8]*Authority
		var errs [8]error
		var wg sync.WaitGroup
		start := make(chan struct{})
		for i := range got {
			wg.Go(func() {
				<-start
				got[i], errs[i] = Open(dir, nil)
			})
		}
		close(start)
		wg.Wait()
		for i, a := range got {
			if errs[i] != nil {
				t.Fatal(errs[i])
			}
			if !bytes.Equal(a.DER(), got[0].DER()) {
				t.Fatal("two processes on one directory have two CAs")
			}
		}
	}
}

func TestOpenAfterHalfAStart(t *testing.T) {
	t.Parallel()
	const renew = "remove DIR/ca.pem and DIR/ca.key to have a new CA made, which clients must then trust"
	chain, key := makeCA(t, "p256", nil)
	cert, keyPEM := encodeChain(chain...), encodeKey(t, key)
	old := encodeChain(issue(t, "Test Root", key, nil, nil, func(c *x509.Certificate) {
		c.NotAfter = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	}))
	for _, tt := range []struct {
		name      string
		cert, key []byte // nil: no such file
		mode      fs.FileMode
		want      string // "": it opens
	}{
		{"whole", cert, keyPEM, 0o600, ""},
		{"a key that not even its owner may write", cert, keyPEM, 0o400, ""},
		{"a key without its certificate gets one", nil, keyPEM, 0o600, ""},
		{"a certificate without its key", cert, nil, 0, "DIR/ca.pem has lost its key; put DIR/ca.key back, or " + renew},
		{"a torn key", cert, keyPEM[:40], 0o600, "DIR/ca.key: no PEM private key in it; " + renew},
		{"a torn key without a certificate", nil, keyPEM[:40], 0o600, "DIR/ca.key: no PEM private key in it; remove it to have a new CA made"},
		{"an empty key", cert, []byte{}, 0o600, "DIR/ca.key: no PEM private key in it; " + renew},
		{"a torn certificate", cert[:40], keyPEM, 0o600, "DIR/ca.pem: no PEM certificate in it; " + renew},
		{"another key", cert, encodeKey(t, newKey(t, "p256")), 0o600, "DIR/ca.key: not the key of DIR/ca.pem; " + renew},
		{"an expired CA", old, keyPEM, 0o600, "DIR/ca.pem: expired on 2026-01-02T03:04:05Z; " + renew},
		{"a key that its group may read", cert, keyPEM, 0o640, "DIR/ca.key: mode 0640 opens the key to other users; chmod 600 DIR/ca.key"},
		{"a key that all may read", cert, keyPEM, 0o644, "DIR/ca.key: mode 0644 opens the key to other users; chmod 600 DIR/ca.key"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			write(t, filepath.Join(dir, ".ca.key-123"), []byte("left by a crash"), 0o600)
			if tt.cert != nil {
				write(t, filepath.Join(dir, "ca.pem"), tt.cert, 0o644)
			}
			if tt.key != nil {
				write(t, filepath.Join(dir, "ca.key"), tt.key, tt.mode)
			}
			a, err := Open(dir, nil)
			if tt.want != "" {
				wantError(t, err, dir, "open CA: "+tt.want)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := handshake(t.Context(), serverConfig(a, bySNI), trusting(a, "shop.test")); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenReportsWhatTheDiskSays(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "state"), nil, 0o600)
	_, err := Open(filepath.Join(dir, "state"), nil)
	wantError(t, err, dir, "open CA: mkdir DIR/state: not a directory")
}

func TestConstrainedCA(t *testing.T) {
	t.Parallel()
	names := []string{"shop.test", "*.wild.test:8443"}
	addresses := []string{"192.0.2.1", "[2001:db8::1]:443"}
	for _, tt := range []struct {
		name      string
		permitted []string
		host      string
		want      bool
	}{
		{"a named host", names, "shop.test", true},
		{"a host below a named one", names, "www.shop.test", true},
		{"a host under a wildcard", names, "a.b.wild.test", true},
		{"another host", names, "bank.test", false},
		{"a host that only ends alike", names, "myshop.test", false},
		{"an address, where only names are permitted", names, "192.0.2.1", false},
		{"an IPv6 address, where only names are permitted", names, "2001:db8::1", false},
		{"a named address", addresses, "192.0.2.1", true},
		{"a named IPv6 address", addresses, "2001:db8::1", true},
		{"another address", addresses, "192.0.2.2", false},
		{"another IPv6 address", addresses, "2001:db8::2", false},
		{"an IPv6 address, where only IPv4 is permitted", addresses[:1], "2001:db8::1", false},
		{"a host, where only addresses are permitted", addresses, "shop.test", false},
		{"any host, where none is permitted", []string{}, "shop.test", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, err := Open(t.TempDir(), tt.permitted)
			if err != nil {
				t.Fatal(err)
			}
			if !critical(a.issuer(), oidNameConstraints) {
				t.Error("name constraints are not critical")
			}
			_, err = handshake(t.Context(), serverConfig(a, func(*tls.ClientHelloInfo) string { return tt.host }), trusting(a, tt.host))
			if got := err == nil; got != tt.want {
				t.Errorf("client of %s: %v, want accepted %t", tt.host, err, tt.want)
			}
		})
	}
}

func TestOpenAsksForOtherConstraints(t *testing.T) {
	t.Parallel()
	const noIP = " and never 0.0.0.0/0, ::/0"
	for _, tt := range []struct {
		name       string
		has, asked []string
		want       string // "": it opens
	}{
		{"the same", []string{"shop.test"}, []string{"shop.test"}, ""},
		{"the same in other words", []string{"a.test", "b.test"}, []string{"*.b.test", "B.test:8443", "a.test."}, ""},
		{"none and none", nil, nil, ""},
		{"none, then some", nil, []string{"shop.test"}, "permits any host, the settings ask for only shop.test" + noIP},
		{"some, then none", []string{"shop.test"}, nil, "permits only shop.test" + noIP + ", the settings ask for any host"},
		{"one more", []string{"shop.test"}, []string{"shop.test", "192.0.2.1"}, "permits only shop.test" + noIP + ", the settings ask for only 192.0.2.1/32, shop.test and never ::/0"},
		{"nothing at all", nil, []string{}, "permits any host, the settings ask for any host but 0.0.0.0/0, ::/0, DNS names"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			first, err := Open(dir, tt.has)
			if err != nil {
				t.Fatal(err)
			}
			second, err := Open(dir, tt.asked)
			if tt.want != "" {
				wantError(t, err, dir, "open CA: DIR/ca.pem "+tt.want+"; remove DIR/ca.pem and DIR/ca.key to have a new CA made, which clients must then trust")
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if first.Fingerprint() != second.Fingerprint() {
				t.Error("the second start has another CA")
			}
		})
	}
}

func TestOpenRefusesAPattern(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "state")
	for _, pattern := range []string{"", "*", "*.", "a.*.test", "bücher.test", "shop test", "10.0.0.0/8"} {
		_, err := Open(dir, []string{"shop.test", pattern})
		wantError(t, err, dir, `open CA: constrain to "`+pattern+`": neither a host name nor an IP address`)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("a CA was made nevertheless")
	}
}

func TestCommonNameFitsItsField(t *testing.T) {
	t.Parallel()
	if got := commonName(bytes.Repeat([]byte{0xab}, 20)); len(got) > 64 || !strings.HasSuffix(got, " abababab") {
		t.Errorf("common name %q", got)
	}
}
