package redistest_test

import (
	"errors"
	"io"
	"net"
	"os"
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

func TestSentinelsMakeAReplicaTheMaster(t *testing.T) {
	began := time.Now()
	g := redistest.Sentinel(t)
	t.Logf("up after %v", time.Since(began).Round(time.Millisecond))
	first := g.Master()
	first.Do("SET", "k", "v")
	first.Do("WAIT", 2, 1000)
	g.Failover()
	second := g.Master()
	if second == first || second.Do("GET", "k") != "v" {
		t.Fatalf("after a failover: master %s with k=%v", second.Addr, second.Do("GET", "k"))
	}
	began = time.Now()
	second.Kill()
	g.WaitMaster(second)
	t.Logf("another master %v after kill -9", time.Since(began).Round(time.Millisecond))
}

func TestClusterServesThroughALostNodeAndAMovedSlot(t *testing.T) {
	began := time.Now()
	c := redistest.Cluster(t)
	t.Logf("up after %v", time.Since(began).Round(time.Millisecond))
	slot := c.Slot("k")
	from := c.Master(slot)
	from.Do("SET", "k", "v")
	to := c.Nodes[0]
	if to == from {
		to = c.Nodes[1]
	}
	c.MoveSlot(slot, to)
	if got := to.Do("GET", "k"); got != "v" {
		t.Fatalf("after the move: k=%v", got)
	}
	to.Do("WAIT", 1, 1000)
	began = time.Now()
	to.Kill()
	c.WaitFailover(to)
	t.Logf("well %v after kill -9", time.Since(began).Round(time.Millisecond))
	if now := c.Master(slot); now == to || now.Do("GET", "k") != "v" {
		t.Errorf("slot %d is at %s, want it with its key at the replica of %s", slot, now.Addr, to.Addr)
	}
}

func TestRelayStallsAndCuts(t *testing.T) {
	s := redistest.Single(t)
	r := redistest.NewRelay(t, s.Addr)
	c := redis.NewClient(&redis.Options{Addr: r.Addr, MaxRetries: -1, ReadTimeout: 100 * time.Millisecond})
	defer c.Close()
	if err := c.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r.Stall()
	if err := c.Ping(t.Context()).Err(); err == nil {
		t.Error("a stalled relay passed an answer")
	}
	r.Resume()
	redistest.Eventually(t, 5*time.Second, "the relay passes again", func() bool { return c.Ping(t.Context()).Err() == nil })
	raw, err := net.Dial("tcp", r.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	raw.SetDeadline(time.Now().Add(5 * time.Second))
	answer := make([]byte, 7)
	if _, err := raw.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(raw, answer); err != nil || string(answer) != "+PONG\r\n" {
		t.Fatalf("PING through the relay: %q, %v", answer, err)
	}
	r.Cut()
	if n, err := raw.Read(answer); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("after Cut a connection read %d bytes, %v", n, err)
	}
}

func TestTLSAndUsersHold(t *testing.T) {
	certs := redistest.NewCertificates(t, false)
	s := redistest.Single(t, redistest.TLS(certs), redistest.User("worker", "on >secret ~session:* +get"))
	plain := redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1, DialerRetries: 1})
	defer plain.Close()
	if err := plain.Ping(t.Context()).Err(); err == nil {
		t.Error("a TLS port answered in clear")
	}
	if got := s.Do("ACL", "WHOAMI"); got != "tester" {
		t.Errorf("the test's own client is %v", got)
	}
}
