package redistest_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSingleKeepsWhatItAcknowledgedThroughKill(t *testing.T) {
	began := time.Now()
	s := redistest.Single(t)
	t.Logf("up after %v", time.Since(began).Round(time.Millisecond))
	addr := s.Addr
	s.Do("SET", "k", "v")
	s.Kill()
	s.Start()
	if s.Addr != addr || s.Do("GET", "k") != "v" {
		t.Errorf("after kill and start: at %s with k=%v, want at %s with v", s.Addr, s.Do("GET", "k"), addr)
	}
	s.Kill()
	s.Wipe()
	s.Start()
	if got := s.Do("GET", "k"); got != nil {
		t.Errorf("after Wipe: k=%v", got)
	}
}

func TestSingleAnswersTheDefaultUserOnItsPort(t *testing.T) {
	s := redistest.Single(t)
	c := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer c.Close()
	if err := c.Set(t.Context(), "k", "v", 0).Err(); err != nil {
		t.Error(err)
	}
}
