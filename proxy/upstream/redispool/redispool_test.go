package redispool_test

import (
	"context"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/redispool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// client returns a client of the server that ends with the test.
func client(t *testing.T, s *redistest.Server) redis.UniversalClient {
	t.Helper()
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

func open(t *testing.T, c redis.UniversalClient, prefix string) *redispool.Ledger {
	t.Helper()
	return redispool.New(redispool.Options{
		Client: c, Prefix: prefix, Log: slog.New(slog.DiscardHandler),
		LeaseTime: ledgertest.LeaseTime, ForeignTime: 2 * ledgertest.LeaseTime,
	})
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	awake(t, s)
	ledgertest.Run(t, func(t *testing.T) (a, b upstream.Ledger) {
		c := client(t, s)
		prefix := t.Name() + ":"
		return open(t, c, prefix), open(t, c, prefix)
	})
}

// awake waits until the server has run for longer than a lease: before, there
// may be leases of the run before.
func awake(t *testing.T, s *redistest.Server) {
	t.Helper()
	c := client(t, s)
	redistest.Eventually(t, 10*ledgertest.LeaseTime, "the server has run for a while", func() bool {
		up, err := c.InfoMap(context.Background(), "server").Result()
		if err != nil {
			return false
		}
		seconds, err := strconv.Atoi(up["Server"]["uptime_in_seconds"])
		return err == nil && time.Duration(seconds-1)*time.Second >= ledgertest.LeaseTime
	})
}
