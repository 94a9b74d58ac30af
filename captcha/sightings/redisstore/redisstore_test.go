package redisstore

import (
	"fmt"
	"os"
	"regexp"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha/sightings"
	"github.com/sessionproxy/sessionproxy/captcha/sightings/storetest"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

func TestOnOneServer(t *testing.T) {
	server := redistest.Single(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	storetest.Run(t, harness(rdb))

	s := New(rdb, "session:")
	if _, err := s.Swap(t.Context(), "shop.test", "https://shop.test/", nil, []byte("a")); err != nil {
		t.Fatal(err)
	}
	const key = "{session:sitekeys:shop.test}"
	if got := rdb.HGet(t.Context(), key, "https://shop.test/").Val(); got != "a" {
		t.Errorf("%s holds %q", key, got)
	}
	for _, k := range []string{key, key + ":seen"} {
		if ttl := rdb.TTL(t.Context(), k).Val(); ttl <= sightings.Life/2 || ttl > sightings.Life {
			t.Errorf("%s lives %v", k, ttl)
		}
	}
	rdb.Set(t.Context(), key, "x", 0)
	if _, _, err := s.Pages(t.Context(), "shop.test", ""); err == nil {
		t.Error("another program's value is read as pages")
	}
	if _, _, err := s.Pages(t.Context(), "a}b", ""); err == nil {
		t.Error("a site's key leaves its hash tag")
	}
}

func TestOnACluster(t *testing.T) {
	c := redistest.Cluster(t)
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}, DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	storetest.Run(t, harness(rdb))
}

// harness gives each case a prefix of its own.
func harness(rdb redis.UniversalClient) func(*testing.T) sightings.Store {
	n := 0
	return func(*testing.T) sightings.Store {
		n++
		return New(rdb, fmt.Sprintf("w%d:", n))
	}
}

// The user that docs/redis.md tells to make may do all that the store does.
func TestTheDocumentedUserIsEnough(t *testing.T) {
	doc, err := os.ReadFile("../../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	line := regexp.MustCompile("(?m)^<!-- test: acl -->\n```\nACL SETUSER proxy (.*)$").FindSubmatch(doc)
	if line == nil {
		t.Fatal("docs/redis.md has no ACL line")
	}
	server := redistest.Single(t, redistest.User("proxy", string(line[1])))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "proxy", Password: "PASSWORD", DisableIdentity: true})
	defer rdb.Close()
	s := New(rdb, "session:")
	for i := range sightings.MaxPages + 1 { // the last one makes room
		if _, err := s.Swap(t.Context(), "shop.test", fmt.Sprint("https://shop.test/", i), nil, []byte("a")); err != nil {
			t.Fatal(err)
		}
	}
	if pages, _, err := s.Pages(t.Context(), "shop.test", ""); err != nil || len(pages) != sightings.MaxPages {
		t.Errorf("%d pages, %v", len(pages), err)
	}
}
