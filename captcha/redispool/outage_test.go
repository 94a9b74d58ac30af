package redispool

import (
	"context"
	"fmt"
	"log/slog"
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
// proxy, and what is left of them goes to Redis when that is back.
func TestAPoolGoesOnWithoutRedis(t *testing.T) {
	for _, tt := range []struct {
		name       string
		stop, back func(*redistest.Server)
	}{
		{"it hangs", (*redistest.Server).Freeze, (*redistest.Server).Thaw},
		{"it is killed", (*redistest.Server).Kill, (*redistest.Server).Start},
	} {
		t.Run(tt.name, func(t *testing.T) {
			server := redistest.Single(t)
			rdb := redis.NewClient(&redis.Options{Addr: server.Addr, DisableIdentity: true, ContextTimeoutEnabled: true, DialTimeout: time.Second, MaxRetries: 1})
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
			if err := pool.Push(t.Context(), form.Key(), "kept.here"); err != nil {
				t.Errorf("push: %v", err)
			}
			got, source, err := pool.Get(t.Context(), form)
			if err != nil || got.Value != "kept.here" || source != captcha.FromPool {
				t.Errorf("%q from %s, %v; want what was kept here", got.Value, source, err)
			}
			if took := time.Since(began); took > 2*time.Second {
				t.Errorf("a push and a pop took %v", took)
			}
			next, source, err := pool.Get(t.Context(), form)
			if err != nil || source != captcha.Solved || next.Value == first.Value {
				t.Errorf("%q from %s, %v; want one solved by this proxy", next.Value, source, err)
			}
			if took := time.Since(began); took > 10*time.Second {
				t.Errorf("without Redis a solve took %v", took)
			}
			if err := pool.Push(t.Context(), form.Key(), "left.over"); err != nil {
				t.Errorf("push: %v", err)
			}

			tt.back(server)
			redistest.Eventually(t, 20*time.Second, "what is left goes to Redis", func() bool {
				return server.Client().LLen(t.Context(), "session:tokens:shop.test:"+form.SiteKey).Val() == 1
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
