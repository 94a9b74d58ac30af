package redislock_test

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/login/locktest"
	"github.com/sessionproxy/sessionproxy/proxy/login/redislock"
	"github.com/sessionproxy/sessionproxy/session"
)

func TestContract(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	var n atomic.Int32
	locktest.Run(t, func(t *testing.T) login.Locks {
		return redislock.New(s.Client(), fmt.Sprintf("t%d:", n.Add(1)), patience)
	})
}

func TestContractInACluster(t *testing.T) {
	t.Parallel()
	c := redistest.Cluster(t)
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{c.Nodes[0].Addr, c.Nodes[1].Addr, c.Nodes[2].Addr}})
	t.Cleanup(func() { client.Close() })
	var n atomic.Int32
	locktest.Run(t, func(t *testing.T) login.Locks {
		return redislock.New(client, fmt.Sprintf("t%d:", n.Add(1)), patience)
	})
}

// The user that the manual makes may do all that locks do.
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
	client := redis.NewClient(&redis.Options{Addr: s.Addr, Username: "proxy", Password: "PASSWORD"})
	t.Cleanup(func() { client.Close() })
	var n atomic.Int32
	locktest.Run(t, func(t *testing.T) login.Locks {
		return redislock.New(client, fmt.Sprintf("session:%d:", n.Add(1)), patience)
	})
}

// patience is longer than a busy machine takes.
const patience = 10 * time.Second

func ask(holder string) login.Ask {
	return login.Ask{Login: locktest.Of, Holder: login.Mark + holder, Life: 15 * time.Second, Guest: true}
}

func want(t *testing.T, l login.Locks, a login.Ask, state login.State) login.Hold {
	t.Helper()
	g, err := l.Take(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	if g.State != state {
		t.Fatalf("%s asks: state %d, want %d", a.Holder, g.State, state)
	}
	return login.Hold{Login: a.Login, Holder: a.Holder, Fence: g.Fence}
}

// As redis-py does it: r.set("session:lock:shop.test", "1", nx=True, ex=300).
func TestAWorkersLock(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := redislock.New(s.Client(), "session:", patience)
	worker := func() bool {
		return s.Client().SetNX(t.Context(), "session:lock:shop.test", "1", 300*time.Second).Val()
	}
	if !worker() {
		t.Fatal("the worker got no lock")
	}
	h := want(t, l, ask("its own request"), login.Granted)
	other := ask("another login")
	other.Name = "01"
	want(t, l, other, login.Busy) // one request passes, not one of each kind
	recipe := ask("recipe")
	recipe.Name, recipe.Guest = "02", false
	want(t, l, recipe, login.Busy)
	if err := l.End(t.Context(), h, login.Result{}); err != nil {
		t.Fatal(err)
	}
	if got := s.Client().Get(t.Context(), "session:lock:shop.test").Val(); got != "1" {
		t.Errorf("the worker's lock is %q", got)
	}
	want(t, l, ask("another"), login.Busy)
	late := ask("who has waited long enough")
	late.Overdue, late.Waited = time.Second, 2*time.Second
	h = want(t, l, late, login.Granted)
	if err := l.End(t.Context(), h, login.Result{}); err != nil {
		t.Fatal(err)
	}

	s.Client().Del(t.Context(), "session:lock:shop.test")
	h = want(t, l, ask("under the lock"), login.Granted)
	if worker() {
		t.Error("a worker got the lock during a turn")
	}
	if err := l.End(t.Context(), h, login.Result{}); err != nil {
		t.Fatal(err)
	}
	if !worker() {
		t.Error("a worker got no lock after it")
	}
	want(t, l, ask("its own request"), login.Granted)
}

// The names that workers and other proxies know.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := redislock.New(s.Client(), "session:", patience)
	a := ask("a")
	a.Key = session.Key{Site: "shop.test", ID: "qa1"}
	a.Name = "4d967a30111bf29f0eba01c448b375c1629b2fed01cdfcc3aed91f1b57d5dd5e"
	h := want(t, l, a, login.Granted)
	if got := s.Client().Get(t.Context(), "session:lock:shop.test~qa1").Val(); got != a.Holder {
		t.Errorf("the lock is %q, want %q", got, a.Holder)
	}
	if left := s.Client().TTL(t.Context(), "session:lock:shop.test~qa1").Val(); left <= 0 || left > 15*time.Second {
		t.Errorf("the lock lives for %v, want 15s", left)
	}
	if err := l.End(t.Context(), h, login.Result{Answer: &login.Answer{Status: 200, Version: 1}, Keep: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, key := range s.Client().Keys(t.Context(), "*").Val() {
		if !strings.HasPrefix(key, "{session:lock:shop.test~qa1}:") {
			t.Errorf("key %s", key)
		}
		if strings.Contains(key, a.Name[:16]) {
			t.Errorf("key %s holds the fingerprint: who reads it can try passwords", key)
		}
		if left := s.Client().TTL(t.Context(), key).Val(); left <= 0 {
			t.Errorf("key %s lives for ever", key)
		}
	}
}

func TestWhatNoProxyWrote(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	l := redislock.New(s.Client(), "session:", patience)
	h := want(t, l, ask("a"), login.Granted)
	if err := l.End(t.Context(), h, login.Result{Answer: &login.Answer{Version: 1}, Keep: time.Minute}); err != nil {
		t.Fatal(err)
	}
	for _, key := range s.Client().Keys(t.Context(), "*:turn:*").Val() {
		s.Client().HSet(t.Context(), key, "status", "x")
	}
	if g, err := l.Take(t.Context(), ask("b")); err == nil {
		t.Errorf("%+v, want an error", g)
	}
	s.Client().Set(t.Context(), "{session:lock:shop.test}:login", "x", 0)
	if g, err := l.Take(t.Context(), ask("b")); err == nil {
		t.Errorf("%+v, want an error", g)
	}
}

func TestAnOutageIsAnErrorInTime(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	client := redis.NewClient(&redis.Options{Addr: s.Addr, ContextTimeoutEnabled: true})
	defer client.Close()
	h := want(t, redislock.New(client, "session:", patience), ask("a"), login.Granted)
	l := redislock.New(client, "session:", 100*time.Millisecond)
	s.Freeze()
	defer s.Thaw()
	begin := time.Now()
	if _, err := l.Take(t.Context(), ask("b")); err == nil {
		t.Error("Take: no error")
	}
	if _, err := l.Keep(t.Context(), h, time.Second); err == nil {
		t.Error("Keep: no error")
	}
	if err := l.End(t.Context(), h, login.Result{}); err == nil {
		t.Error("End: no error")
	}
	if took := time.Since(begin); took > 3*time.Second {
		t.Errorf("three calls took %v", took)
	}
}
