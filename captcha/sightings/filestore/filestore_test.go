package filestore

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionproxy/sessionproxy/captcha/sightings"
	"github.com/sessionproxy/sessionproxy/captcha/sightings/storetest"
)

func open(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	s.db.NoSync = true // no test pulls the plug
	return s
}

func TestStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) sightings.Store { return open(t, filepath.Join(t.TempDir(), "s.db")) })
}

func TestWhatWasKeptIsThereAtTheNextStart(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s.db")
	s := open(t, path)
	if _, err := s.Swap(t.Context(), "shop.test", "https://shop.test/", nil, []byte("a")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "in use by another sessionproxy") {
		t.Errorf("a second process: %v", err)
	}
	s.Close()
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	pages, _, err := open(t, path).Pages(t.Context(), "shop.test", "")
	if err != nil || string(pages["https://shop.test/"]) != "a" {
		t.Errorf("%q, %v", pages, err)
	}
}

func TestAPageThatNobodySeesAgainIsForgotten(t *testing.T) {
	t.Parallel()
	s := open(t, filepath.Join(t.TempDir(), "s.db"))
	err := s.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucket([]byte("shop.test"))
		if err != nil {
			return err
		}
		return b.Put([]byte("old"), encode(time.Now().Add(-sightings.Life), []byte("a")))
	})
	if err != nil {
		t.Fatal(err)
	}
	if pages, _, err := s.Pages(t.Context(), "shop.test", ""); err != nil || len(pages) > 0 {
		t.Errorf("%q, %v", pages, err)
	}
	if has, err := s.Swap(t.Context(), "shop.test", "old", nil, []byte("b")); err != nil || string(has) != "b" {
		t.Errorf("seen anew: %q, %v", has, err)
	}
}
