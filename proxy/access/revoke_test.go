package access_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

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

// faulty is a store that is away.
type faulty struct {
	access.Store
	mu    sync.Mutex
	away  bool
	asked int // while it was
}

var errAway = errors.New("the store is away")

func (f *faulty) Get(ctx context.Context, key string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.away {
		f.asked++
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
	for range 100 {
		wantBearer(t, b, two.Access, nil)
	}
	f.mu.Lock()
	if f.asked > 10 { // once a second
		t.Errorf("a store that is away was asked %d times for 100 tokens", f.asked)
	}
	f.mu.Unlock()
	if _, err := b.Login(t.Context(), "ana", "s3cret", "laptop", here); err != nil {
		t.Errorf("login writes only: %v", err)
	}
	if _, err := b.Refresh(t.Context(), two.Refresh, here); !errors.Is(err, errAway) {
		t.Errorf("an outage looks like a bad token: %v", err)
	}
}
