package redispool_test

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/redispool"
)

func TestMain(m *testing.M) {
	logging.Disable() // of go-redis: that a server is down is what tests are about
	goleak.VerifyTestMain(m)
}

// client returns a client of the server that ends with the test.
func client(t testing.TB, s *redistest.Server) redis.UniversalClient {
	t.Helper()
	o, err := redis.ParseURL(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	c := redis.NewClient(o)
	t.Cleanup(func() { c.Close() })
	return c
}

// open is the ledger of a proxy of the first that use Redis.
func open(t testing.TB, c redis.UniversalClient, prefix string) *redispool.Ledger {
	t.Helper()
	return newcomer(t, c, prefix, true)
}

// newcomer is the ledger of a proxy that says whether it is of the first.
func newcomer(t testing.TB, c redis.UniversalClient, prefix string, first bool) *redispool.Ledger {
	t.Helper()
	return redispool.New(redispool.Options{
		Client: c, Prefix: prefix, Log: slog.New(slog.DiscardHandler), New: first,
		LeaseTime: ledgertest.LeaseTime, ForeignTime: 2 * ledgertest.LeaseTime,
	})
}

func TestOneServer(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
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
