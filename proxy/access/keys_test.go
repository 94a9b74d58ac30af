package access_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// Whoever forges a token fails, whatever its header says.
func TestForgedTokens(t *testing.T) {
	t.Parallel()
	_, mine, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t, newStore(t), func(o *access.Options) { o.Keys = []access.Key{keyOf(t, mine)} })
	kid := func(token string) string {
		parsed, _, err := jwt.NewParser().ParseUnverified(token, jwt.MapClaims{})
		if err != nil {
			t.Fatal(err)
		}
		return parsed.Header["kid"].(string)
	}(logIn(t, a).Access)
	_, foreign, _ := ed25519.GenerateKey(rand.Reader)
	claims := func(change ...string) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "ana", "aud": "sessionproxy:admin", "jti": "x.y", "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
		for _, name := range change {
			delete(c, name)
		}
		return c
	}
	sign := func(m jwt.SigningMethod, key any, c jwt.MapClaims) string {
		token := jwt.NewWithClaims(m, c)
		token.Header["kid"] = kid
		s, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	with := func(name string, value any) jwt.MapClaims {
		c := claims()
		c[name] = value
		return c
	}
	wantBearer(t, a, sign(jwt.SigningMethodEdDSA, mine, claims()), nil) // so that the rows fail for their reason
	public := []byte(mine.Public().(ed25519.PublicKey))
	for name, token := range map[string]string{
		"alg none":                             sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, claims()),
		"a foreign key":                        sign(jwt.SigningMethodEdDSA, foreign, claims()),
		"HMAC by the public key":               sign(jwt.SigningMethodHS256, public, claims()),
		"no end":                               sign(jwt.SigningMethodEdDSA, mine, claims("exp")),
		"no audience":                          sign(jwt.SigningMethodEdDSA, mine, claims("aud")),
		"no ID":                                sign(jwt.SigningMethodEdDSA, mine, claims("jti")),
		"no subject":                           sign(jwt.SigningMethodEdDSA, mine, claims("sub")),
		"no time":                              sign(jwt.SigningMethodEdDSA, mine, claims("iat")),
		"two audiences":                        sign(jwt.SigningMethodEdDSA, mine, with("aud", []string{"sessionproxy:admin", "sessionproxy:proxy"})),
		"the proxy's audience":                 sign(jwt.SigningMethodEdDSA, mine, with("aud", "sessionproxy:proxy")),
		"an operator that nobody declares":     sign(jwt.SigningMethodEdDSA, mine, with("sub", "eva")),
		"one that has ended":                   sign(jwt.SigningMethodEdDSA, mine, with("exp", time.Now().Add(-time.Minute).Unix())),
		"one from the future":                  sign(jwt.SigningMethodEdDSA, mine, with("iat", time.Now().Add(time.Hour).Unix())),
		"a signature changed in its last bits": sign(jwt.SigningMethodEdDSA, mine, claims()) + "A",
		"no token":                             "eyJ.x.y",
	} {
		if _, err := a.Bearer(t.Context(), token); !errors.Is(err, access.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func keyOf(t testing.TB, private ed25519.PrivateKey) access.Key {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	k, err := access.ParseKey(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// The store's keys are made anew each month, and the old are good for as long
// as tokens are that they signed.
func TestKeysAreRotated(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		a, b := newAuthority(t, store), newAuthority(t, store)
		_, token, err := a.Issue(t.Context(), access.Grant{Client: "crawler"}, access.MaxProxyLife)
		if err != nil {
			t.Fatal(err)
		}
		device := logIn(t, a)
		time.Sleep(29 * 24 * time.Hour / 4)
		device = refresh(t, a, device.Refresh, nil)
		for range 3 {
			time.Sleep(29 * 24 * time.Hour / 4)
			device = refresh(t, a, device.Refresh, nil)
		}
		if _, err := b.Client(t.Context(), token); err != nil {
			t.Errorf("before the rotation: %v", err)
		}
		time.Sleep(25 * time.Hour)
		device = refresh(t, b, device.Refresh, nil)
		wantBearer(t, a, device.Access, nil)
		late := newAuthority(t, store)
		_, fresh, err := late.Issue(t.Context(), access.Grant{Client: "crawler"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.Client(t.Context(), fresh); err != nil {
			t.Errorf("by the new key: %v", err)
		}
		kept, err := store.Get(t.Context(), "session:access:keys")
		if err != nil || strings.Count(string(kept), `"made"`) != 2 {
			t.Errorf("%s, %v; want two keys", kept, err)
		}
	})
}

func TestKeysInTheStoreAreSealed(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	a := newAuthority(t, store)
	tokens := logIn(t, a)
	// One with another secret makes its own, and says so.
	var log bytes.Buffer
	other := newAuthority(t, store, func(o *access.Options) {
		o.Seal, o.Log = bytes.Repeat([]byte{8}, 32), slog.New(slog.NewTextHandler(&log, nil))
	})
	wantBearer(t, other, tokens.Access, access.ErrToken)
	if !strings.Contains(log.String(), "another CA") {
		t.Errorf("it logs %q", log.String())
	}
}

func TestParseKey(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "nonsense", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"} {
		if _, err := access.ParseKey([]byte(text)); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	store := newStore(f)
	a := newAuthority(f, store)
	f.Fuzz(func(t *testing.T, token string) {
		if _, err := a.Bearer(context.Background(), token); err == nil {
			t.Error("a token that nobody signed is good")
		}
		if _, err := a.Refresh(context.Background(), token, here); err == nil {
			t.Error("a refresh token that nobody made is good")
		}
	})
}
