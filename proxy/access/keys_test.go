package access_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"log/slog"
	"regexp"
	"strconv"
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
	real := jwt.MapClaims{}
	parsed, _, err := jwt.NewParser().ParseUnverified(logIn(t, a).Access, real)
	if err != nil {
		t.Fatal(err)
	}
	kid := parsed.Header["kid"].(string)
	_, foreign, _ := ed25519.GenerateKey(rand.Reader)
	claims := func(change ...string) jwt.MapClaims {
		c := jwt.MapClaims{"sub": "ana", "aud": "sessionproxy:admin", "jti": "x.y", "proof": real["proof"], "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix()}
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
		"no proof":                             sign(jwt.SigningMethodEdDSA, mine, claims("proof")),
		"a proof of another password":          sign(jwt.SigningMethodEdDSA, mine, with("proof", strings.Repeat("0", 32))),
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

// What a token's header and claims may hold that is odd, although our own key
// has signed it: nothing of it is obeyed.
func TestOddTokens(t *testing.T) {
	t.Parallel()
	_, mine, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	a := newAuthority(t, newStore(t), func(o *access.Options) { o.Keys = []access.Key{keyOf(t, mine)} })
	parts := strings.Split(logIn(t, a).Access, ".")
	read := func(part string) string {
		b, err := base64.RawURLEncoding.DecodeString(part)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	head, body := read(parts[0]), read(parts[1])
	kid := regexp.MustCompile(`"kid":"([^"]+)"`).FindStringSubmatch(head)[1]
	sign := func(head, body string) string {
		text := base64.RawURLEncoding.EncodeToString([]byte(head)) + "." + base64.RawURLEncoding.EncodeToString([]byte(body))
		return text + "." + base64.RawURLEncoding.EncodeToString(ed25519.Sign(mine, []byte(text)))
	}
	in := func(text, old, new string) string {
		t.Helper()
		if !strings.Contains(text, old) {
			t.Fatalf("no %s in %s", old, text)
		}
		return strings.Replace(text, old, new, 1)
	}
	alg := func(value string) string { return sign(in(head, `"EdDSA"`, value), body) }
	key := func(value string) string { return sign(in(head, `"`+kid+`"`, value), body) }
	also := func(member string) string { return sign(in(head, "{", "{"+member+","), body) }
	claim := func(name, value string) string {
		return sign(head, regexp.MustCompile(`"`+name+`":("[^"]*"|\[[^]]*\]|[0-9]+)`).ReplaceAllString(body, `"`+name+`":`+value))
	}
	at := func(d time.Duration) string { return strconv.FormatInt(time.Now().Add(d).Unix(), 10) }
	public := base64.RawURLEncoding.EncodeToString(mine.Public().(ed25519.PublicKey))

	for name, token := range map[string]string{
		"as it was":                  sign(head, body),
		"by a clock that is ahead":   claim("iat", at(8*time.Second)),
		"ended by a clock behind":    claim("exp", at(-5*time.Second)),
		"begun by a clock ahead":     sign(head, in(body, "{", `{"nbf":`+at(8*time.Second)+`,`)),
		"with fractions of a second": claim("exp", at(time.Minute)+".5"),
	} {
		if who, err := a.Bearer(t.Context(), token); err != nil || who.Name != "ana" {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	for name, token := range map[string]string{
		"another case of alg":                 alg(`"eddsa"`),
		"alg with a space":                    alg(`"EdDSA "`),
		"alg in a list":                       alg(`["EdDSA"]`),
		"alg in an object":                    alg(`{"alg":"EdDSA"}`),
		"alg of nothing":                      alg(`null`),
		"alg twice":                           sign(in(head, `"EdDSA"`, `"EdDSA","alg":"none"`), body),
		"a kid that is a path":                key(`"../../../../dev/null"`),
		"a kid with a path after it":          key(`"` + kid + `/../` + kid + `"`),
		"a kid that is SQL":                   key(`"x' UNION SELECT '` + public + `' --"`),
		"a kid that is an address":            key(`"http://169.254.169.254/key"`),
		"a kid with a NUL":                    key(`"` + kid + `\u0000"`),
		"a kid of another case":               key(`"` + strings.ToUpper(kid) + `"`),
		"a kid in a list":                     key(`["` + kid + `"]`),
		"a kid that is a number":              key(`1`),
		"no kid":                              key(`null`),
		"an extension that must count":        also(`"crit":["b64"],"b64":false`),
		"a time of issue far ahead":           claim("iat", at(time.Minute)),
		"an end without end":                  claim("exp", "1e400"),
		"an end before time began":            claim("exp", "-9223372036854775808"),
		"not before a minute":                 sign(head, in(body, "{", `{"nbf":`+at(time.Minute)+`,`)),
		"an audience with a space":            claim("aud", `["sessionproxy:admin "]`),
		"an audience that is a number":        claim("aud", `1`),
		"a subject in a list":                 claim("sub", `["ana"]`),
		"a subject of another case":           claim("sub", `"Ana"`),
		"an ID of nothing":                    claim("jti", `""`),
		"claims that are a list":              sign(head, "["+body+"]"),
		"claims, and more after them":         sign(head, body+body),
		"a header that is no object":          sign(`"EdDSA"`, body),
		"a token in a token":                  sign(in(head, "{", `{"cty":"JWT",`), `"`+sign(head, body)+`"`),
		"more than 4 KiB":                     also(`"x":"` + strings.Repeat("A", 5000) + `"`),
		"a MiB":                               "eyJ" + strings.Repeat("A", 1<<20) + ".e30.A",
		"five parts, as an encrypted one has": sign(head, body) + ".A.A",
		"padding":                             parts[0] + "." + parts[1] + "." + parts[2] + "==",
		"a line end":                          sign(head, body) + "\n",
	} {
		if who, err := a.Bearer(t.Context(), token); !errors.Is(err, access.ErrToken) {
			t.Errorf("%s: %+v, %v", name, who, err)
		}
	}
	// A key that the token itself brings is none of ours.
	_, theirs, _ := ed25519.GenerateKey(rand.Reader)
	brought := base64.RawURLEncoding.EncodeToString(theirs.Public().(ed25519.PublicKey))
	mine = theirs
	for _, member := range []string{`"jwk":{"kty":"OKP","crv":"Ed25519","x":"` + brought + `"}`, `"jku":"http://127.0.0.1/keys"`, `"x5u":"http://127.0.0.1/key"`} {
		if _, err := a.Bearer(t.Context(), also(member)); !errors.Is(err, access.ErrToken) {
			t.Errorf("%s: %v", member, err)
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
