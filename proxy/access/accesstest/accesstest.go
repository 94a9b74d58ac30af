// Package accesstest is what an access store must do, as a test that each store
// runs.
package accesstest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// patience bounds every wait.
const patience = 10 * time.Second

// Run runs the suite. open returns two views of one empty store: two proxies
// that share a server, or twice the same where it is one process's own.
func Run(t *testing.T, open func(t *testing.T) (a, b access.Store)) {
	for _, tt := range []struct {
		name string
		test func(t *testing.T, a, b access.Store)
	}{
		{"a value is there for all, and nothing else is", testGet},
		{"a swap takes the place of what it names", testSwap},
		{"of many that swap the same, one does", testRace},
		{"a life ends", testLife},
		{"a list has what begins so and lives", testList},
		{"a message reaches all that follow", testFollow},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			tt.test(t, a, b)
		})
	}
}

func put(t *testing.T, s access.Store, key, value string, life time.Duration) {
	t.Helper()
	swap(t, s, key, nil, []byte(value), life, true)
}

func swap(t *testing.T, s access.Store, key string, old, value []byte, life time.Duration, want bool) {
	t.Helper()
	if done, err := s.Swap(t.Context(), key, old, value, life); done != want || err != nil {
		t.Fatalf("swap %s from %q to %q: %t, %v; want %t", key, old, value, done, err, want)
	}
}

func wantValue(t *testing.T, s access.Store, key, want string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); string(got) != want || err != nil {
		t.Fatalf("%s is %q, %v; want %q", key, got, err, want)
	}
}

func wantNone(t *testing.T, s access.Store, key string) {
	t.Helper()
	if got, err := s.Get(t.Context(), key); !errors.Is(err, access.ErrNotFound) {
		t.Fatalf("%s is %q, %v; want ErrNotFound", key, got, err)
	}
}

func testGet(t *testing.T, a, b access.Store) {
	wantNone(t, a, "refresh:x")
	put(t, a, "refresh:x", "one\x00\xff", time.Hour)
	wantValue(t, a, "refresh:x", "one\x00\xff")
	wantValue(t, b, "refresh:x", "one\x00\xff")
	put(t, b, "session:op:x", "", 0) // empty is not none
	wantValue(t, a, "session:op:x", "")
}

func testSwap(t *testing.T, a, b access.Store) {
	const key = "refresh:x"
	swap(t, a, key, []byte("none"), []byte("one"), time.Hour, false)
	wantNone(t, b, key)
	put(t, a, key, "one", time.Hour)
	swap(t, b, key, nil, []byte("two"), time.Hour, false)
	swap(t, b, key, []byte("two"), nil, 0, false)
	swap(t, b, key, []byte("one"), []byte("two"), time.Hour, true)
	wantValue(t, a, key, "two")
	swap(t, a, key, []byte("two"), nil, 0, true)
	wantNone(t, b, key)
	put(t, b, key, "three", time.Hour)
}

func testRace(t *testing.T, a, b access.Store) {
	const key = "refresh:x"
	put(t, a, key, "0", time.Hour)
	for round := range 5 {
		var won atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				s := []access.Store{a, b}[i%2]
				done, err := s.Swap(t.Context(), key, fmt.Append(nil, round), fmt.Append(nil, round+1), time.Hour)
				if err != nil {
					t.Error(err)
				}
				if done {
					won.Add(1)
				}
			})
		}
		wg.Wait()
		if won.Load() != 1 {
			t.Fatalf("%d of 8 have swapped, want 1", won.Load())
		}
	}
}

func testLife(t *testing.T, a, b access.Store) {
	put(t, a, "denied:x", "one", 50*time.Millisecond)
	put(t, a, "denied:y", "one", 0)
	for end := time.Now().Add(patience); ; time.Sleep(5 * time.Millisecond) {
		if _, err := b.Get(t.Context(), "denied:x"); errors.Is(err, access.ErrNotFound) {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a life of 50 ms does not end")
		}
	}
	put(t, b, "denied:x", "two", time.Hour)
	wantValue(t, a, "denied:y", "one")
}

func testList(t *testing.T, a, b access.Store) {
	put(t, a, "refresh:x", "1", time.Hour)
	put(t, b, "refresh:y", "2", time.Hour)
	put(t, b, "refresh:z", "3", time.Millisecond)
	put(t, b, "denied:x", "4", time.Hour)
	put(t, b, "session:op:x", "5", time.Hour)
	swap(t, a, "refresh:x", []byte("1"), []byte("6"), time.Hour, true)
	put(t, a, "refresh:gone", "7", time.Hour)
	swap(t, b, "refresh:gone", []byte("7"), nil, 0, true)
	time.Sleep(5 * time.Millisecond) // z's life
	for prefix, want := range map[string]string{
		"refresh:":    "map[refresh:x:6 refresh:y:2]",
		"denied:":     "map[denied:x:4]",
		"session:op:": "map[session:op:x:5]",
		"session:x:":  "map[]",
	} {
		all, err := a.List(t.Context(), prefix)
		got := map[string]string{}
		for k, v := range all {
			got[k] = string(v)
		}
		if fmt.Sprint(got) != want || err != nil {
			t.Errorf("list %s: %v, %v; want %s", prefix, got, err, want)
		}
	}
}

func testFollow(t *testing.T, a, b access.Store) {
	type follower struct {
		messages chan access.Message
		stop     func()
		done     chan struct{}
	}
	follow := func(s access.Store) follower {
		ctx, stop := context.WithCancel(t.Context())
		f := follower{make(chan access.Message, 100), stop, make(chan struct{})}
		go func() {
			defer close(f.done)
			s.Follow(ctx, func(m access.Message) { f.messages <- m })
		}()
		return f
	}
	want := func(f follower, m access.Message) {
		t.Helper()
		select {
		case got := <-f.messages:
			if got != m {
				t.Fatalf("got %v, want %v", got, m)
			}
		case <-time.After(patience):
			t.Fatalf("no message, want %v", m)
		}
	}
	fa, fb := follow(a), follow(b)
	want(fa, access.Message{Topic: access.Began})
	want(fb, access.Message{Topic: access.Began})
	for i, m := range []access.Message{{Topic: "denied", Body: "x 1"}, {Topic: "event", Body: `{"a": "b c"}`}, {Topic: "bare"}} {
		if err := []access.Store{a, b}[i%2].Publish(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		want(fa, m)
		want(fb, m)
	}
	for _, f := range []follower{fa, fb} {
		f.stop()
		select {
		case <-f.done:
		case <-time.After(patience):
			t.Fatal("Follow goes on after its context has ended")
		}
		want(f, access.Message{Topic: access.Ended})
	}
}
