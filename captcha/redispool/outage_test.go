package redispool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// safeLog is a log that is read while it is written.
type safeLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *safeLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *safeLog) has(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

// A Redis that hangs, or is gone, costs a form a moment; tokens come from this
// proxy, and what is left of them goes to Redis when that is back. No token is in
// two places: what was sent to a Redis that hangs is read when it goes on.
func TestAPoolGoesOnWithoutRedis(t *testing.T) {
	for _, tt := range []struct {
		name       string
		stop, back func(*redistest.Server)
		push       error          // of a token as it stops
		source     captcha.Source // of the next one that is asked for
		left       string         // in Redis, in the end
	}{
		{"it hangs", (*redistest.Server).Freeze, (*redistest.Server).Thaw, captcha.ErrUnsure, captcha.Solved, "as.it.stops"},
		{"it is killed", (*redistest.Server).Kill, (*redistest.Server).Start, nil, captcha.FromPool, "left.over"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := redistest.Single(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, ContextTimeoutEnabled: true, DialTimeout: time.Second, DialerRetries: 1, MaxRetries: 1})
			defer rdb.Close()
			var log safeLog
			pool := captcha.New(captcha.Options{
				Store: New(rdb, "session:"), Service: captcha.Service{Solver: atOnce{new(atomic.Int64)}, Threads: 2},
				Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			defer pool.Close()
			first, source, err := pool.Get(t.Context(), form)
			if err != nil || source != captcha.Solved {
				t.Fatalf("%s, %v", source, err)
			}

			tt.stop(server)
			began := time.Now()
			if err := pool.Push(t.Context(), form.Key(), "as.it.stops"); !errors.Is(err, tt.push) {
				t.Errorf("push: %v, want %v", err, tt.push)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("a push took %v", took)
			}
			used := []string{first.Value}
			for _, want := range []captcha.Source{tt.source, captcha.Solved} {
				next, source, err := pool.Get(t.Context(), form)
				if err != nil || source != want || slices.Contains(used, next.Value) {
					t.Errorf("%q from %s, %v; want another than %q, from %s", next.Value, source, err, used, want)
				}
				used = append(used, next.Value)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("without Redis two tokens took %v", took)
			}
			if err := pool.Push(t.Context(), form.Key(), "left.over"); err != nil && !errors.Is(err, tt.push) {
				t.Errorf("push: %v", err)
			}

			tt.back(server)
			redistest.Eventually(t, 20*time.Second, "what is left goes to Redis", func() bool {
				list := server.Client().LRange(t.Context(), "session:tokens:shop.test:"+form.SiteKey, 0, -1).Val()
				if slices.ContainsFunc(list, func(token string) bool { return slices.Contains(used, token) }) {
					t.Errorf("Redis has %q, of which %q were used", list, used)
				}
				return slices.Contains(list, tt.left)
			})
			redistest.Eventually(t, 45*time.Second, "threads are shared again", func() bool {
				return log.has("keeps to its share") && log.has("shared again")
			})
		})
	}
}

// atOnce is a solver that needs no service.
type atOnce struct{ solved *atomic.Int64 }

func (s atOnce) Solve(ctx context.Context, _ captcha.Task, open captcha.Opener) (captcha.Answer, error) {
	slot, err := open(ctx)
	if err != nil {
		return captcha.Answer{}, err
	}
	slot.Done()
	return captcha.Answer{Token: fmt.Sprint("solved.", s.solved.Add(1)), Issued: time.Now()}, nil
}
