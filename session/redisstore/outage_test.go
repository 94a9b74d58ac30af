package redisstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/session"
)

// logged collects what a store logs.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.buf.String(), text)
}

// wantUp waits until the store is back.
func wantUp(t testing.TB, s *Store) {
	t.Helper()
	redistest.Eventually(t, 10*time.Second, "the store is back", s.Up)
}

func TestOutages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		options  []redistest.Option
		out, end func(t *testing.T, r *redistest.Server)
	}{
		{"killed, and back with its data", nil,
			func(_ *testing.T, r *redistest.Server) { r.Kill() },
			func(_ *testing.T, r *redistest.Server) { r.Start() }},
		{"frozen", nil,
			func(_ *testing.T, r *redistest.Server) { r.Freeze() },
			func(_ *testing.T, r *redistest.Server) { r.Thaw() }},
		{"full", []redistest.Option{redistest.Conf("maxmemory-policy noeviction")},
			func(t *testing.T, r *redistest.Server) { r.Do("CONFIG", "SET", "maxmemory", "1") },
			func(t *testing.T, r *redistest.Server) { r.Do("CONFIG", "SET", "maxmemory", "0") }},
		{"demoted to a replica", nil,
			func(t *testing.T, r *redistest.Server) { r.Do("REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, r *redistest.Server) { r.Do("REPLICAOF", "NO", "ONE") }},
		{"refusing clients", nil,
			func(t *testing.T, r *redistest.Server) {
				r.Do("CONFIG", "SET", "maxclients", "1")
				r.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			},
			func(t *testing.T, r *redistest.Server) { r.Do("CONFIG", "SET", "maxclients", "1000") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, client := single(t, tt.options...)
			log := new(logged)
			s := open(t, Options{Client: client, Log: log.logger(), budget: defaultBudget})
			private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
			set(t, s, shop, "sid=1", "lang=en")
			set(t, s, private, "csrf=1")
			left, err := s.Load(t.Context(), shop)
			if err != nil {
				t.Fatal(err)
			}
			tt.out(t, r)

			// The first call may wait for as long as the budget; no other.
			var worst time.Duration
			timed := func(call func()) {
				start := time.Now()
				call()
				worst = max(worst, time.Since(start))
			}
			timed(func() {
				u := session.Update{Base: left.Version(), Cookies: []session.Cookie{cookie("sid=2")}}
				if _, outcomes, err := s.Apply(t.Context(), shop, u, hourly); err != nil || outcomes[0] != session.Changed {
					t.Errorf("a capture in the outage: %v, %v", outcomes, err)
				}
			})
			if s.Up() {
				t.Fatal("the store is up")
			}
			t.Logf("the first call took %v", worst)
			if worst > 5*defaultBudget {
				t.Errorf("the first call took %v, want about %v", worst, defaultBudget)
			}
			worst = 0
			timed(func() { want(t, "the jar", load(t, s, shop), "lang=en sid=2") })
			timed(func() { want(t, "the private jar", load(t, s, private), "csrf=1") })
			timed(func() { set(t, s, private, "csrf=2") })
			timed(func() { set(t, s, shop, "lang=de") })
			timed(func() { want(t, "the jar", load(t, s, shop), "lang=de sid=2") })
			timed(func() {
				for what, call := range map[string]func() error{
					"revoke": func() error { return s.Revoke(t.Context(), shop) },
					"clear":  func() error { return s.Clear(t.Context(), shop) },
					"an operator's change": func() error {
						u := session.Update{Base: session.Latest, Writer: session.ByOperator, Cookies: []session.Cookie{cookie("op=1")}}
						_, _, err := s.Apply(t.Context(), shop, u, hourly)
						return err
					},
				} {
					if err := call(); !errors.Is(err, session.ErrAway) {
						t.Errorf("%s in the outage: %v, want %v", what, err, session.ErrAway)
					}
				}
			})
			timed(func() {
				if err := s.Renew(t.Context(), shop, session.Life{Idle: 100 * time.Hour}); err != nil {
					t.Errorf("renew in the outage: %v", err)
				}
			})
			if worst > defaultBudget {
				t.Errorf("a call in the outage took %v", worst)
			}
			want(t, "the jar after what was refused", load(t, s, shop), "lang=de sid=2")
			if got := s.Waiting(); got != 3 {
				t.Errorf("%d captures wait, want 3", got)
			}

			tt.end(t, r)
			wantUp(t, s)
			want(t, "the jar after the outage", load(t, s, shop), "lang=de sid=2")
			other := open(t, Options{Client: dial(t, r.URL())})
			want(t, "the jar of another proxy", load(t, other, shop), "lang=de sid=2")
			want(t, "the private jar there", load(t, other, private), "csrf=2")
			want(t, "the hash", mirror(t, r), "lang=de sid=2")
			if got := s.Waiting(); got != 0 {
				t.Errorf("%d captures wait, want none", got)
			}
			for _, line := range []string{"store is away", "store is back"} {
				if n := log.count(line); n != 1 {
					t.Errorf("%d log lines say that the %s, want 1", n, line)
				}
			}
			if log.count("secret")+log.count("sid=") > 0 {
				t.Error("a value is in the log")
			}
		})
	}
}

func TestAnOutageIsNoAbsentSession(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	s := open(t, Options{Client: client, budget: defaultBudget})
	want(t, "an unknown jar", load(t, s, session.Key{Site: "known.test", ID: "default"}), "absent")
	r.Kill()
	for range 2 {
		if _, err := s.Load(t.Context(), shop); err == nil || errors.Is(err, session.ErrNotFound) {
			t.Errorf("a session that nobody looked at: %v, want an error that is not %v", err, session.ErrNotFound)
		}
	}
	want(t, "a session that is known to be absent", load(t, s, session.Key{Site: "known.test", ID: "default"}), "absent")
	if _, err := s.List(t.Context(), ""); err == nil {
		t.Error("a list came without Redis")
	}
	// A login that one client makes now holds for the others of this proxy.
	set(t, s, shop, "sid=1")
	want(t, "the jar", load(t, s, shop), "sid=1")
	r.Start()
	wantUp(t, s)
	want(t, "the hash", mirror(t, r), "sid=1")
}

func TestReplayLeavesWhatIsNewer(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	relay := redistest.NewRelay(t, r.Addr)
	a, b := open(t, Options{Client: dial(t, "redis://"+relay.Addr), budget: defaultBudget}), open(t, Options{Client: client})
	left := set(t, a, shop, "old=0", "both=0", "login=0", "mine=0", "gone=0").Version()
	relay.Stall()
	update := func(s *Store, w session.Writer, base int64, cookies ...session.Cookie) {
		t.Helper()
		if _, _, err := s.Apply(t.Context(), shop, session.Update{Base: base, Writer: w, Cookies: cookies}, hourly); err != nil {
			t.Fatal(err)
		}
	}
	deleted := cookie("gone=")
	deleted.Expires = past
	update(b, session.ByLogin, left, cookie("login=b")) // a's late reply may not undo a login
	update(a, session.ByReply, left, cookie("old=a"), cookie("both=a"), cookie("login=a"), cookie("mine=a"), deleted)
	update(b, session.ByReply, left, cookie("both=b")) // the last of two replies wins
	want(t, "the jar of the one in outage", load(t, a, shop), "both=a login=a mine=a old=a")
	want(t, "the jar of the other", load(t, b, shop), "both=b gone=0 login=b mine=0 old=0")
	relay.Resume()
	wantUp(t, a)
	for _, s := range []*Store{a, b} {
		want(t, "the jar after the outage", load(t, s, shop), "both=b login=b mine=a old=a")
	}
}

func TestReplayOfARevokedSessionIsRefused(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	relay := redistest.NewRelay(t, r.Addr)
	a, b := open(t, Options{Client: dial(t, "redis://"+relay.Addr), budget: defaultBudget}), open(t, Options{Client: client})
	left := set(t, a, shop, "sid=1").Version()
	relay.Stall()
	if err := b.Revoke(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	if _, _, err := a.Apply(t.Context(), shop, session.Update{Base: left, Cookies: []session.Cookie{cookie("sid=2")}}, hourly); err != nil {
		t.Fatal(err)
	}
	relay.Resume()
	wantUp(t, a)
	want(t, "the jar", load(t, a, shop), "")
}

func TestCapturesThatWaitAreBounded(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	s := start(t, Options{Client: client}, blind{})
	set(t, s, shop, "sid=1")
	r.Kill()
	large := strings.Repeat("x", 4000)
	const count = 5000 // 20 MB
	for i := range count {
		set(t, s, shop, fmt.Sprintf("c%d=%s%d", i%100, large, i))
	}
	kept := s.Waiting()
	if kept*4300 > maxOffers || kept < count/2 {
		t.Errorf("%d captures wait, want what fits in %d bytes", kept, maxOffers)
	}
	if got := s.Dropped(); got != uint64(count-kept) {
		t.Errorf("%d captures were dropped, want %d", got, count-kept)
	}
	if err := s.Close(); err == nil || !strings.Contains(err.Error(), fmt.Sprint(kept)) {
		t.Errorf("Close: %v, want an error that counts %d", err, kept)
	}
}

func TestCloseInAnOutageIsQuick(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	s := start(t, Options{Client: client}, blind{})
	set(t, s, shop, "sid=1")
	r.Freeze()
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := s.Load(ctx, shop); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Load: %v, want %v", err, context.DeadlineExceeded)
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > 4*defaultBudget {
		t.Errorf("Close took %v", took)
	}
}

func TestCloseWithoutRedisIsQuick(t *testing.T) {
	t.Parallel()
	r, client := single(t)
	s, err := Open(Options{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, soon, "the tracker follows", func() bool { return s.tracker.Coherent(mirrorKey) })
	set(t, s, shop, "sid=1")
	r.Kill()
	redistest.Eventually(t, soon, "the outage is noticed though nobody asks", func() bool { return !s.Up() })
	start := time.Now()
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	if took := time.Since(start); took > 4*defaultBudget {
		t.Errorf("Close took %v", took)
	}
}

func TestWhatAWorkerWroteIsShownThoughRedisIsFull(t *testing.T) {
	t.Parallel()
	r, client := single(t, redistest.Conf("maxmemory-policy noeviction"))
	s := open(t, Options{Client: client})
	set(t, s, shop, "sid=1")
	r.Do("HSET", mirrorKey, "sid", "2")
	r.Do("CONFIG", "SET", "maxmemory", "1")
	for range 2 { // before and after the outage is known
		want(t, "the jar", load(t, s, shop), "sid=2")
	}
	r.Do("CONFIG", "SET", "maxmemory", "0")
	wantUp(t, s)
	want(t, "the jar", load(t, s, shop), "sid=2")
	other := open(t, Options{Client: client})
	want(t, "the jar of another", load(t, other, shop), "sid=2")
}
