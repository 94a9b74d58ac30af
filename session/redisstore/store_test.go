package redisstore

import (
	"cmp"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/storetest"
)

var (
	shop   = session.Key{Site: "shop.test", ID: session.DefaultID}
	hourly = session.Life{Idle: time.Hour}
)

// single returns a client of a Redis of its own.
func single(t testing.TB, options ...redistest.Option) (*redistest.Server, *conn.Client) {
	t.Helper()
	server := redistest.Single(t, options...)
	return server, dial(t, server.URL())
}

func dial(t testing.TB, url string) *conn.Client {
	t.Helper()
	o, err := conn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	client, err := conn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	return client
}

// blind is the tracker of a store that asks Redis each time.
type blind struct{}

func (blind) Coherent(string) bool { return false }
func (blind) Close()               {}

// start makes a store with a tracker of the test's own.
func start(t testing.TB, o Options, by tracker) *Store {
	t.Helper()
	s, err := newStore(o)
	if err != nil {
		t.Fatal(err)
	}
	s.start(by)
	return s
}

// patience is the budget of stores under test: a machine that is busy with other
// tests is no outage.
const patience = 10 * time.Second

// open opens a store that asks Redis each time, and closes it when the test is
// over.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	o.budget = cmp.Or(o.budget, patience)
	return closing(t, start(t, o, blind{}))
}

// follow opens a store that follows Redis, once it does.
func follow(t testing.TB, o Options) *Store {
	t.Helper()
	o.budget = cmp.Or(o.budget, patience)
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	closing(t, s)
	redistest.Eventually(t, 10*time.Second, "the tracker follows", func() bool { return s.tracker.Coherent(s.publicKey(shop)) })
	return s
}

func closing(t testing.TB, s *Store) *Store {
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

var prefixes atomic.Int64

// newPrefix keeps tests on one Redis apart.
func newPrefix() string { return fmt.Sprintf("test%d:", prefixes.Add(1)) }

func TestContract(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		url  func(t testing.TB) string
		open func(t testing.TB, o Options) *Store
	}{
		{"single", func(t testing.TB) string { return redistest.Single(t).URL() }, follow},
		{"single, not coherent", func(t testing.TB) string { return redistest.Single(t).URL() }, open},
		{"Sentinel", func(t testing.TB) string { return redistest.Sentinel(t).URL() }, follow},
		{"Cluster", func(t testing.TB) string { return redistest.Cluster(t).URL() }, follow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			client := dial(t, tt.url(t))
			t.Run("contract", func(t *testing.T) {
				storetest.Run(t, func(t *testing.T) session.Store {
					return tt.open(t, Options{Client: client, Prefix: newPrefix()})
				})
			})
			t.Run("durability", func(t *testing.T) {
				storetest.RunDurable(t, func(t *testing.T, dir string) session.Store {
					return tt.open(t, Options{Client: client, Prefix: dir + ":"})
				})
			})
		})
	}
}
