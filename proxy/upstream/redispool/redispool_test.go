package redispool_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"strconv"
	"sync/atomic"
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

// The user that the manual makes may do all that the ledger does.
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
	awake(t, s)
	var n atomic.Int32
	t.Run("", func(t *testing.T) {
		ledgertest.Run(t, func(t *testing.T) (a, b upstream.Ledger) {
			c := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "proxy", Password: "PASSWORD"})
			t.Cleanup(func() { c.Close() })
			prefix := fmt.Sprintf("session:%d:", n.Add(1))
			return open(t, c, prefix), open(t, c, prefix)
		})
	})
	if log, _ := s.Do("ACL", "LOG").([]any); len(log) > 0 { // a courtesy to other programs fails in silence
		t.Errorf("refused: %v", log)
	}
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
