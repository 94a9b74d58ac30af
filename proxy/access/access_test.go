package access_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/filestore"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	here = netip.MustParseAddr("192.0.2.1")
	seal = bytes.Repeat([]byte{7}, 32)
	ana  = config.Operator{Name: "ana", Password: "s3cret", Role: config.RoleOperator}
	vic  = config.Operator{Name: "vic", Password: "look", Role: config.RoleViewer}
)

func newStore(t testing.TB) access.Store {
	t.Helper()
	s, err := filestore.Open(filepath.Join(t.TempDir(), "access.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// newAuthority is a proxy's, with ana and vic; change spoils it.
func newAuthority(t testing.TB, store access.Store, change ...func(*access.Options)) *access.Authority {
	t.Helper()
	o := access.Options{
		Store: store, Seal: seal, Operators: []config.Operator{ana, vic},
		Passwords: password.NewVerifier(), Log: slog.New(slog.DiscardHandler),
	}
	for _, f := range change {
		f(&o)
	}
	a, err := access.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	return a
}

func logIn(t testing.TB, a *access.Authority) access.Tokens {
	t.Helper()
	tokens, err := a.Login(t.Context(), "ana", "s3cret", "laptop", here)
	if err != nil {
		t.Fatal(err)
	}
	return tokens
}

func wantBearer(t testing.TB, a *access.Authority, token string, want error) {
	t.Helper()
	if _, err := a.Bearer(t.Context(), token); !errors.Is(err, want) {
		t.Fatalf("the access token: %v, want %v", err, want)
	}
}

func refresh(t testing.TB, a *access.Authority, token string, want error) access.Tokens {
	t.Helper()
	tokens, err := a.Refresh(t.Context(), token, here)
	if !errors.Is(err, want) {
		t.Fatalf("the refresh token: %v, want %v", err, want)
	}
	return tokens
}

func TestLogin(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStore(t))
	for _, tt := range []struct {
		name, user, pass string
		want             error
		role             config.Role
	}{
		{"an operator", "ana", "s3cret", nil, config.RoleOperator},
		{"a viewer", "vic", "look", nil, config.RoleViewer},
		{"a wrong password", "ana", "look", access.ErrLogin, ""},
		{"no password", "ana", "", access.ErrLogin, ""},
		{"an unknown name", "eva", "s3cret", access.ErrLogin, ""},
		{"no name", "", "", access.ErrLogin, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tokens, err := a.Login(t.Context(), tt.user, tt.pass, "laptop", here)
			if !errors.Is(err, tt.want) {
				t.Fatalf("%v, want %v", err, tt.want)
			}
			if err != nil {
				return
			}
			who, err := a.Bearer(t.Context(), tokens.Access)
			if err != nil || who.Name != tt.user || who.Role != tt.role || who.Device == "" {
				t.Errorf("%+v, %v", who, err)
			}
		})
	}
	if a := newAuthority(t, newStore(t), func(o *access.Options) { o.Operators = nil }); a.Known("ana") {
		t.Error("nobody is declared, and ana is known")
	} else if _, err := a.Login(t.Context(), "", "", "", here); !errors.Is(err, access.ErrLogin) {
		t.Errorf("nobody is declared: %v", err)
	}
}

// The claims are those that are documented, and no more.
func TestWhatATokenSays(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStore(t))
	head, body, _ := strings.Cut(logIn(t, a).Access, ".")
	body, _, _ = strings.Cut(body, ".")
	decode := func(s string) map[string]any {
		b, err := base64.RawURLEncoding.DecodeString(s)
		var m map[string]any
		if err != nil || json.Unmarshal(b, &m) != nil {
			t.Fatalf("%q: %v", s, err)
		}
		return m
	}
	h, c := decode(head), decode(body)
	if h["alg"] != "EdDSA" || h["typ"] != "JWT" || h["kid"] == "" || len(h) != 3 {
		t.Errorf("header %v", h)
	}
	for _, name := range []string{"sub", "exp", "iat", "jti", "aud", "roles"} {
		if c[name] == nil {
			t.Errorf("no %s in %v", name, c)
		}
		delete(c, name)
	}
	if len(c) > 0 {
		t.Errorf("more than is documented: %v", c)
	}
}

func TestTokensEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		a := newAuthority(t, newStore(t))
		first := logIn(t, a)
		time.Sleep(access.AccessLife - time.Second)
		wantBearer(t, a, first.Access, nil)
		time.Sleep(30 * time.Second)
		wantBearer(t, a, first.Access, access.ErrToken)
		second := refresh(t, a, first.Refresh, nil)
		wantBearer(t, a, second.Access, nil)
		time.Sleep(access.RefreshLife - time.Minute)
		third := refresh(t, a, second.Refresh, nil) // each use makes it last
		time.Sleep(access.RefreshLife + time.Minute)
		refresh(t, a, third.Refresh, access.ErrToken)
		if all, err := a.Devices(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// Two tabs that refresh at once stay logged in.
func TestTwoThatRefreshAtOnceGetTheSame(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	a, b := newAuthority(t, store), newAuthority(t, store)
	first := logIn(t, a)
	var got [8]access.Tokens
	var wg sync.WaitGroup
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = []*access.Authority{a, b}[i%2].Refresh(t.Context(), first.Refresh, here); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, tokens := range got {
		if tokens.Refresh != got[0].Refresh {
			t.Fatal("two tabs have two refresh tokens: one of them will be taken for stolen")
		}
		wantBearer(t, b, tokens.Access, nil)
	}
	next := refresh(t, b, got[3].Refresh, nil)
	refresh(t, a, next.Refresh, nil)
}

// A refresh token that comes twice was stolen, or its successor was.
func TestAStolenRefreshTokenLogsItsDeviceOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		events, err := audit.Open(audit.Options{To: audit.Stdout, Stdout: &lines, Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		store := newStore(t)
		a := newAuthority(t, store, func(o *access.Options) { o.Audit = events })
		b := newAuthority(t, store)
		other := logIn(t, a)
		first := logIn(t, a)
		thief := refresh(t, b, first.Refresh, nil)
		time.Sleep(11 * time.Second)
		refresh(t, a, first.Refresh, access.ErrToken)
		for name, token := range map[string]string{"the thief's": thief.Access, "the victim's": first.Access} {
			if _, err := b.Bearer(t.Context(), token); !errors.Is(err, access.ErrToken) {
				t.Errorf("%s access token: %v", name, err)
			}
		}
		refresh(t, b, thief.Refresh, access.ErrToken)
		wantBearer(t, b, other.Access, nil) // another device of hers
		refresh(t, b, other.Refresh, nil)
		if err := events.Close(); err != nil {
			t.Fatal(err)
		}
		if got := lines.String(); !strings.Contains(got, `"action":"token_reuse","outcome":"refused"`) || !strings.Contains(got, `"by":"ana"`) || strings.Contains(got, first.Refresh) {
			t.Errorf("the audit log says %s", got)
		}
	})
}

func TestRefreshTokensThatAreNotOurs(t *testing.T) {
	t.Parallel()
	a, stranger := newAuthority(t, newStore(t)), newAuthority(t, newStore(t))
	good := logIn(t, a).Refresh
	id, rest, _ := strings.Cut(good, ".")
	_, sum, _ := strings.Cut(rest, ".")
	for name, token := range map[string]string{
		"another deployment's": logIn(t, stranger).Refresh,
		"a later turn":         id + ".7." + sum,
		"another device's":     strings.Repeat("0", 32) + ".0." + sum,
		"a negative turn":      id + ".-1." + sum,
		"one cut off":          good[:len(good)-1],
		"one too long":         good + strings.Repeat("x", 1<<20),
		"nothing":              "", "dots": "...",
	} {
		if _, err := a.Refresh(t.Context(), token, here); !errors.Is(err, access.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
	}
	refresh(t, a, good, nil) // and none of them did it harm
}

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

func TestOperatorsThatChange(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStore(t))
	tokens := logIn(t, a)
	browser, _, err := a.LoginBrowser(t.Context(), "ana", "s3cret", "Firefox", here)
	if err != nil {
		t.Fatal(err)
	}
	set := func(o ...config.Operator) {
		t.Helper()
		if err := a.SetOperators(o); err != nil {
			t.Fatal(err)
		}
	}
	set(config.Operator{Name: "ana", Password: "s3cret", Role: config.RoleViewer}, vic)
	if who, err := a.Bearer(t.Context(), tokens.Access); who.Role != config.RoleViewer || err != nil {
		t.Errorf("with another role now: %+v, %v", who, err)
	}
	set(config.Operator{Name: "ana", Password: "changed", Role: config.RoleViewer})
	refresh(t, a, tokens.Refresh, access.ErrToken)
	if _, err := a.Browser(t.Context(), browser, here); !errors.Is(err, access.ErrToken) {
		t.Errorf("a browser, with another password now: %v", err)
	}
	set(vic)
	wantBearer(t, a, tokens.Access, access.ErrToken)
}

func TestBrowsers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		a := newAuthority(t, store)
		value, who, err := a.LoginBrowser(t.Context(), "vic", "look", "Firefox", here)
		if err != nil || who.Role != config.RoleViewer {
			t.Fatal(who, err)
		}
		for range 4 { // it slides
			time.Sleep(access.BrowserLife - time.Second)
			if got, err := a.Browser(t.Context(), value, here); got != who || err != nil {
				t.Fatalf("%+v, %v; want %+v", got, err, who)
			}
		}
		records, err := store.List(t.Context(), "session:op:")
		if err != nil || len(records) != 1 || strings.Contains(fmt.Sprintf("%s", records), value) {
			t.Errorf("the store has the cookie itself: %s, %v", records, err)
		}
		if _, err := a.Browser(t.Context(), value[1:]+"A", here); !errors.Is(err, access.ErrToken) {
			t.Errorf("another cookie: %v", err)
		}
		time.Sleep(access.BrowserLife + time.Second)
		if _, err := a.Browser(t.Context(), value, here); !errors.Is(err, access.ErrToken) {
			t.Errorf("after its life: %v", err)
		}
		value, who, _ = a.LoginBrowser(t.Context(), "vic", "look", "Firefox", here)
		if err := a.RevokeDevice(t.Context(), who.Device); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Browser(t.Context(), value, here); !errors.Is(err, access.ErrToken) {
			t.Errorf("after it was revoked: %v", err)
		}
	})
}

func TestDevicesAreRevokedOneOrAll(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	a, b := newAuthority(t, store), newAuthority(t, store)
	one, two := logIn(t, a), logIn(t, a)
	eyes, err := a.Login(t.Context(), "vic", "look", "phone", here)
	if err != nil {
		t.Fatal(err)
	}
	all, err := b.Devices(t.Context())
	if err != nil || len(all) != 3 || all[0].Operator != "ana" || all[0].Name != "laptop" || all[0].From != here.String() || all[2].Name != "phone" {
		t.Fatalf("%+v, %v", all, err)
	}
	if err := a.RevokeDevice(t.Context(), one.Device); err != nil {
		t.Fatal(err)
	}
	wantBearer(t, b, one.Access, access.ErrToken)
	refresh(t, b, one.Refresh, access.ErrToken)
	wantBearer(t, b, two.Access, nil)
	if n, err := b.RevokeOperator(t.Context(), "ana"); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	wantBearer(t, a, two.Access, access.ErrToken)
	wantBearer(t, a, eyes.Access, nil)
	wantBearer(t, newAuthority(t, store), one.Access, access.ErrToken) // one that starts later knows, too
}

func TestGrants(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := newStore(t)
		a, b := newAuthority(t, store), newAuthority(t, store)
		g, token, err := a.Issue(t.Context(), access.Grant{Client: "crawler", Sites: []string{"shop"}, By: "ana"}, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		if !access.LooksLikeToken(token) || access.LooksLikeToken("s3cret") {
			t.Error("a token is taken for a password, or the reverse")
		}
		got, err := b.Client(t.Context(), token)
		if err != nil || got.Client != "crawler" || got.ID != g.ID || got.Sites[0] != "shop" {
			t.Errorf("%+v, %v", got, err)
		}
		if _, err := b.Bearer(t.Context(), token); !errors.Is(err, access.ErrToken) {
			t.Errorf("a proxy's token opens the admin API: %v", err)
		}
		if _, err := b.Client(t.Context(), logIn(t, a).Access); !errors.Is(err, access.ErrToken) {
			t.Errorf("an admin's token opens the proxy: %v", err)
		}
		synctest.Wait() // b follows
		var told []string
		b.OnDenied(func(id string) { told = append(told, id) })
		if ok, err := a.RevokeGrant(t.Context(), "nonsense"); ok || err != nil {
			t.Errorf("what was never issued is revoked: %t, %v", ok, err)
		}
		if ok, err := a.RevokeGrant(t.Context(), g.ID); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if _, err := b.Client(t.Context(), token); !errors.Is(err, access.ErrToken) || b.Good(t.Context(), got) {
			t.Errorf("after it was revoked: %v", err)
		}
		if len(told) != 1 || told[0] != g.ID {
			t.Errorf("told of %v, want %s", told, g.ID)
		}
		_, token, _ = a.Issue(t.Context(), access.Grant{Client: "crawler"}, time.Hour)
		if all, err := b.Grants(t.Context()); len(all) != 1 || err != nil {
			t.Errorf("%v, %v", all, err)
		}
		time.Sleep(time.Hour + time.Minute)
		if _, err := b.Client(t.Context(), token); !errors.Is(err, access.ErrToken) {
			t.Errorf("after its life: %v", err)
		}
	})
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
		kept, err := store.Get(t.Context(), "access:keys")
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

// faulty is a store that is away.
type faulty struct {
	access.Store
	mu   sync.Mutex
	away bool
}

var errAway = errors.New("the store is away")

func (f *faulty) Get(ctx context.Context, key string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		return nil, errAway
	}
	return f.Store.Get(ctx, key)
}

func (f *faulty) Follow(ctx context.Context, on func(access.Message)) { <-ctx.Done() } // and no message comes

// While messages may be missed each token is asked for; while the store is away
// too, what is known has to do.
func TestALinkThatIsLost(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	a, f := newAuthority(t, store), &faulty{Store: store}
	b := newAuthority(t, f)
	one, two := logIn(t, a), logIn(t, a)
	if err := a.RevokeDevice(t.Context(), one.Device); err != nil {
		t.Fatal(err)
	}
	wantBearer(t, b, one.Access, access.ErrToken)
	wantBearer(t, b, two.Access, nil)
	f.mu.Lock()
	f.away = true
	f.mu.Unlock()
	wantBearer(t, b, two.Access, nil)
	if _, err := b.Login(t.Context(), "ana", "s3cret", "laptop", here); err != nil {
		t.Errorf("login writes only: %v", err)
	}
	if _, err := b.Refresh(t.Context(), two.Refresh, here); !errors.Is(err, errAway) {
		t.Errorf("an outage looks like a bad token: %v", err)
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
