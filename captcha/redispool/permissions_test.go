package redispool

import (
	"errors"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// The user that docs/redis.md tells to make may do all that the pool does.
func TestTheDocumentedUserIsEnough(t *testing.T) {
	page, err := os.ReadFile("../../docs/redis.md")
	must(t, err)
	line := regexp.MustCompile("(?m)^<!-- test: acl -->\n```\nACL SETUSER proxy (.*)$").FindSubmatch(page)
	if line == nil {
		t.Fatal("docs/redis.md has no ACL line")
	}
	server := redistest.Single(t, redistest.User("proxy", string(line[1])))
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, Username: "proxy", Password: "PASSWORD", DisableIdentity: true})
	defer rdb.Close()
	s, ctx := New(rdb, "session:"), t.Context()
	must(t, s.Push(ctx, login, captcha.Token{Value: "a", Expires: time.Now().Add(time.Minute)}))
	must(t, s.Push(ctx, login, captcha.Token{Value: "a", Expires: time.Now().Add(time.Minute)}))
	server.Do("RPUSH", list, "two words") // Look has to write the list anew
	_, err = s.Look(ctx, login)
	must(t, err)
	tok, err := s.Pop(ctx, login)
	must(t, err)
	must(t, s.Return(ctx, login, tok))
	keys, err := s.Keys(ctx, "shop.test")
	if must(t, err); len(keys) != 1 {
		t.Errorf("keys %v", keys)
	}
	_, err = s.Flush(ctx, login)
	must(t, err)
	_, err = s.Refill(ctx, login, "p", time.Second)
	must(t, err)
	_, err = s.Spend(ctx, "shop.test", 1)
	must(t, err)
	var over *captcha.BudgetError
	if _, err := s.Spend(ctx, "shop.test", 1); !errors.As(err, &over) {
		t.Error(err)
	}
	must(t, s.Refund(ctx, "shop.test"))
	_, err = s.Spent(ctx, "shop.test")
	must(t, err)
	_, err = s.Threads(ctx, captcha.Claim{Proxy: "p", Limit: 1, Open: []string{"p/1"}, Waiting: []string{"p/2"}})
	must(t, err)
	_, err = s.Threads(ctx, captcha.Claim{Proxy: "p", Limit: 1, Over: []string{"p/1"}, Waiting: []string{"p/2"}})
	must(t, err)
	// Without it the age of a list is not known, and nothing says so.
	must(t, rdb.RPush(ctx, list, "b").Err())
	must(t, rdb.ObjectIdleTime(ctx, list).Err())
}
