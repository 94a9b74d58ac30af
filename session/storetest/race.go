package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

const writers = 32

// racing: many writers at once.
var racing = []test{
	{"writers of different cookies all win", func(f fixture) {
		const rounds = 4
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				name := fmt.Sprintf("c%02d", w)
				for round := range rounds {
					c := cookie(name, fmt.Sprint(round))
					f.mustApply(reply(session.Latest, c))
					if got := " " + show(f.mustLoad()) + " "; !strings.Contains(got, fmt.Sprintf(" %s=%d ", name, round)) {
						f.Errorf("%s=%d is not in the jar after Apply returned: %s", name, round, got)
					}
				}
			})
		}
		wg.Wait()
		var want []string
		for w := range writers {
			want = append(want, fmt.Sprintf("c%02d=%d", w, rounds-1))
		}
		f.wantJar(shop, strings.Join(want, " "))
	}},
	{"of the writers of one cookie the last one wins, for all to see", func(f fixture) {
		jars := make([]*session.Jar, writers)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { jars[w] = f.mustApply(reply(session.Latest, cookie("sid", fmt.Sprint(w)))) })
		}
		wg.Wait()
		if f.Failed() {
			return
		}
		last, seen := jars[0], make(map[int64]bool)
		for _, jar := range jars {
			if seen[jar.Version()] {
				f.Errorf("version %d was given twice", jar.Version())
			}
			seen[jar.Version()] = true
			if jar.Version() > last.Version() {
				last = jar
			}
		}
		f.wantJar(shop, show(last))
	}},
	{"of replies to requests that left together, none undoes a login", func(f fixture) {
		f.set(shop, cookie("sid", "old"))
		left := f.leave(shop)
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				if w == writers/2 {
					f.mustApply(by(session.ByLogin, cookie("sid", "login")))
					return
				}
				f.mustApply(reply(left, cookie("sid", fmt.Sprint(w))))
			})
		}
		wg.Wait()
		f.wantJar(shop, "sid=login")
	}},
	{"what a reader sees never goes back", func(f fixture) {
		f.set(shop, cookie("sid", "0"))
		done := make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for last := int64(0); ; {
					jar := f.mustLoad()
					if jar.Version() < last {
						f.Errorf("version %d after %d", jar.Version(), last)
					}
					last = jar.Version()
					select {
					case <-done:
						return
					case <-time.After(time.Millisecond):
					}
				}
			})
		}
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() { f.mustApply(reply(session.Latest, cookie("sid", fmt.Sprint(w)))) })
		}
		wg.Wait()
		close(done)
		readers.Wait()
	}},
}

// mustApply and mustLoad are for goroutines that may not end the test.
func (f fixture) mustApply(u session.Update) *session.Jar {
	jar, _, err := f.store.Apply(f.Context(), shop, u, hourly)
	if err != nil {
		f.Errorf("Apply: %v", err)
		return new(session.Jar)
	}
	return jar
}

func (f fixture) mustLoad() *session.Jar {
	jar, err := f.store.Load(f.Context(), shop)
	if err != nil {
		f.Errorf("Load: %v", err)
		return new(session.Jar)
	}
	return jar
}

// handling: contexts and Close.
var handling = []test{
	{"a call returns soon after its context ended", func(f fixture) {
		ctx, cancel := context.WithCancel(f.Context())
		cancel()
		f.set(shop, cookie("sid", "1"))
		for op, call := range calls(f.store) {
			start := time.Now()
			if err := call(ctx); err != nil && !errors.Is(err, context.Canceled) {
				f.Errorf("%s: %v, want success or context.Canceled", op, err)
			}
			if took := time.Since(start); took > time.Second {
				f.Errorf("%s: took %v", op, took)
			}
		}
	}},
	{"after Close every call is an error, and none says that the session is absent", func(f fixture) {
		f.set(shop, cookie("sid", "1"))
		if err := f.store.Close(); err != nil {
			f.Fatalf("Close: %v", err)
		}
		for op, call := range calls(f.store) {
			if err := call(f.Context()); err == nil || errors.Is(err, session.ErrNotFound) {
				f.Errorf("%s after Close: error %v, want one that is not ErrNotFound", op, err)
			}
		}
	}},
	{"Close lets calls that are under way end", func(f fixture) {
		var wg sync.WaitGroup
		for w := range writers {
			wg.Go(func() {
				_, _, err := f.store.Apply(f.Context(), shop, reply(session.Latest, cookie("sid", fmt.Sprint(w))), hourly)
				if errors.Is(err, session.ErrNotFound) {
					f.Errorf("Apply during Close: %v", err)
				}
			})
		}
		if err := f.store.Close(); err != nil {
			f.Errorf("Close: %v", err)
		}
		wg.Wait()
	}},
}

// calls are all methods that take a context.
func calls(s session.Store) map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		"Load": func(ctx context.Context) error { _, err := s.Load(ctx, shop); return err },
		"Apply": func(ctx context.Context) error {
			_, _, err := s.Apply(ctx, shop, reply(session.Latest, cookie("sid", "2")), hourly)
			return err
		},
		"Renew":  func(ctx context.Context) error { return s.Renew(ctx, shop, hourly) },
		"Revoke": func(ctx context.Context) error { return s.Revoke(ctx, shop) },
		"Clear":  func(ctx context.Context) error { return s.Clear(ctx, shop) },
		"List":   func(ctx context.Context) error { _, err := s.List(ctx, ""); return err },
	}
}
