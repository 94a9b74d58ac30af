package access_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
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
	return logInAs(t, a, "ana", "s3cret")
}

func logInAs(t testing.TB, a *access.Authority, name, pass string) access.Tokens {
	t.Helper()
	tokens, err := a.Login(t.Context(), name, pass, "laptop", here)
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
	for _, name := range []string{"sub", "exp", "iat", "jti", "aud", "roles", "proof"} {
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
		metrics := prometheus.NewRegistry()
		events, err := audit.Open(audit.Options{To: audit.Stdout, Stdout: &lines, Log: slog.New(slog.DiscardHandler), Metrics: metrics})
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
		if err := testutil.GatherAndCompare(metrics, strings.NewReader(`
# HELP sessionproxy_audit_events_total Lines of the audit log, those that are suppressed as repetitions not counted.
# TYPE sessionproxy_audit_events_total counter
sessionproxy_audit_events_total{action="token_reuse",outcome="refused",reason="reuse"} 1
`), "sessionproxy_audit_events_total"); err != nil {
			t.Error(err)
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

func TestOperatorsThatChange(t *testing.T) {
	t.Parallel()
	a := newAuthority(t, newStore(t))
	tokens := logIn(t, a)
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
	for what, change := range map[string][]config.Operator{
		"another password": {{Name: "ana", Password: "changed", Role: config.RoleOperator}, vic},
		"nobody":           {vic},
	} {
		t.Run(what, func(t *testing.T) {
			set(ana, vic)
			tokens, eyes := logIn(t, a), logInAs(t, a, "vic", "look")
			browser, _, err := a.LoginBrowser(t.Context(), "ana", "s3cret", "Firefox", here)
			if err != nil {
				t.Fatal(err)
			}
			out := func(when string) {
				t.Helper()
				wantBearer(t, a, tokens.Access, access.ErrToken)
				refresh(t, a, tokens.Refresh, access.ErrToken)
				if _, err := a.Browser(t.Context(), browser, here); !errors.Is(err, access.ErrToken) {
					t.Errorf("a browser, %s: %v", when, err)
				}
			}
			set(change...)
			out("at once")
			if all, err := a.Devices(t.Context()); err != nil || slices.ContainsFunc(all, func(d access.Device) bool { return d.Operator == "ana" }) {
				t.Errorf("her devices are %+v, %v", all, err)
			}
			set(ana, vic)
			out("when she is declared as before")
			wantBearer(t, a, logIn(t, a).Access, nil)
			wantBearer(t, a, eyes.Access, nil) // vic has not changed
			refresh(t, a, eyes.Refresh, nil)
		})
	}
}

// A proxy that was not there when a password was changed takes no token of the
// old one, and lets alone what others issue by it.
func TestAProxyThatBeginsWithAnotherPassword(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	old := newAuthority(t, store)
	tokens := logIn(t, old)
	changed := newAuthority(t, store, func(o *access.Options) {
		o.Operators = []config.Operator{{Name: "ana", Password: "changed", Role: config.RoleOperator}}
	})
	wantBearer(t, changed, tokens.Access, access.ErrToken)
	refresh(t, changed, tokens.Refresh, access.ErrToken)
	wantBearer(t, old, tokens.Access, nil)
	refresh(t, old, tokens.Refresh, nil)
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
