package redisstore_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/redisstore"
)

// proxies are three that share a Redis.
func proxies(t *testing.T, addr string) []*access.Authority {
	t.Helper()
	var all []*access.Authority
	for range 3 {
		client := closing(t, redis.NewClient(&redis.Options{Addr: addr}))
		a, err := access.New(t.Context(), access.Options{
			Store: redisstore.New(client, "session:"), Seal: bytes.Repeat([]byte{7}, 32), Passwords: password.NewVerifier(),
			Operators: []config.Operator{{Name: "ana", Password: "s3cret", Role: config.RoleOperator}}, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Close)
		all = append(all, a)
	}
	return all
}

// What one proxy lets in, all do, and what one revokes is refused by all: how
// soon is logged, and bounded loosely, since the machine may be busy.
func TestARevocationHoldsOnAllProxies(t *testing.T) {
	t.Parallel()
	all := proxies(t, redistest.Single(t).Addr)
	revoked := make([]chan string, len(all))
	for i, a := range all {
		revoked[i] = make(chan string, 1000)
		a.OnDenied(func(id string) { revoked[i] <- id })
	}
	var took []time.Duration
	for i := range 100 {
		tokens, err := all[i%3].Login(t.Context(), "ana", "s3cret", "laptop", netip.MustParseAddr("192.0.2.1"))
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range all {
			if _, err := a.Bearer(t.Context(), tokens.Access); err != nil {
				t.Fatal(err)
			}
		}
		begun := time.Now()
		if err := all[(i+1)%3].RevokeDevice(t.Context(), tokens.Device); err != nil {
			t.Fatal(err)
		}
		for n, a := range all {
			select {
			case <-revoked[n]:
			case <-time.After(10 * time.Second):
				t.Fatal("a proxy was never told")
			}
			if _, err := a.Bearer(t.Context(), tokens.Access); !errors.Is(err, access.ErrToken) {
				t.Fatalf("proxy %d: %v", n, err)
			}
		}
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	t.Logf("a revocation held on three proxies after %v (median), %v (p99)", took[50], took[98])
	if took[98] > time.Second {
		t.Errorf("p99 is %v", took[98])
	}
}

// A Redis that comes back empty takes the keys that the proxies have.
func TestKeysOutliveAnEmptyRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	all := proxies(t, server.Addr)
	_, token, err := all[0].Issue(t.Context(), access.Grant{Client: "crawler"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	server.Do("FLUSHALL")
	late := proxies(t, server.Addr)[0] // makes keys of its own
	_, other, err := late.Issue(t.Context(), access.Grant{Client: "crawler"}, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	for i, a := range append(all, late) {
		if _, err := a.Client(t.Context(), other); err != nil {
			t.Errorf("proxy %d knows no key that was made since: %v", i, err)
		}
		if _, err := a.Client(t.Context(), token); err != nil {
			t.Errorf("proxy %d forgot the key from before: %v", i, err)
		}
	}
}
