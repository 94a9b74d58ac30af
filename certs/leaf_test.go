package certs

import (
	"bytes"
	"context"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"encoding/asn1"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestLeafFields(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	long := strings.Repeat("a", 63) + ".shop.test"
	serials := make(map[string]bool)
	for _, tt := range []struct{ name, host, san string }{
		{"a name", "shop.test", "DNS shop.test"},
		{"case and final dot do not matter", "Shop.TEST.", "DNS shop.test"},
		{"a name over 64 characters", long, "DNS " + long},
		{"an A-label", "xn--bcher-kva.test", "DNS xn--bcher-kva.test"},
		{"digits alone are a name", "1.2.3", "DNS 1.2.3"},
		{"an IPv4 address", "192.0.2.1", "IP 192.0.2.1"},
		{"an IPv6 address", "2001:db8::1", "IP 2001:db8::1"},
		{"an IPv6 address, another spelling", "2001:DB8:0::0:1", "IP 2001:db8::1"},
		{"an IPv6 address with a zone", "fe80::1%eth0", "IP fe80::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			cert, err := a.Leaf(t.Context(), tt.host)
			if err != nil {
				t.Fatal(err)
			}
			leaf := cert.Leaf
			if leaf == nil || !bytes.Equal(leaf.Raw, cert.Certificate[0]) {
				t.Fatal("the parsed leaf is not the one sent")
			}
			if len(cert.Certificate) != 1 {
				t.Errorf("%d certificates sent, want the leaf without its root", len(cert.Certificate))
			}
			var sans []string
			for _, name := range leaf.DNSNames {
				sans = append(sans, "DNS "+name)
			}
			for _, ip := range leaf.IPAddresses {
				sans = append(sans, "IP "+ip.String())
			}
			if len(sans) != 1 || sans[0] != tt.san {
				t.Errorf("SANs %q, want %q alone", sans, tt.san)
			}
			if name := leaf.Subject.String(); name != "" || !critical(leaf, oidSAN) {
				t.Errorf("subject %q, SAN critical %t, want an empty subject and a critical SAN", name, critical(leaf, oidSAN))
			}
			if life := leaf.NotAfter.Sub(leaf.NotBefore) + time.Second; life != 90*24*time.Hour {
				t.Errorf("lives %v, want 90 days", life)
			}
			if age := time.Since(leaf.NotBefore); age < 24*time.Hour-2*time.Second || age > 24*time.Hour+time.Minute {
				t.Errorf("backdated %v, want a day", age)
			}
			if len(leaf.SubjectKeyId) != 20 || !bytes.Equal(leaf.AuthorityKeyId, a.issuer().SubjectKeyId) {
				t.Errorf("SKI %x, AKI %x, want the AKI to be the CA's %x", leaf.SubjectKeyId, leaf.AuthorityKeyId, a.issuer().SubjectKeyId)
			}
			if leaf.IsCA || leaf.KeyUsage != x509.KeyUsageDigitalSignature || len(leaf.ExtKeyUsage) != 1 || leaf.ExtKeyUsage[0] != x509.ExtKeyUsageServerAuth {
				t.Errorf("CA %t, usage %b, extended %v, want a TLS server's", leaf.IsCA, leaf.KeyUsage, leaf.ExtKeyUsage)
			}
			if bits := leaf.SerialNumber.BitLen(); bits < 96 || bits > 128 {
				t.Errorf("serial of %d bits, want 128 random ones", bits)
			}
			if _, err := leaf.Verify(x509.VerifyOptions{Roots: trusting(a, "").RootCAs}); err != nil {
				t.Error(err)
			}
			serials[leaf.SerialNumber.String()] = true
		})
	}
	if int64(len(serials)) != a.Signed() {
		t.Errorf("%d serials on %d leaves", len(serials), a.Signed())
	}
}

var (
	oidSAN             = asn1.ObjectIdentifier{2, 5, 29, 17}
	oidNameConstraints = asn1.ObjectIdentifier{2, 5, 29, 30}
)

func critical(c *x509.Certificate, id asn1.ObjectIdentifier) bool {
	for _, e := range c.Extensions {
		if e.Id.Equal(id) {
			return e.Critical
		}
	}
	return false
}

func TestLeafRefuses(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	for _, tt := range []struct{ name, host string }{
		{"no host", ""},
		{"a dot", "."},
		{"a wildcard", "*.shop.test"},
		{"an empty label", "shop..test"},
		{"two final dots", "shop.test.."},
		{"a label over 63 characters", strings.Repeat("a", 64) + ".test"},
		{"a name over 253 characters", strings.Repeat("a.", 127) + "b"},
		{"a U-label", "bücher.test"},
		{"a port", "shop.test:443"},
		{"an address in brackets", "[::1]"},
		{"a space", "shop test"},
		{"a NUL", "shop.test\x00.evil.test"},
		{"an URL", "https://shop.test/"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			want := fmt.Sprintf("sign leaf for %q: neither a host name nor an IP address", tt.host)
			if _, err := a.Leaf(t.Context(), tt.host); err == nil || err.Error() != want {
				t.Errorf("Leaf(%q): %v, want %s", tt.host, err, want)
			}
		})
	}
	if got := a.Signed(); got != 0 {
		t.Errorf("signed %d leaves", got)
	}
}

// A gate is a key that signs when it is opened.
type gate struct {
	crypto.Signer
	asked chan struct{} // one for each signature that is wanted
	open  chan struct{}
}

func (g *gate) Sign(r io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	g.asked <- struct{}{}
	<-g.open
	return g.Signer.Sign(r, digest, opts)
}

func newGated(t *testing.T) (*Authority, *gate) {
	t.Helper()
	chain, key := makeCA(t, "p256", nil)
	g := &gate{key, make(chan struct{}, 100), make(chan struct{})}
	a, err := newAuthority(chain, g)
	if err != nil {
		t.Fatal(err)
	}
	return a, g
}

func TestManyAskersOneSigning(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a, gate := newGated(t)
		var got [100]*tls.Certificate
		var wg sync.WaitGroup
		for i := range got {
			wg.Go(func() { got[i], _ = a.Leaf(t.Context(), "shop.test") })
		}
		synctest.Wait() // all wait: for a signature, or for whoever asked for one
		if n := len(gate.asked); n != 1 {
			t.Errorf("%d signatures under way for one host, want 1", n)
		}
		close(gate.open)
		wg.Wait()
		for i, cert := range got {
			if cert == nil || cert != got[0] {
				t.Errorf("asker %d got another leaf than the first", i+1)
			}
		}
		if n := a.Signed(); n != 1 {
			t.Errorf("signed %d leaves, want 1", n)
		}
	})
}

func TestLeafEndsWithItsContext(t *testing.T) {
	t.Parallel()
	a, gate := newGated(t)
	var patient *tls.Certificate
	var wg sync.WaitGroup
	wg.Go(func() { patient, _ = a.Leaf(t.Context(), "shop.test") })
	<-gate.asked
	gone := errors.New("client went away")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	if _, err := a.Leaf(ctx, "shop.test"); !errors.Is(err, gone) {
		t.Errorf("impatient asker: %v, want %v", err, gone)
	}
	close(gate.open)
	wg.Wait()
	if patient == nil || a.Signed() != 1 {
		t.Errorf("patient asker got %v after %d signings", patient, a.Signed())
	}
}

func TestCacheIsBounded(t *testing.T) {
	t.Parallel()
	a := newAuth(t)
	now := time.Now()
	signed, err := a.sign("shop.test", now)
	if err != nil {
		t.Fatal(err)
	}
	const hosts = 10_000
	for i := range hosts {
		l := *signed // signing each would only take time
		l.host = fmt.Sprintf("%d.shop.test", i)
		a.leaves.put(&l)
		if a.leaves.get("0.shop.test", now) == nil {
			t.Fatalf("a host in use was forgotten after %d others", i)
		}
		if held := len(a.leaves.byHost); held != min(i+1, maxLeaves) || held != a.leaves.recent.Len() {
			t.Fatalf("holds %d leaves and %d in order after %d hosts", held, a.leaves.recent.Len(), i+1)
		}
	}
	for _, tt := range []struct {
		name, host string
		signs      int64
	}{
		{"the host in use", "0.shop.test", 0},
		{"the last host", fmt.Sprintf("%d.shop.test", hosts-1), 0},
		{"the oldest that fits beside them", fmt.Sprintf("%d.shop.test", hosts-maxLeaves+1), 0},
		{"the youngest that does not", fmt.Sprintf("%d.shop.test", hosts-maxLeaves), 1},
	} {
		before := a.Signed()
		if _, err := a.Leaf(t.Context(), tt.host); err != nil {
			t.Fatal(err)
		}
		if n := a.Signed() - before; n != tt.signs {
			t.Errorf("%s, %s: signed %d leaves, want %d", tt.name, tt.host, n, tt.signs)
		}
	}
}

func TestLeafAndTheClock(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	for _, tt := range []struct {
		name   string
		caLife time.Duration
		later  time.Duration
		want   string // same, new, or the error
	}{
		{"is kept for two thirds of its life", 365 * day, 59*day - time.Minute, "same"},
		{"is renewed when less than a third is left", 365 * day, 59*day + time.Minute, "new"},
		{"is renewed after its end", 365 * day, 100 * day, "new"},
		{"is kept when the clock is set back an hour", 365 * day, -time.Hour, "same"},
		{"is renewed when the clock is set back to before it", 365 * day, -2 * day, "new"},
		{"that ends with its CA is kept to the end", 3 * day, 3*day - time.Minute, "same"},
		{"that cannot outlive its CA is renewed once", 80 * day, 60 * day, "same"},
		{"is refused after the CA's end", 3 * day, 3*day + time.Minute, `sign leaf for "shop.test": CA expired on 2026-12-04T00:00:00Z`},
		{"is refused before the CA's start", 3 * day, -8 * day, `sign leaf for "shop.test": CA not valid before 2026-11-24T00:00:00Z`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			noon := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
			chain, key := makeCA(t, "p256", func(c *x509.Certificate) {
				c.NotBefore, c.NotAfter = noon.Add(-7*day), noon.Add(tt.caLife)
			})
			a, err := newAuthority(chain, key)
			if err != nil {
				t.Fatal(err)
			}
			a.now = func() time.Time { return noon }
			first, err := a.Leaf(t.Context(), "shop.test")
			if err != nil {
				t.Fatal(err)
			}
			a.now = func() time.Time { return noon.Add(tt.later) }
			second, err := a.Leaf(t.Context(), "shop.test")
			got := "new"
			switch {
			case err != nil:
				got = err.Error()
			case first == second:
				got = "same"
			}
			if got != tt.want {
				t.Errorf("%v later: %s, want %s", tt.later, got, tt.want)
			}
			for _, cert := range []*tls.Certificate{first, second} {
				if cert != nil && (cert.Leaf.NotAfter.After(chain[0].NotAfter) || cert.Leaf.NotBefore.Before(chain[0].NotBefore)) {
					t.Errorf("leaf from %v to %v outlives its CA, %v to %v", cert.Leaf.NotBefore, cert.Leaf.NotAfter, chain[0].NotBefore, chain[0].NotAfter)
				}
			}
		})
	}
}

func TestLeafIsBackdatedNoFurtherThanItsCA(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Second)
	chain, key := makeCA(t, "p256", func(c *x509.Certificate) { c.NotBefore = now })
	a, err := newAuthority(chain, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Leaf(t.Context(), "shop.test")
	if err != nil {
		t.Fatal(err)
	}
	if !cert.Leaf.NotBefore.Equal(now) {
		t.Errorf("leaf from %v, want its CA's start %v", cert.Leaf.NotBefore, now)
	}
}

func TestCachedLeafAllocatesNothing(t *testing.T) {
	a := newAuth(t)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { a.Leaf(ctx, "shop.test") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkLeafCached(b *testing.B) {
	a := newAuth(b)
	ctx := b.Context()
	b.ReportAllocs()
	for b.Loop() {
		a.Leaf(ctx, "shop.test")
	}
}

func BenchmarkLeafSign(b *testing.B) {
	for _, kind := range []string{"p256", "rsa", "ed25519"} {
		b.Run(kind, func(b *testing.B) {
			a, err := newAuthority(makeCA(b, kind, nil))
			if err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			b.ReportAllocs()
			for b.Loop() {
				if _, err := a.sign("shop.test", now); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
