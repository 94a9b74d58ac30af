package e2e_test

import (
	"bufio"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/redispool"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// Workers know the name of a list, and nothing else of us.
const (
	pythonWorker = `
import redis, sys
r = redis.Redis.from_url(sys.argv[1])
r.incr('ready')
while not r.exists('go'):
    pass
for i in range(100):
    r.rpush(sys.argv[2], "python.%d" % i)
    token = r.lpop(sys.argv[2])
    if token:
        print(token.decode(), flush=True)
`
	nodeWorker = `
import Redis from 'ioredis'
const [url, list] = process.argv.slice(1)
const r = new Redis(url)
await r.incr('ready')
while (!await r.exists('go'));
for (let i = 0; i < 100; i++) {
  await r.rpush(list, 'node.' + i)
  const token = await r.lpop(list)
  if (token) console.log(token)
}
await r.quit()
`
)

// Workers in Python and Node, and two proxies, put tokens into one list and
// take them out: each comes out once.
func TestWorkersAndProxiesShareTheListOfTokens(t *testing.T) {
	server := redistest.Single(t)
	key := captcha.Key{Site: "shop.test", SiteKey: "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", Action: "login"}
	list := "session:tokens:shop.test:6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1:login"

	var mu sync.Mutex
	took := map[string]string{}
	take := func(token, who string) {
		mu.Lock()
		defer mu.Unlock()
		if before, twice := took[token]; twice {
			t.Errorf("%s was taken by %s, and by %s", token, before, who)
		}
		took[token] = who
	}
	var wg sync.WaitGroup
	for who, command := range map[string][]string{
		"Python": {"/usr/bin/python3", "-c", pythonWorker, "redis://" + server.Addr, list},
		"Node":   {"node", "--input-type=module", "-e", nodeWorker, "redis://" + server.Addr, list},
	} {
		cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			for lines := bufio.NewScanner(out); lines.Scan(); {
				take(lines.Text(), who)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("%s: %v\n%s", who, err, &stderr)
			}
		})
	}
	redistest.Eventually(t, time.Minute, "the workers have begun", func() bool { return server.Client().Get(t.Context(), "ready").Val() == "2" })
	for i := range 20 { // so that nobody takes out just what he put in
		server.Do("RPUSH", list, fmt.Sprint("first.", i))
	}
	server.Do("SET", "go", 1)
	for i := range 2 {
		who := fmt.Sprint("proxy ", i)
		rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true})
		defer rdb.Close()
		store := redispool.New(rdb, "session:")
		wg.Go(func() {
			for n := range 100 {
				life := captcha.Turnstile.Life()
				if err := store.Push(t.Context(), key, captcha.Token{Value: fmt.Sprintf("ours.%d.%d", i, n), Expires: time.Now().Add(life)}); err != nil {
					t.Error(err)
				}
				if _, err := store.Look(t.Context(), key); err != nil {
					t.Error(err)
				}
				if got, err := store.Pop(t.Context(), key); err == nil {
					take(got.Value, who)
				} else if !errors.Is(err, captcha.ErrEmpty) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()

	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true})
	defer rdb.Close()
	store := redispool.New(rdb, "session:")
	for {
		got, err := store.Pop(t.Context(), key)
		if err != nil {
			break
		}
		take(got.Value, "the last")
	}
	if len(took) != 420 {
		t.Errorf("%d tokens came out of 420 that were put in", len(took))
	}
	by := map[string]int{}
	for token, who := range took {
		maker, _, _ := strings.Cut(token, ".")
		by[maker+" to "+who]++
	}
	if by["python to Node"]+by["node to Python"]+by["python to proxy 0"]+by["ours to Python"] == 0 {
		t.Errorf("nobody took what another put in: %v", by)
	}
	t.Log(by)
}
