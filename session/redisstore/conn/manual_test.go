package conn_test

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// acl are the rules that the manual gives to the user of proxies.
func acl(t *testing.T, of string) []string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?m)^<!-- test: " + of + " -->\n```\nACL SETUSER proxy (.*)$").FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/redis.md has no line marked %q", of)
	}
	return strings.Fields(string(found[1]))
}

func grant(s *redistest.Server, rules []string) {
	args := []any{"ACL", "SETUSER", "proxy"}
	for _, r := range rules {
		args = append(args, r)
	}
	s.Do(args...)
}

// The manual's ACL line has all that is needed, and no more.
func TestTheManualsRightsAreThoseThatAreChecked(t *testing.T) {
	t.Parallel()
	var given []string
	for _, r := range append(acl(t, "acl"), acl(t, "acl cluster")...) {
		if strings.HasPrefix(r, "+") {
			given = append(given, r)
		}
	}
	want := conn.Rights()
	slices.Sort(given)
	slices.Sort(want)
	if !slices.Equal(given, want) {
		t.Errorf("the manual grants %v, Check looks for %v", given, want)
	}
}

func TestTheManualsRightsSuffice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		url  func(t *testing.T) string
		more func(*conn.Options)
	}{
		{"a server", func(t *testing.T) string {
			s := redistest.Single(t)
			grant(s, acl(t, "acl"))
			return "redis://proxy:PASSWORD@" + s.Addr
		}, nil},
		{"Sentinels", func(t *testing.T) string {
			g := redistest.Sentinel(t, redistest.Sentinels("user default off", "sentinel sentinel-user tester", "sentinel sentinel-pass "+redistest.Password))
			for _, n := range g.Nodes {
				grant(n, acl(t, "acl"))
			}
			for _, n := range g.Sentinels {
				grant(n, acl(t, "acl sentinel"))
			}
			return strings.Replace(g.URL(), "://", "://proxy:PASSWORD@", 1)
		}, func(o *conn.Options) { o.SentinelUsername, o.SentinelPassword = "proxy", "PASSWORD" }},
		{"a Cluster", func(t *testing.T) string {
			c := redistest.Cluster(t)
			for _, n := range c.Nodes {
				grant(n, acl(t, "acl"))
				grant(n, acl(t, "acl cluster"))
			}
			return strings.Replace(c.URL(), "://", "://proxy:PASSWORD@", 1)
		}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var more []func(*conn.Options)
			if tt.more != nil {
				more = append(more, tt.more)
			}
			c := open(t, tt.url(t), more...)
			if _, err := check(t, c); err != nil {
				t.Fatal(err)
			}
			for _, key := range []string{"session:cookies:shop.test", "{session:cookies:shop.test}:jar"} {
				if err := c.HSet(t.Context(), key, "sid", "1").Err(); err != nil {
					t.Errorf("and then HSET %s: %v", key, err)
				}
			}
			if err := c.Set(t.Context(), "other", "1", 0).Err(); err == nil {
				t.Error("a key of others was written")
			}
		})
	}
}
