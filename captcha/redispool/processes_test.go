package redispool

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

const apiKey = "0123456789abcdef0123456789abcdef"

var form = captcha.Ask{
	Task:    captcha.Task{Type: captcha.Turnstile, Site: "shop.test", SiteKey: "0x4AAAAAAADnPIDROrmt1Wwj", Page: "https://shop.test/login"},
	PerHour: 10_000, MaxWait: 90 * time.Second,
}

// impatient is a solver without the real one's waits between questions.
type impatient struct{ url string }

func (s impatient) ask(ctx context.Context, path string, pairs ...string) (string, error) {
	v := url.Values{"key": {apiKey}, "json": {"0"}}
	for i := 0; i < len(pairs); i += 2 {
		v.Set(pairs[i], pairs[i+1])
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path+"?"+v.Encode(), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	text := strings.TrimPrefix(string(body), "OK|")
	if err == nil && text == string(body) && text != "CAPCHA_NOT_READY" {
		err = errors.New(text)
	}
	return text, err
}

func (s impatient) Solve(ctx context.Context, t captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	slot, err := open(ctx)
	if err != nil {
		return captcha.Answer{}, err
	}
	id, err := s.ask(ctx, "/in.php", "method", "turnstile", "sitekey", t.SiteKey, "pageurl", t.Page)
	if err != nil {
		slot.Refused()
		return captcha.Answer{}, err
	}
	for {
		asked := time.Now()
		token, err := s.ask(ctx, "/res.php", "action", "get", "id", id)
		if err != nil || token != "CAPCHA_NOT_READY" {
			slot.Done()
			return captcha.Answer{Token: token, Issued: asked}, err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// answered is one ask's end, as a process reports it.
type answered struct {
	Token, Err string
	Left       time.Duration
}

const workerEnv = "CAPTCHA_TEST_WORKER" // "REDIS SOLVER ASKS"

func TestMain(m *testing.M) {
	if args := strings.Fields(os.Getenv(workerEnv)); len(args) == 3 {
		work(args[0], args[1], args[2])
		return
	}
	goleak.VerifyTestMain(m)
}

// work is what a process does: it asks for so many tokens at once.
func work(server, solver, asks string) {
	rdb := redis.NewClient(&redis.Options{Addr: server, DisableIdentity: true})
	pool := captcha.New(captcha.Options{Store: New(rdb, "session:"), Service: captcha.Service{Solver: impatient{solver}, Threads: 5}})
	var n int
	fmt.Sscan(asks, &n)
	var mu sync.Mutex
	out := json.NewEncoder(os.Stdout)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			t, _, err := pool.Get(context.Background(), form)
			a := answered{Token: t.Value, Left: time.Until(t.Expires)}
			if err != nil {
				a.Err = err.Error()
			}
			mu.Lock()
			defer mu.Unlock()
			_ = out.Encode(a)
		})
	}
	wg.Wait()
	pool.Close()
	rdb.Close()
}

// start runs a process. Its answers come on the channel, which ends with it.
func start(t *testing.T, server, solver string, asks int) (*exec.Cmd, <-chan answered) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s %s %d", workerEnv, server, solver, asks))
	cmd.Stderr = os.Stderr
	pipe, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	answers := make(chan answered, asks)
	go func() {
		defer close(answers)
		for lines := bufio.NewScanner(pipe); lines.Scan(); {
			var a answered
			if json.Unmarshal(lines.Bytes(), &a) == nil {
				answers <- a
			}
		}
		_ = cmd.Wait()
	}()
	return cmd, answers
}

// 200 askers in three processes share five threads; one process is killed
// while it has some. No token comes twice, no task is paid twice, and never
// are more open than the plan has.
func TestThreeProcessesShareFiveThreads(t *testing.T) {
	service := captchatest.New(captchatest.Options{Key: apiKey, Threads: 5, Outcome: func(captchatest.Task) captchatest.Outcome {
		return captchatest.Outcome{After: 300 * time.Millisecond}
	}})
	solver := httptest.NewServer(service)
	defer solver.Close()
	server := redistest.Single(t)

	_, first := start(t, server.Addr, solver.URL, 67)
	_, second := start(t, server.Addr, solver.URL, 67)
	victim, third := start(t, server.Addr, solver.URL, 66)

	seen, got := map[string]bool{}, 0
	take := func(a answered) {
		t.Helper()
		got++
		if a.Err != "" || seen[a.Token] || a.Left <= 200*time.Second || a.Left > 240*time.Second {
			t.Errorf("answer %d: token seen %v, %v left, %s", got, seen[a.Token], a.Left, a.Err)
		}
		seen[a.Token] = true
	}
	for range 5 {
		take(<-third)
	}
	must(t, victim.Process.Kill())
	age(t, single(t, server), "session:", captcha.LeaseTime-time.Second)
	for a := range third {
		take(a)
	}
	for a := range first {
		take(a)
	}
	for a := range second {
		take(a)
	}
	lost := len(service.Tasks()) - got // in the hands of the one that was killed
	if got < 67+67+5 || lost < 0 || lost > 5 {
		t.Errorf("%d tokens of %d tasks; want 139 at least, and at most a victim's 5 threads lost", got, len(service.Tasks()))
	}
	if service.MostOpen() != 5 {
		t.Errorf("%d tasks were open at once, want 5", service.MostOpen())
	}
	t.Logf("%d tokens of %d tasks, %d submissions met a busy service", got, len(service.Tasks()), service.Refused())

	// The victim's threads come back.
	s := New(single(t, server), "session:")
	five := []string{"n/1", "n/2", "n/3", "n/4", "n/5"}
	age(t, single(t, server), "session:", captcha.LeaseTime)
	if g, err := s.Threads(t.Context(), captcha.Claim{Proxy: "n", Limit: 5, Waiting: five}); err != nil || len(g.IDs) != 5 {
		t.Errorf("%d threads are free, %v; want 5", len(g.IDs), err)
	}
}
