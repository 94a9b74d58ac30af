package redispool_test

import (
	"os"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/proxy/upstream/ledgertest"
)

// aclLine returns the first line behind the mark in a page of the manual.
func aclLine(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile("../../../docs/" + page)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "<!-- test: acl -->\n```\n")
	line, _, ok := strings.Cut(rest, "\n```")
	if !ok {
		t.Fatalf("%s has no ACL line", page)
	}
	return line
}

// The rights that the manual names are all that a ledger uses.
func TestTheRightsOfTheManualAreEnough(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	awake(t, s)
	for _, page := range []string{"redis.md", "upstreams.md"} {
		var args []any
		for word := range strings.FieldsSeq(aclLine(t, page)) {
			args = append(args, word)
		}
		s.Do(args...)
	}
	t.Run("the suite", func(t *testing.T) { // which is over then
		ledgertest.Run(t, func(t *testing.T) (a, b upstream.Ledger) {
			c := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "proxy", Password: "PASSWORD", DisableIdentity: true})
			t.Cleanup(func() { c.Close() })
			prefix := "session:" + t.Name() + ":"
			return open(t, c, prefix), open(t, c, prefix)
		})
	})
	log, _ := s.Do("ACL", "LOG").([]any)
	for _, entry := range log {
		t.Errorf("refused: %v", entry)
	}
}
