// Package storagetest is what [certmagic.Storage] promises as one test suite,
// which every storage of ours passes. It knows the promise's words and nobody's
// ways.
package storagetest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/caddyserver/certmagic"
)

// fixture is two processes' view of one storage, the same one where only one
// process can have it.
type fixture struct {
	*testing.T
	a, b certmagic.Storage
}

// Run tests the storages that open returns: empty, and shared by a and b.
func Run(t *testing.T, open func(t *testing.T) (a, b certmagic.Storage)) {
	for _, tt := range []struct {
		name string
		run  func(f *fixture)
	}{
		{"what one stores the other loads", func(f *fixture) {
			f.missing("a/b")
			f.store("a/b", "one")
			f.want("a/b", "one")
			f.store("a/b", "two")
			f.want("a/b", "two")
			f.store("a/empty", "")
			f.want("a/empty", "")
			f.missing("a")
			f.missing("a/b/c")
			f.missing("a/")
		}},
		{"any bytes", func(f *fixture) {
			all := make([]byte, 10<<10) // as certmagic's own check of a storage
			for i := range all {
				all[i] = byte(i)
			}
			f.store("bytes", string(all))
			f.want("bytes", string(all))
		}},
		{"a path is no prefix of a name", func(f *fixture) {
			f.store("ab/c", "x")
			f.store("a/b/c", "y")
			f.delete("a")
			f.missing("a/b/c")
			f.want("ab/c", "x")
			f.delete("ab/c")
			f.missing("ab/c")
			f.delete("ab/c")
			f.delete("never/was")
		}},
		{"lists", func(f *fixture) {
			for _, key := range []string{"certs/ca/x.test/x.test.crt", "certs/ca/x.test/x.test.key", "certs/ca/y.test/y.test.crt", "certs/note", "other"} {
				f.store(key, "v")
			}
			f.list("certs", false, "certs/ca", "certs/note")
			f.list("certs/ca/x.test", false, "certs/ca/x.test/x.test.crt", "certs/ca/x.test/x.test.key")
			f.list("certs/ca", true, "certs/ca/x.test", "certs/ca/x.test/x.test.crt", "certs/ca/x.test/x.test.key",
				"certs/ca/y.test", "certs/ca/y.test/y.test.crt")
			f.list("", false, "certs", "other")
			if all, err := f.b.List(f.Context(), "cert", false); !errors.Is(err, fs.ErrNotExist) {
				f.Errorf("a folder that is none: %q, %v", all, err)
			}
		}},
		{"stats", func(f *fixture) {
			before := time.Now().Add(-time.Second)
			f.store("a/b", "four")
			info, err := f.b.Stat(f.Context(), "a/b")
			if err != nil || info.Key != "a/b" || info.Size != 4 || !info.IsTerminal || info.Modified.Before(before) || info.Modified.After(time.Now().Add(time.Second)) {
				f.Errorf("a/b: %+v, %v", info, err)
			}
			info, err = f.b.Stat(f.Context(), "a")
			if err != nil || info.Key != "a" || info.IsTerminal {
				f.Errorf("a: %+v, %v", info, err)
			}
			for key, want := range map[string]bool{"a": true, "a/b": true, "a/c": false, "b": false} {
				if got := f.b.Exists(f.Context(), key); got != want {
					f.Errorf("%s exists: %t, want %t", key, got, want)
				}
			}
		}},
		{"an ended context", func(f *fixture) {
			ctx, cancel := context.WithCancel(f.Context())
			cancel()
			if err := f.a.Store(ctx, "k", []byte("v")); err == nil {
				f.Error("Store: no error")
			}
			if _, err := f.a.Load(ctx, "k"); err == nil || errors.Is(err, fs.ErrNotExist) {
				f.Errorf("Load: %v", err)
			}
			if _, err := f.a.List(ctx, "", true); err == nil || errors.Is(err, fs.ErrNotExist) {
				f.Errorf("List: %v", err)
			}
			if _, err := f.a.Stat(ctx, "k"); err == nil || errors.Is(err, fs.ErrNotExist) {
				f.Errorf("Stat: %v", err)
			}
		}},
		{"one has a lock, and who waits gets it next", func(f *fixture) {
			f.lock(f.a, "l")
			f.try(f.b, "l", false)
			f.try(f.b, "m", true)
			ctx, cancel := context.WithTimeout(f.Context(), 10*time.Millisecond)
			defer cancel()
			if err := f.b.Lock(ctx, "l"); err == nil {
				f.Error("a lock that is held was given again")
			}
			got := make(chan error, 1)
			go func() { got <- f.b.Lock(f.Context(), "l") }()
			f.unlock(f.a, "l")
			if err := <-got; err != nil {
				f.Error(err)
			}
			f.try(f.a, "l", false)
			f.unlock(f.b, "l")
			f.try(f.a, "l", true)
		}},
		{"locks exclude", func(f *fixture) {
			var wg sync.WaitGroup
			for n := range 4 {
				wg.Go(func() {
					s := f.a
					if n%2 == 1 {
						s = f.b
					}
					for range 3 {
						f.lock(s, "counter")
						text, err := s.Load(f.Context(), "n")
						if err != nil && !errors.Is(err, fs.ErrNotExist) {
							f.Error(err)
						}
						n := 0
						_, _ = fmt.Sscan(string(text), &n) // 0 where there is none
						if err := s.Store(f.Context(), "n", fmt.Append(nil, n+1)); err != nil {
							f.Error(err)
						}
						f.unlock(s, "counter")
					}
				})
			}
			wg.Wait()
			f.want("n", "12")
		}},
		{"who holds none ends none", func(f *fixture) {
			f.lock(f.a, "l")
			if err := f.b.Unlock(f.Context(), "other"); err == nil {
				f.Error("no error")
			}
			f.try(f.b, "l", false)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a, b := open(t)
			tt.run(&fixture{t, a, b})
		})
	}
}

func (f *fixture) store(key, value string) {
	f.Helper()
	if err := f.a.Store(f.Context(), key, []byte(value)); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) delete(key string) {
	f.Helper()
	if err := f.a.Delete(f.Context(), key); err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) want(key, value string) {
	f.Helper()
	if got, err := f.b.Load(f.Context(), key); err != nil || string(got) != value {
		f.Errorf("%s is %.80q, %v, want %.80q", key, got, err, value)
	}
}

func (f *fixture) missing(key string) {
	f.Helper()
	if got, err := f.b.Load(f.Context(), key); !errors.Is(err, fs.ErrNotExist) {
		f.Errorf("%s is %q, %v, want none", key, got, err)
	}
}

func (f *fixture) list(path string, recursive bool, want ...string) {
	f.Helper()
	got, err := f.b.List(f.Context(), path, recursive)
	slices.Sort(got)
	if err != nil || !slices.Equal(got, want) {
		f.Errorf("in %q, recursive %t: %q, %v, want %q", path, recursive, got, err, want)
	}
}

func (f *fixture) lock(s certmagic.Storage, name string) {
	f.Helper()
	if err := s.Lock(f.Context(), name); err != nil {
		f.Error(err)
	}
}

func (f *fixture) try(s certmagic.Storage, name string, want bool) {
	f.Helper()
	if got, err := s.(certmagic.TryLocker).TryLock(f.Context(), name); err != nil || got != want {
		f.Errorf("lock %s: %t, %v, want %t", name, got, err, want)
	}
}

func (f *fixture) unlock(s certmagic.Storage, name string) {
	f.Helper()
	if err := s.Unlock(f.Context(), name); err != nil {
		f.Error(err)
	}
}
