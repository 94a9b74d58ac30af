package embedded

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	berrors "go.etcd.io/bbolt/errors"

	"github.com/sessionproxy/sessionproxy/session"
)

const year = 365 * 24 * time.Hour

func worker(name string) session.Key {
	return session.Key{Site: shop.Site, ID: shop.ID, Worker: name}
}

// lasting is a cookie of that life.
func lasting(name string, life time.Duration) session.Cookie {
	c := cookie(name, "1")
	c.Used = time.Now()
	c.Expires = c.Used.Add(life)
	return c
}

// setFor sets a cookie of that life by the site's own rule.
func setFor(t *testing.T, s *Store, key session.Key, name string, life time.Duration) {
	t.Helper()
	if _, _, err := s.Apply(t.Context(), key, set(lasting(name, life)), session.Life{}); err != nil {
		t.Fatal(err)
	}
}

// known is the number of workers that are known to have private jars.
func known(s *Store, shared session.Key) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.workers[shared])
}

func TestATokenOfAYearEndsWithASessionOfAMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		setFor(t, s, shop, "sid", time.Minute)
		setFor(t, s, worker("w"), "csrftoken", year)
		time.Sleep(56 * time.Second)
		if value(t, s, worker("w"), "csrftoken") == "" {
			t.Error("the private jar ended before the session")
		}
		time.Sleep(time.Second)
		if _, err := s.Load(t.Context(), worker("w")); !errors.Is(err, session.ErrNotFound) {
			t.Errorf("after the session: error %v, want %v", err, session.ErrNotFound)
		}
		time.Sleep(swept)
		if onDisk, known := len(records(t, s)), known(s, shop); onDisk != 0 || known != 0 {
			t.Errorf("%d records on disk, %d workers known, want none", onDisk, known)
		}
	})
}

func TestATokenBeforeTheLoginLivesHalfAnHourUnused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		use := func(key session.Key) {
			t.Helper()
			if err := s.Renew(t.Context(), key, session.Life{}); err != nil {
				t.Fatal(err)
			}
		}
		for _, name := range []string{"unused", "used", "logged-in"} {
			setFor(t, s, worker(name), "csrftoken", year)
		}
		time.Sleep(29 * time.Minute)
		use(worker("used"))
		use(worker("logged-in"))
		time.Sleep(time.Minute)
		if value(t, s, worker("unused"), "csrftoken") != "" {
			t.Error("unused for 30 minutes, it is still there")
		}
		time.Sleep(28 * time.Minute)
		setFor(t, s, shop, "sid", 100*time.Hour)
		use(worker("logged-in"))
		time.Sleep(time.Minute)
		if value(t, s, worker("used"), "csrftoken") != "" {
			t.Error("30 minutes after its last use, it is still there")
		}
		time.Sleep(94 * time.Hour)
		if value(t, s, worker("logged-in"), "csrftoken") == "" {
			t.Error("it ended before the session that it was used in")
		}
		time.Sleep(time.Hour)
		if value(t, s, worker("logged-in"), "csrftoken") != "" {
			t.Error("it outlives the session")
		}
	})
}

// Once the file has forgotten a session, nothing but their absence keeps its
// private jars from coming back.
func TestAPrivateJarStaysOverWhenItsSessionIsForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openAt(t, tempPath(t))
		setFor(t, s, shop, "sid", time.Minute)
		// The sweep comes while its last change is not on disk yet.
		time.Sleep(56 * time.Second)
		setFor(t, s, worker("w"), "csrftoken", year)
		time.Sleep(2 * time.Second)
		s.mu.Lock()
		r, _ := s.newest(worker("w"))
		s.put(worker("w"), r)
		s.mu.Unlock()
		s.sweep()
		time.Sleep(swept)
		setFor(t, s, shop, "sid", time.Hour)
		if value(t, s, worker("w"), "csrftoken") != "" {
			t.Error("it came back with the next session")
		}
	})
}

// Workers with names that are never used again come and go, and one stays: the
// token of a year does not make it look unused.
func TestPrivateJarsAreBounded(t *testing.T) {
	path := tempPath(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		setFor(t, s, shop, "sid", 10*time.Hour)
		setFor(t, s, worker("stays"), "csrftoken", year)
		for hour := range 6 {
			var wg sync.WaitGroup
			for i := range 500 {
				wg.Go(func() { setFor(t, s, worker(fmt.Sprintf("%d-%d", hour, i)), "csrftoken", year) })
			}
			wg.Wait()
			time.Sleep(time.Hour)
			for _, key := range []session.Key{shop, worker("stays")} {
				if err := s.Renew(t.Context(), key, session.Life{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}

		s = openAt(t, path)
		setFor(t, s, worker("last"), "csrftoken", year)
		if n := len(records(t, s)) - 1; n != session.MaxPrivate {
			t.Errorf("%d private jars on disk, want %d", n, session.MaxPrivate)
		}
		if n := known(s, shop); n != session.MaxPrivate {
			t.Errorf("%d workers known, want %d", n, session.MaxPrivate)
		}
		for _, name := range []string{"stays", "last", "5-0"} {
			if value(t, s, worker(name), "csrftoken") == "" {
				t.Errorf("worker %s has no private jar", name)
			}
		}
		if value(t, s, worker("3-0"), "csrftoken") != "" {
			t.Error("the least recently used are still there")
		}
	})
}

// A private jar whose removal failed can be removed again, though the commit
// before found it on its way out.
func TestAFailedCommitKeepsPrivateJarsInSight(t *testing.T) {
	t.Parallel()
	s := openAt(t, tempPath(t))
	other := session.Key{Site: shop.Site, ID: "other"}
	apply(t, s, shop, cookie("sid", "1"))

	release := stall(t, s)
	var wg sync.WaitGroup
	wg.Go(func() { apply(t, s, worker("w"), cookie("csrf", "1")) })
	waitFor(t, "the private jar is being written", func() bool { return writing(s, worker("w")) })
	for what, change := range map[string]func() error{
		"Clear": func() error { return s.Clear(t.Context(), shop) },
		"Apply": func() error { _, _, err := s.Apply(t.Context(), other, set(large(0)...), hourly); return err },
	} {
		wg.Go(func() {
			if err := change(); !errors.Is(err, berrors.ErrMaxSizeReached) {
				t.Errorf("%s: error %v, want %v", what, err, berrors.ErrMaxSizeReached)
			}
		})
	}
	waitFor(t, "the next changes are put", func() bool { return put(s, worker("w")) && put(s, other) })
	limit := s.db.MaxSize
	s.db.MaxSize = 1
	release()
	wg.Wait()
	if got, n := value(t, s, worker("w"), "csrf"), known(s, shop); got != "1" || n != 1 {
		t.Errorf("csrf=%q, %d workers known after a removal that failed, want 1 and 1", got, n)
	}
	s.mu.Lock()
	s.db.MaxSize = limit
	s.mu.Unlock()
	if err := s.Clear(t.Context(), shop); err != nil {
		t.Fatal(err)
	}
	if got := value(t, s, worker("w"), "csrf"); got != "" {
		t.Errorf("csrf=%q after Clear", got)
	}
}
