package embedded

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/storetest"
)

func TestContract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) session.Store { return openAt(t, tempPath(t)) })
}

func TestContractOverRestarts(t *testing.T) {
	t.Parallel()
	storetest.RunDurable(t, func(t *testing.T, dir string) session.Store {
		return openAt(t, filepath.Join(dir, "sessions.db"))
	})
}

func TestLoadAllocatesNothing(t *testing.T) {
	s := openAt(t, tempPath(t))
	private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}
	apply(t, s, shop, cookie("sid", "1"))
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() {
		_, _ = s.Load(ctx, shop)
		_, _ = s.Load(ctx, private)
		_ = s.Renew(ctx, shop, hourly)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestUnchangedReturnsTheJarItself(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	jar := apply(t, s, shop, cookie("sid", "1"))
	before := commits(t, s)
	if again := apply(t, s, shop, cookie("sid", "1")); again != jar {
		t.Errorf("another jar: %p, want %p", again, jar)
	}
	if n := commits(t, s) - before; n != 0 {
		t.Errorf("%d commits", n)
	}
}

// Appliers of one hot session chain in memory and share commits: while one is
// on its way to the disk, the others gather for the next.
func TestConcurrentChangesShareCommits(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	apply(t, s, shop, cookie("sid", "1"))
	before := commits(t, s)

	const appliers = 128
	release := stall(t, s)
	var wg sync.WaitGroup
	for i := range appliers {
		wg.Go(func() { apply(t, s, shop, cookie(fmt.Sprintf("c%03d", i), "1")) })
	}
	waitFor(t, "all changes are put", func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		r, _ := s.newest(shop)
		return len(r.Jar.Cookies()) == appliers+1
	})
	release()
	wg.Wait()

	// The first change's commit was under way; the rest shared the second.
	if n := commits(t, s) - before; n > 2 {
		t.Errorf("%d commits for %d changes, want 2", n, appliers)
	}
	if jar, err := s.Load(t.Context(), shop); err != nil || len(jar.Cookies()) != appliers+1 {
		t.Errorf("Load: %v, %v", jar, err)
	}
}

// What a change found in the jar was perhaps not on disk yet: it may not be
// acknowledged before that is.
func TestUnchangedWaitsForTheChangeItRestsOn(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	apply(t, s, shop, cookie("sid", "1"))

	release := stall(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { apply(t, s, shop, cookie("sid", "2")) })
	waitFor(t, "the change is being written", func() bool { return writing(s, shop) })

	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if _, _, err := s.Apply(ctx, shop, set(cookie("sid", "2")), hourly); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the same change: error %v while the disk is stalled, want %v", err, context.DeadlineExceeded)
	}
	if got := value(t, s, shop, "sid"); got != "1" {
		t.Errorf("sid=%s is visible before it is on disk", got)
	}
	release()
	wg.Wait()
	if got := value(t, s, shop, "sid"); got != "2" {
		t.Errorf("sid=%q, want 2", got)
	}
}

// Appliers chain in memory: when a commit fails, what was put upon it fails too,
// and the jar is again what is on disk.
func TestAFailedCommitTakesWhatRestsOnItAlong(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	before := apply(t, s, shop, cookie("sid", "1"))

	release := stall(t, s)
	errs := make([]error, 2)
	var wg sync.WaitGroup
	wg.Go(func() { _, _, errs[0] = s.Apply(t.Context(), shop, set(large(0)...), hourly) })
	waitFor(t, "the first change is being written", func() bool { return writing(s, shop) })
	wg.Go(func() {
		u := set(cookie("sid", "2"))
		u.Replace = true // so small that it would fit
		_, _, errs[1] = s.Apply(t.Context(), shop, u, hourly)
	})
	waitFor(t, "the second change is put", func() bool { return put(s, shop) })
	s.db.MaxSize = 1 // bbolt may not grow the file
	release()
	wg.Wait()
	for i, err := range errs {
		if !errors.Is(err, berrors.ErrMaxSizeReached) {
			t.Errorf("change %d: error %v, want %v", i, err, berrors.ErrMaxSizeReached)
		}
	}
	if jar, err := s.Load(t.Context(), shop); jar != before {
		t.Errorf("Load: another jar, or error %v", err)
	}
	apply(t, s, shop, cookie("sid", "3"))
	if got := value(t, s, shop, "sid"); got != "3" {
		t.Errorf("sid=%q, want 3", got)
	}
}

func TestRevokeEndsPrivateJarsThatAreOnTheirWay(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	private := session.Key{Site: shop.Site, ID: shop.ID, Worker: "w"}

	release := stall(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { apply(t, s, private, cookie("csrf", "1")) })
	waitFor(t, "the private jar is being written", func() bool { return writing(s, private) })
	wg.Go(func() {
		if err := s.Revoke(t.Context(), shop); err != nil {
			t.Error(err)
		}
	})
	waitFor(t, "the revocation is put", func() bool { return put(s, shop) })
	release()
	wg.Wait()
	if got := value(t, s, private, "csrf"); got != "" {
		t.Errorf("csrf=%s after Revoke", got)
	}
}

func TestWaitingForTheDiskEndsWithTheContext(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	defer stall(t, s)()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for op, call := range map[string]func() error{
		"Apply":  func() error { _, _, err := s.Apply(ctx, shop, set(cookie("sid", "1")), hourly); return err },
		"Revoke": func() error { return s.Revoke(ctx, shop) },
		"Clear":  func() error { return s.Clear(ctx, shop) },
	} {
		if err := call(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: error %v, want %v", op, err, context.DeadlineExceeded)
		}
	}
}

func TestErrorsNameTheSessionAndNoValue(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	long := session.Key{Site: shop.Site, ID: "default", Worker: strings.Repeat("w", bbolt.MaxKeySize)}
	_, _, err := s.Apply(t.Context(), long, set(cookie("sid", "secret")), hourly)
	if want := `apply to session "default" of "shop.test": key is too long`; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t)) // which closes too
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// stall keeps the disk busy until the returned function is called.
func stall(t *testing.T, s *Store) (release func()) {
	t.Helper()
	tx, err := s.db.Begin(true)
	if err != nil {
		t.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// put says whether a change of key waits for the next commit, and writing
// whether one is being committed.
func put(s *Store, key session.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.filling.records[key]
	return ok
}

func writing(s *Store, key session.Key) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.writing.records[key]
	return ok
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 5 s: %s", what)
		}
	}
}

// commits counts what was ever committed to the file.
func commits(t testing.TB, s *Store) (n int) {
	t.Helper()
	if err := s.db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestAfterTheClockWentBackShortLivesAreKept(t *testing.T) {
	s := openAt(t, tempPath(t))
	s.clock = s.Now().Add(time.Hour).UnixMicro() // what was written before it did
	c := cookie("cart", "3")
	c.Expires = s.Now().Add(10 * time.Minute)
	apply(t, s, shop, c)
	jar, err := s.Load(t.Context(), shop)
	if err != nil || len(jar.Cookies()) != 1 {
		t.Fatalf("%v, %v: want the cookie", jar, err)
	}
	if left := jar.End(s.Now(), session.Life{}).Sub(s.Now()); left < 9*time.Minute || left > 10*time.Minute {
		t.Errorf("by its cookie the session lives %v, want ten minutes less 5 %%", left)
	}
}
