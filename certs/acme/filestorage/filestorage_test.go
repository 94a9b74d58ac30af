package filestorage_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/caddyserver/certmagic"
	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/certs/acme/filestorage"
	"github.com/sessionproxy/sessionproxy/certs/acme/storagetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *filestorage.Storage {
	t.Helper()
	s, err := filestorage.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStorage(t *testing.T) {
	t.Parallel()
	storagetest.Run(t, func(t *testing.T) (a, b certmagic.Storage) {
		s := open(t, filepath.Join(t.TempDir(), "acme.db"))
		t.Cleanup(func() { _ = s.Close() })
		return s, s
	})
}

func TestWhatIsStoredOutlivesTheProcessAndLocksDoNot(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "acme.db")
	s := open(t, path)
	if err := s.Lock(t.Context(), "l"); err != nil {
		t.Fatal(err)
	}
	if err := s.Store(t.Context(), "a/b", []byte("key")); err != nil {
		t.Fatal(err)
	}
	if _, err := filestorage.Open(path); err == nil || !strings.Contains(err.Error(), "in use by another") {
		t.Errorf("a second process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v; private keys are there: want mode 0600", info, err)
	}
	s = open(t, path)
	defer s.Close()
	if got, err := s.Load(t.Context(), "a/b"); string(got) != "key" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if done, err := s.TryLock(t.Context(), "l"); !done || err != nil {
		t.Errorf("the lock of a process that ended: %t, %v", done, err)
	}
}
