package redispool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/storetest"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

var worlds int

// harness makes worlds of two clients with a prefix of their own.
func harness(open func(t *testing.T) redis.UniversalClient) func(*testing.T, func(*testing.T, storetest.World)) {
	return func(t *testing.T, f func(*testing.T, storetest.World)) {
		worlds++
		prefix := fmt.Sprintf("w%d:", worlds)
		a, b := open(t), open(t)
		f(t, storetest.World{A: New(a, prefix), B: New(b, prefix), Age: func(d time.Duration) { age(t, a, prefix, d) }})
	}
}

func TestOnOneServer(t *testing.T) {
	s := redistest.Single(t)
	storetest.Run(t, harness(func(t *testing.T) redis.UniversalClient { return single(t, s) }))
}

func TestOnACluster(t *testing.T) {
	c := redistest.Cluster(t)
	storetest.Run(t, harness(func(t *testing.T) redis.UniversalClient { return clustered(t, c) }))
}

func single(t *testing.T, s *redistest.Server) redis.UniversalClient {
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func clustered(t *testing.T, c *redistest.Nodes) redis.UniversalClient {
	rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr}, DisableIdentity: true})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// age makes everything under a prefix that much older: lives end sooner, and
// so does what the scores of companions say in milliseconds.
func age(t *testing.T, rdb redis.UniversalClient, prefix string, d time.Duration) {
	t.Helper()
	each := func(ctx context.Context, c *redis.Client) error {
		keys, err := c.Keys(ctx, "*"+prefix+"*").Result()
		if err != nil {
			return err
		}
		for _, key := range keys {
			if err := older(ctx, c, key, d); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		err = c.ForEachMaster(t.Context(), each)
	case *redis.Client:
		err = each(t.Context(), c)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func older(ctx context.Context, c *redis.Client, key string, d time.Duration) error {
	if !strings.HasSuffix(key, ":queue") && c.Type(ctx, key).Val() == "zset" {
		for _, z := range c.ZRangeWithScores(ctx, key, 0, -1).Val() {
			c.ZAdd(ctx, key, redis.Z{Member: z.Member, Score: z.Score - float64(d.Milliseconds())})
		}
	}
	left := c.PTTL(ctx, key).Val()
	if left < 0 {
		return nil
	}
	return c.PExpire(ctx, key, left-d).Err() // none left: it is gone
}

var login = captcha.Key{Site: "shop.test", SiteKey: "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", Action: "login"}

const list = "session:tokens:shop.test:6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1:login"

func TestTheListIsWhatOtherProgramsKnow(t *testing.T) {
	server := redistest.Single(t)
	rdb, ctx := single(t, server), t.Context()
	s := New(rdb, "session:")
	life := func(d time.Duration) time.Time { return time.Now().Add(d) }

	must(t, s.Push(ctx, login, captcha.Token{Value: "ours", Expires: life(90 * time.Second)}))
	if got := rdb.LRange(ctx, list, 0, -1).Val(); len(got) != 1 || got[0] != "ours" {
		t.Fatalf("the list holds %q", got)
	}
	if ttl := rdb.PTTL(ctx, list).Val(); ttl > 90*time.Second || ttl < 85*time.Second {
		t.Errorf("the list lives %v, want as long as its token", ttl)
	}
	if got := rdb.LPop(ctx, list).Val(); got != "ours" {
		t.Fatalf("a worker got %q", got)
	}
	if _, err := s.Pop(ctx, login); !errors.Is(err, captcha.ErrEmpty) {
		t.Errorf("what a worker took came out again: %v", err)
	}

	rdb.RPush(ctx, list, "theirs", "two words", strings.Repeat("x", captcha.MaxToken+1))
	state, err := s.Look(ctx, login)
	if left := time.Until(state.Ends); err != nil || state.Ready != 1 || left > captcha.ForeignLife || left < captcha.ForeignLife-5*time.Second {
		t.Errorf("%+v, %v; want the one that is a token, for %v", state, err, captcha.ForeignLife)
	}
	age(t, rdb, "session:", captcha.ForeignLife-time.Second)
	must(t, s.Push(ctx, login, captcha.Token{Value: "next", Expires: life(90 * time.Second)}))
	age(t, rdb, "session:", 2*time.Second)
	if tok, err := s.Pop(ctx, login); err != nil || tok.Value != "next" {
		t.Errorf("%q came out, %v; want next, since theirs is too old", tok.Value, err)
	}

	// What was used and is written back by a worker late stays used.
	rdb.RPush(ctx, list, "next", "fresh", "fresh")
	for _, want := range []string{"fresh", ""} {
		if tok, _ := s.Pop(ctx, login); tok.Value != want {
			t.Errorf("%q came out, want %q", tok.Value, want)
		}
	}
	if n := rdb.Exists(ctx, list).Val(); n != 0 {
		t.Error("an empty list is left")
	}
}

// A list that lay untouched while no proxy ran has old tokens in it.
func TestTokensThatLayForLongAreOld(t *testing.T) {
	server := redistest.Single(t)
	rdb, ctx := single(t, server), t.Context()
	s := New(rdb, "session:")
	lay := func(d time.Duration) {
		dump := rdb.Dump(ctx, list).Val()
		must(t, rdb.Do(ctx, "RESTORE", list, 0, dump, "REPLACE", "IDLETIME", int(d.Seconds())).Err())
	}
	rdb.RPush(ctx, list, "a", "b")
	lay(captcha.ForeignLife + 5*time.Second)
	if tok, err := s.Pop(ctx, login); !errors.Is(err, captcha.ErrEmpty) {
		t.Errorf("%q came out, %v", tok.Value, err)
	}
	rdb.RPush(ctx, list, "c")
	lay(30 * time.Second)
	tok, err := s.Pop(ctx, login)
	if left := time.Until(tok.Expires); err != nil || left > captcha.ForeignLife-29*time.Second {
		t.Errorf("%v left, %v; want what is left of %v after 30 s", left, err, captcha.ForeignLife)
	}
	// With this policy no server knows how long a key lay.
	must(t, rdb.ConfigSet(ctx, "maxmemory-policy", "allkeys-lfu").Err())
	rdb.RPush(ctx, list, "d")
	if tok, err := s.Pop(ctx, login); err != nil || tok.Value != "d" {
		t.Errorf("%q, %v under LFU", tok.Value, err)
	}
}

// A worker may push into a list that is about to end with our last token.
func TestAWorkersTokenOutlivesOurs(t *testing.T) {
	server := redistest.Single(t)
	rdb, ctx := single(t, server), t.Context()
	s := New(rdb, "session:")
	must(t, s.Push(ctx, login, captcha.Token{Value: "ours", Expires: time.Now().Add(5 * time.Second)}))
	rdb.RPush(ctx, list, "theirs")
	if tok, err := s.Pop(ctx, login); err != nil || tok.Value != "ours" {
		t.Fatalf("%q, %v; want ours", tok.Value, err)
	}
	age(t, rdb, "session:", 10*time.Second)
	if tok, err := s.Pop(ctx, login); err != nil || tok.Value != "theirs" {
		t.Errorf("%q, %v; want theirs", tok.Value, err)
	}
}

func TestAnotherKindOfValueSpoilsItsKeyAlone(t *testing.T) {
	server := redistest.Single(t)
	rdb, ctx := single(t, server), t.Context()
	s := New(rdb, "session:")
	rdb.Set(ctx, list, "x", 0)
	if _, err := s.Pop(ctx, login); !errors.Is(err, captcha.ErrNoList) {
		t.Errorf("%v, want ErrNoList", err)
	}
	if _, err := s.Pop(ctx, captcha.Key{Site: "shop.test", SiteKey: "other"}); !errors.Is(err, captcha.ErrEmpty) {
		t.Errorf("another key: %v", err)
	}
	for _, k := range []captcha.Key{{Site: "{x}", SiteKey: "k"}, {Site: "s", SiteKey: "}{"}, {}} {
		if _, err := s.Pop(ctx, k); err == nil || errors.Is(err, captcha.ErrEmpty) {
			t.Errorf("%+v: %v, want a refusal", k, err)
		}
	}
}

// A warm pool serves in one round trip.
func TestAPopIsOneRoundTrip(t *testing.T) {
	server := redistest.Single(t)
	rdb, ctx := single(t, server), t.Context()
	s := New(rdb, "session:")
	must(t, s.Push(ctx, login, captcha.Token{Value: "a", Expires: time.Now().Add(time.Minute)})) // loads the script
	var commands []string
	rdb.AddHook(hook{&commands})
	if _, err := s.Pop(ctx, login); err != nil || len(commands) != 1 {
		t.Errorf("%v, %v; want one command", commands, err)
	}
}

type hook struct{ commands *[]string }

func (hook) DialHook(next redis.DialHook) redis.DialHook { return next }
func (h hook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		*h.commands = append(*h.commands, cmd.Name())
		return next(ctx, cmd)
	}
}
func (hook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
