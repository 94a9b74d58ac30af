package redisstore

import (
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

// patience is the budget of stores under test: a machine that is busy with other
// tests is no outage.
const patience = 10 * time.Second

// open opens a store, and closes it when the test is over.
func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	s.budget = patience
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

func TestContractOnSingle(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	storetest.Run(t, func(t *testing.T) session.Store {
		return open(t, Options{Client: client, Prefix: newPrefix()})
	})
}

func TestContractOfDurabilityOnSingle(t *testing.T) {
	t.Parallel()
	_, client := single(t)
	storetest.RunDurable(t, func(t *testing.T, dir string) session.Store {
		return open(t, Options{Client: client, Prefix: dir + ":"})
	})
}

func TestContractOnSentinel(t *testing.T) {
	t.Parallel()
	group := redistest.Sentinel(t)
	client := dial(t, group.URL())
	storetest.Run(t, func(t *testing.T) session.Store {
		return open(t, Options{Client: client, Prefix: newPrefix()})
	})
}

func TestContractOnCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.Cluster(t)
	client := dial(t, cluster.URL())
	storetest.Run(t, func(t *testing.T) session.Store {
		return open(t, Options{Client: client, Prefix: newPrefix()})
	})
}
