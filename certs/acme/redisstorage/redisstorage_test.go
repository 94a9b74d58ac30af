package redisstorage_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/certs/acme/redisstorage"
	"github.com/sessionproxy/sessionproxy/certs/acme/storagetest"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is longer than a busy machine takes.
const patience = 30 * time.Second

func sealer(t *testing.T, b byte) *seal.Sealer {
	t.Helper()
	s, err := seal.New([][]byte{bytes.Repeat([]byte{b}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func open(t *testing.T, client redis.UniversalClient, prefix string, lease time.Duration) *redisstorage.Storage {
	t.Helper()
	s := redisstorage.New(redisstorage.Options{Client: client, Prefix: prefix, Sealer: sealer(t, 1), Lease: lease, Limit: patience})
	t.Cleanup(func() { _ = s.Close() }) // of locks that a test took from it
	return s
}

func contract(t *testing.T, client redis.UniversalClient) {
	var n atomic.Int32
	storagetest.Run(t, func(t *testing.T) (a, b certmagic.Storage) {
		prefix := fmt.Sprintf("session:%d:", n.Add(1))
		return open(t, client, prefix, patience), open(t, client, prefix, patience)
	})
}

func TestStorage(t *testing.T) {
	t.Parallel()
	contract(t, redistest.Single(t).Client())
}

func TestStorageInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr}})
	t.Cleanup(func() { client.Close() })
	contract(t, client)
}

// The user that the manual makes may do all that certificates take.
func TestTheManualsUserSuffices(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^<!-- test: acl -->\n```\nACL SETUSER proxy (.*)$").FindSubmatch(page)
	if line == nil {
		t.Fatal("docs/redis.md has no ACL line")
	}
	s := redistest.Single(t, redistest.User("proxy", string(line[1])))
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "proxy", Password: "PASSWORD"})
	t.Cleanup(func() { client.Close() })
	contract(t, client)
}

// Whoever reads Redis reads no private key, and whoever writes there can't give
// one name the key of another.
func TestAtRest(t *testing.T) {
	t.Parallel()
	r := redistest.Single(t)
	s := open(t, r.Client(), "session:", patience)
	if err := s.Store(t.Context(), "certs/x.test/x.test.key", []byte("PRIVATE KEY")); err != nil {
		t.Fatal(err)
	}
	if err := s.Lock(t.Context(), "issue_cert_x.test"); err != nil {
		t.Fatal(err)
	}
	keys := r.Client().Keys(t.Context(), "*").Val()
	for _, key := range keys {
		if !strings.HasPrefix(key, "session:acme:{all}:") {
			t.Errorf("key %s", key)
		}
	}
	files := r.Client().HGetAll(t.Context(), "session:acme:{all}:files").Val()
	stored := files["certs/x.test/x.test.key"]
	if len(keys) != 2 || len(files) != 1 || stored == "" || strings.Contains(stored, "PRIVATE") {
		t.Errorf("keys %q, files %q", keys, files)
	}
	r.Client().HSet(t.Context(), "session:acme:{all}:files", "certs/y.test/y.test.key", stored)
	if got, err := s.Load(t.Context(), "certs/y.test/y.test.key"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("at another place it is %q, %v", got, err)
	}
	other := redisstorage.New(redisstorage.Options{Client: r.Client(), Prefix: "session:", Sealer: sealer(t, 2)})
	if got, err := other.Load(t.Context(), "certs/x.test/x.test.key"); !errors.Is(err, seal.ErrSealed) {
		t.Errorf("with another key it is %q, %v", got, err)
	}
}

// A holder that is alive keeps its lock beyond any lease; one that was killed
// loses it, and what it writes after is refused.
func TestAKilledHolderIsFencedOff(t *testing.T) {
	t.Parallel()
	r := redistest.Single(t)
	dies := redis.NewClient(&redis.Options{Network: "unix", Addr: r.Socket, Username: "tester", Password: redistest.Password})
	t.Cleanup(func() { dies.Close() })
	const lock = "issue_cert_x.test"
	a := open(t, stalling(dies), "session:", 150*time.Millisecond)
	b := open(t, r.Client(), "session:", 150*time.Millisecond)
	if err := a.Lock(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	for range 4 { // of its heartbeats: three leases and more
		beats(t, r)
	}
	if done, err := b.TryLock(t.Context(), lock); done || err != nil {
		t.Fatalf("the lock of a living holder: %t, %v", done, err)
	}
	if err := a.Store(t.Context(), "certs/x.test/x.test.key", []byte("a's")); err != nil {
		t.Fatal(err)
	}

	stalled.Store(true) // as a process that is stopped, or a machine that swaps
	if err := b.Lock(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if err := b.Store(t.Context(), "certs/x.test/x.test.key", []byte("b's")); err != nil {
		t.Fatal(err)
	}
	stalled.Store(false)
	for name, late := range map[string]func() error{
		"store":  func() error { return a.Store(t.Context(), "certs/x.test/x.test.crt", []byte("a's")) },
		"delete": func() error { return a.Delete(t.Context(), "certs/x.test") },
		"renew":  func() error { return a.RenewLockLease(t.Context(), lock, time.Hour) },
	} {
		if err := late(); err == nil || !strings.Contains(err.Error(), "lost to another proxy") {
			t.Errorf("%s by who lost the lock: %v", name, err)
		}
	}
	// The certificates of others are none of that lock's business.
	if err := a.Store(t.Context(), "certs/y.test/y.test.crt", []byte("a's")); err != nil {
		t.Error(err)
	}
	if got, err := b.Load(t.Context(), "certs/x.test/x.test.key"); string(got) != "b's" || err != nil {
		t.Errorf("the key is %q, %v, want b's", got, err)
	}
	if err := b.Unlock(t.Context(), lock); err != nil {
		t.Fatal(err)
	}
	if err := a.RenewLockLease(t.Context(), lock, time.Hour); err != nil {
		t.Errorf("before the next attempt: %v", err)
	}
	if err := a.Store(t.Context(), "certs/x.test/x.test.key", []byte("a's")); err != nil {
		t.Errorf("in the next attempt: %v", err)
	}
	if err := a.Unlock(t.Context(), lock); err != nil {
		t.Error(err)
	}
}

var stalled atomic.Bool

// stalling is a client whose commands do not come through while stalled is set.
func stalling(c *redis.Client) *redis.Client {
	c.AddHook(stall{})
	return c
}

type stall struct{}

var errStalled = errors.New("stalled")

func (stall) DialHook(next redis.DialHook) redis.DialHook { return next }

func (stall) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (stall) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if stalled.Load() {
			cmd.SetErr(errStalled)
			return errStalled
		}
		return next(ctx, cmd)
	}
}

// beats waits until a lock's life was made longer.
func beats(t *testing.T, r *redistest.Server) {
	t.Helper()
	const key = "session:acme:{all}:lock:issue_cert_x.test"
	last := r.Client().PTTL(t.Context(), key).Val()
	redistest.Eventually(t, patience, "a heartbeat", func() bool {
		now := r.Client().PTTL(t.Context(), key).Val()
		longer := now > last
		last = now
		return longer
	})
}
