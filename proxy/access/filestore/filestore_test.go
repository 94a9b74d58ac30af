package filestore_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/access/accesstest"
	"github.com/sessionproxy/sessionproxy/proxy/access/filestore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, path string) *filestore.Store {
	t.Helper()
	s, err := filestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	accesstest.Run(t, func(t *testing.T) (a, b access.Store) {
		s := open(t, filepath.Join(t.TempDir(), "access.db"))
		t.Cleanup(func() { _ = s.Close() })
		return s, s
	})
}

func TestWhatIsPutOutlivesTheProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "access.db")
	s := open(t, path)
	if _, err := s.Swap(t.Context(), "refresh:x", nil, []byte("one"), time.Hour); err != nil {
		t.Fatal(err)
	}
	if _, err := filestore.Open(path); err == nil || !strings.Contains(err.Error(), "in use by another") {
		t.Errorf("a second process: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = open(t, path)
	defer s.Close()
	if got, err := s.Get(t.Context(), "refresh:x"); string(got) != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}
