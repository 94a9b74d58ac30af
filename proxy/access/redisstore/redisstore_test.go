package redisstore_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/accesstest"
	"github.com/sessionproxy/sessionproxy/proxy/access/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// views opens stores over one server, each test with a prefix of its own.
func views(client func(t *testing.T) redis.UniversalClient) func(t *testing.T) (a, b access.Store) {
	var n atomic.Int64
	return func(t *testing.T) (a, b access.Store) {
		prefix := fmt.Sprintf("test%d:session:", n.Add(1))
		return redisstore.New(client(t), prefix), redisstore.New(client(t), prefix)
	}
}

func closing(t *testing.T, c redis.UniversalClient) redis.UniversalClient {
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestSingle(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	accesstest.Run(t, views(func(t *testing.T) redis.UniversalClient {
		return closing(t, redis.NewClient(&redis.Options{Addr: server.Addr}))
	}))
}

func TestCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.Cluster(t)
	accesstest.Run(t, views(func(t *testing.T) redis.UniversalClient {
		return closing(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{nodes.Nodes[0].Addr}}))
	}))
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	o, err := conn.Parse(group.URL())
	if err != nil {
		t.Fatal(err)
	}
	open := func(t *testing.T) redis.UniversalClient {
		c, err := conn.Open(o)
		if err != nil {
			t.Fatal(err)
		}
		return closing(t, c)
	}
	t.Run("the contract", func(t *testing.T) { accesstest.Run(t, views(open)) })

	// A replica that becomes the master keeps what was revoked, and messages go
	// on by it.
	a, b := redisstore.New(open(t), "session:"), redisstore.New(open(t), "session:")
	if _, err := a.Swap(t.Context(), "denied:x", nil, []byte("1"), time.Hour); err != nil {
		t.Fatal(err)
	}
	var heard atomic.Int64
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.Follow(ctx, func(m access.Message) {
			if m.Topic == "denied" {
				heard.Add(1)
			}
		})
	}()
	defer func() { stop(); <-done }()
	publish := func() bool {
		// While the master changes it may fail: that is the caller's to try again.
		_ = a.Publish(t.Context(), access.Message{Topic: "denied", Body: "y"})
		return heard.Load() > 0
	}
	redistest.Eventually(t, 20*time.Second, "a message comes by the first master", publish)
	group.Failover()
	heard.Store(0)
	redistest.Eventually(t, 20*time.Second, "a message comes by the new master", publish)
	redistest.Eventually(t, 20*time.Second, "the new master is read, and has what was revoked", func() bool {
		all, err := b.List(t.Context(), "denied:")
		return err == nil && string(all["denied:x"]) == "1"
	})
	redistest.Eventually(t, 20*time.Second, "the new master is written", func() bool {
		_, err := a.Swap(t.Context(), "denied:y", nil, []byte("1"), time.Hour)
		return err == nil
	})
}

// The user that the manual makes may do all that this store does.
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
	args := []any{"ACL", "SETUSER", "proxy"}
	for rule := range strings.FieldsSeq(string(line[1])) {
		args = append(args, rule)
	}
	accesstest.Run(t, func(t *testing.T) (a, b access.Store) {
		server := redistest.Single(t)
		server.Do(args...)
		client := closing(t, redis.NewClient(&redis.Options{Addr: server.Addr, Username: "proxy", Password: "PASSWORD"}))
		return redisstore.New(client, "session:"), redisstore.New(client, "session:")
	})
}

// The keys are those that other programs know.
func TestKeys(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	for prefix, want := range map[string]string{
		"session:":    "[denied:index denied:x refresh:index refresh:x session:op:index session:op:x]",
		"qa:session:": "[qa:denied:index qa:denied:x qa:refresh:index qa:refresh:x qa:session:op:index qa:session:op:x]",
		"qa:":         "[qa:denied:index qa:denied:x qa:op:index qa:op:x qa:refresh:index qa:refresh:x]",
	} {
		server.Do("FLUSHALL")
		s := redisstore.New(server.Client(), prefix)
		for _, key := range []string{"refresh:x", "denied:x", "session:op:x"} {
			if _, err := s.Swap(t.Context(), key, nil, []byte("1"), time.Hour); err != nil {
				t.Fatal(err)
			}
		}
		keys := server.Client().Keys(t.Context(), "*").Val()
		if got := fmt.Sprint(slices.Sorted(slices.Values(keys))); got != want {
			t.Errorf("prefix %s: %s, want %s", prefix, got, want)
		}
	}
}

// A link that is cut, or says nothing any more, is known to be lost in a second
// and a half, and made anew.
func TestALostLinkIsSaidToBe(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		lose, mend func(*redistest.Relay)
	}{
		{"cut", (*redistest.Relay).Cut, func(*redistest.Relay) {}},
		{"half open", (*redistest.Relay).Stall, (*redistest.Relay).Resume},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Single(t)
			relay := redistest.NewRelay(t, server.Addr)
			client := closing(t, redis.NewClient(&redis.Options{Addr: relay.Addr, DialTimeout: time.Second}))
			messages := make(chan access.Message, 100)
			ctx, stop := context.WithCancel(t.Context())
			done := make(chan struct{})
			go func() {
				defer close(done)
				redisstore.New(client, "session:").Follow(ctx, func(m access.Message) { messages <- m })
			}()
			t.Cleanup(func() { stop(); <-done })
			want := func(topic string, within time.Duration) {
				t.Helper()
				select {
				case m := <-messages:
					if m.Topic != topic {
						t.Fatalf("%v, want %s", m, topic)
					}
				case <-time.After(within):
					t.Fatalf("nothing in %v, want %s", within, topic)
				}
			}
			want(access.Began, 10*time.Second)
			tt.lose(relay)
			want(access.Ended, 3*time.Second) // 1 s and what a busy machine adds
			tt.mend(relay)
			want(access.Began, 10*time.Second)
			if err := redisstore.New(server.Client(), "session:").Publish(t.Context(), access.Message{Topic: "denied", Body: "x"}); err != nil {
				t.Fatal(err)
			}
			want("denied", 10*time.Second)
		})
	}
}
