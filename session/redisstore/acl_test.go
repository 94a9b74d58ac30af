package redisstore

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/storetest"
)

// The user that the manual makes may do all that the store does.
func TestTheManualsUserSuffices(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^<!-- test: acl -->\n```\nACL SETUSER proxy (.*)$").FindSubmatch(page)
	if line == nil {
		t.Fatal("docs/redis.md has no ACL line")
	}
	args := []any{"ACL", "SETUSER", "proxy"}
	for _, rule := range strings.Fields(string(line[1])) {
		args = append(args, rule)
	}
	server := redistest.Single(t)
	server.Do(args...)
	client := dial(t, "redis://proxy:PASSWORD@"+server.Addr)
	storetest.Run(t, func(t *testing.T) session.Store {
		return follow(t, Options{Client: client, Prefix: "session:" + newPrefix()})
	})
	t.Cleanup(func() {
		if log, _ := server.Do("ACL", "LOG").([]any); len(log) > 0 {
			t.Errorf("refused: %v", log)
		}
	})
}
