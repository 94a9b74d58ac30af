package tracking_test

import (
	"bufio"
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
	"github.com/sessionproxy/sessionproxy/session/redisstore/tracking"
)

// deaf is a tracker of a URL that is expected to hear nothing, and its log.
func deaf(t *testing.T, url string) (tr *tracking.Tracker, log func() string) {
	t.Helper()
	o, err := conn.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	c, err := conn.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var text strings.Builder
	tr = tracking.New(tracking.Options{
		Client: c, Prefix: prefix, Invalidate: func([]string) {},
		Log: slog.New(slog.NewTextHandler(writer(func(b []byte) {
			mu.Lock()
			defer mu.Unlock()
			text.Write(b)
		}), nil)),
	})
	t.Cleanup(func() { tr.Close(); c.Close() })
	return tr, func() string {
		mu.Lock()
		defer mu.Unlock()
		return text.String()
	}
}

type writer func([]byte)

func (w writer) Write(b []byte) (int, error) { w(b); return len(b), nil }

// Nothing is coherent where Redis does not push, whatever it says.
func TestWhoCannotPushIsNeverTrusted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		addr func(t *testing.T) string
		want string // in the one line of log
	}{
		{"a server that speaks RESP2 alone", func(t *testing.T) string {
			return redistest.Single(t, redistest.Conf(`rename-command HELLO ""`)).Addr
		}, "speak RESP3"},
		{"a go-between that lets no push pass", unpushing, "it says that it tracks keys and does not"},
		{"a user who may not track", func(t *testing.T) string {
			return "ana:pass@" + redistest.Single(t, redistest.User("ana", "on >pass ~* &* +@all -client|tracking")).Addr
		}, "track: NOPERM"},
		{"a user who may not hear", func(t *testing.T) string {
			return "ana:pass@" + redistest.Single(t, redistest.User("ana", "on >pass ~* resetchannels +@all")).Addr
		}, "NOPERM"},
		{"a replica", func(t *testing.T) string {
			s := redistest.Single(t)
			_, port, _ := net.SplitHostPort(s.Addr)
			return redistest.Single(t, redistest.Conf("replicaof 127.0.0.1 "+port)).Addr
		}, "it is no master but"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tr, log := deaf(t, "redis://"+tt.addr(t))
			redistest.Eventually(t, 10*time.Second, "the log says why", func() bool { return strings.Contains(log(), tt.want) })
			time.Sleep(100 * time.Millisecond) // in which it tries again
			if text := log(); strings.Count(text, "\n") != 1 || tr.Coherent(key) || strings.Contains(text, "pass") {
				t.Errorf("coherent: %v; logged %s", tr.Coherent(key), text)
			}
		})
	}
}

// unpushing stands before a Redis and passes all but invalidations.
func unpushing(t *testing.T) string {
	s := redistest.Single(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(t.Context())
	pass := func(to, from net.Conn, filter bool) {
		defer to.Close()
		defer from.Close()
		stop := context.AfterFunc(ctx, func() { from.Close() })
		defer stop()
		r := bufio.NewReader(from)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			if filter && line == ">2\r\n" {
				for range 5 { // $10 invalidate *1 $n key
					r.ReadString('\n')
				}
				continue
			}
			if _, err := to.Write([]byte(line)); err != nil {
				return
			}
		}
	}
	wg.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", s.Addr)
			if err != nil {
				client.Close()
				continue
			}
			wg.Go(func() { pass(server, client, false) })
			wg.Go(func() { pass(client, server, true) })
		}
	})
	t.Cleanup(func() { l.Close(); cancel(); wg.Wait() })
	return l.Addr().String()
}

func TestCloseEndsAtOnceWhateverRedisDoes(t *testing.T) {
	t.Parallel()
	s := redistest.Single(t)
	for _, tt := range []struct {
		name  string
		spoil func(r *redistest.Relay)
	}{
		{"and it is well", func(*redistest.Relay) {}},
		{"and it is half open", func(r *redistest.Relay) { r.Stall() }},
		{"and it hung up", func(r *redistest.Relay) { r.Cut() }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := redistest.NewRelay(t, s.Addr)
			m := remember(t, "redis://"+r.Addr)
			m.waitCoherent(t)
			tt.spoil(r)
			began := time.Now()
			m.Tracker.Close()
			if took := time.Since(began); took > time.Second {
				t.Errorf("Close took %v", took)
			}
			if m.Coherent(key) {
				t.Error("coherent after Close")
			}
		})
	}
}
