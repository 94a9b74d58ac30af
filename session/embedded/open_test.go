package embedded

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"go.etcd.io/bbolt"

	"github.com/sessionproxy/sessionproxy/session"
)

func TestTheFileIsItsOwnersAlone(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	openAt(t, path)
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if mode := info.Mode().Perm(); mode != 0o600 {
		t.Errorf("mode %v, want -rw-------", mode)
	}
}

func TestASecondOpenIsRefused(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	s := openAt(t, path)
	wantOpenError(t, path, "in use by another sessionproxy; stop it or give --state another directory")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	openAt(t, path)
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	const remedy = "; restore it from a backup, or move it away to start without sessions"
	for _, tt := range []struct {
		name string
		file func(t *testing.T, path string)
		want string // in the error
	}{
		{"a file that is no store", func(t *testing.T, path string) {
			write(t, path, bytes.Repeat([]byte("not a store\n"), 10000))
		}, "the file is damaged: invalid database" + remedy},
		{"a file that is too short for one", func(t *testing.T, path string) {
			write(t, path, []byte("short"))
		}, remedy},
		{"a file whose end is missing", func(t *testing.T, path string) {
			fill(t, path, 40)
			if err := os.Truncate(path, 64<<10); err != nil {
				t.Fatal(err)
			}
		}, remedy},
		{"a file of which only the first page is left", func(t *testing.T, path string) {
			fill(t, path, 40)
			if err := os.Truncate(path, int64(os.Getpagesize())); err != nil {
				t.Fatal(err)
			}
		}, remedy},
		{"a file without sessions' bucket", func(t *testing.T, path string) {
			fill(t, path, 40)
			edit(t, path, func(tx *bbolt.Tx) error { return tx.DeleteBucket(bucketJars) })
		}, remedy},
		{"another program's file", func(t *testing.T, path string) {
			edit(t, path, func(tx *bbolt.Tx) error { _, err := tx.CreateBucket([]byte("jars")); return err })
		}, "not a session store; move it away or give --state another directory"},
		{"a newer format", func(t *testing.T, path string) {
			fill(t, path, 40)
			edit(t, path, func(tx *bbolt.Tx) error { return tx.Bucket(bucketMeta).Put(schemaKey, []byte{schema + 1}) })
		}, "written by a newer sessionproxy (format 2, this one reads 1); upgrade this one or give --state another directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := tempPath(t)
			tt.file(t, path)
			wantOpenError(t, path, tt.want)
		})
	}
}

func TestOpenNeedsADirectory(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "none", "sessions.db")
	if _, err := Open(path); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "damaged") {
		t.Errorf("Open: error %v, want %v", err, fs.ErrNotExist)
	}
}

// Whatever page is lost, the proxy says so, or starts with what is left and
// counts the rest.
func TestNoPageIsLostInSilence(t *testing.T) {
	t.Parallel()
	const sessions = 4
	whole := tempPath(t)
	fill(t, whole, sessions)
	content, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	page := os.Getpagesize()
	for _, filler := range []byte{0x00, 0xff} {
		for at := 0; at+page <= len(content); at += page {
			damaged := bytes.Clone(content)
			copy(damaged[at:], bytes.Repeat([]byte{filler}, page))
			path := tempPath(t)
			write(t, path, damaged)
			s, err := Open(path)
			if err != nil {
				if !strings.Contains(err.Error(), path) {
					t.Errorf("page %d of %#x: %v", at/page, filler, err)
				}
				continue
			}
			// Of the first two pages one is enough; it may be one commit older.
			if n := len(s.live) + s.Damaged(); n != sessions && at >= 2*page {
				t.Errorf("page %d of %#x: %d sessions and %d damaged, want %d in all", at/page, filler, len(s.live), s.Damaged(), sessions)
			}
			if err := s.Close(); err != nil {
				t.Errorf("page %d of %#x: %v", at/page, filler, err)
			}
		}
	}
}

func TestADamagedRecordIsPutAside(t *testing.T) {
	t.Parallel()
	other := session.Key{Site: shop.Site, ID: "other"}
	for _, tt := range []struct {
		name   string
		damage func(value []byte) []byte
	}{
		{"a bit fell over", func(value []byte) []byte { value[len(value)/2] ^= 1; return value }},
		{"its end is missing", func(value []byte) []byte { return value[:len(value)-1] }},
		{"nothing is left", func([]byte) []byte { return nil }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := tempPath(t)
			s := openAt(t, path)
			apply(t, s, shop, cookie("sid", "1"))
			apply(t, s, other, cookie("sid", "2"))
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			var damaged []byte
			edit(t, path, func(tx *bbolt.Tx) error {
				jars := tx.Bucket(bucketJars)
				damaged = tt.damage(bytes.Clone(jars.Get(encodeKey(shop))))
				return jars.Put(encodeKey(shop), damaged)
			})

			for range 2 { // it is still there at the second start
				s = openAt(t, path)
				if n := s.Damaged(); n != 1 {
					t.Errorf("Damaged() = %d, want 1", n)
				}
				if _, err := s.Load(t.Context(), shop); !errors.Is(err, session.ErrNotFound) {
					t.Errorf("Load of the damaged: error %v, want %v", err, session.ErrNotFound)
				}
				if got := value(t, s, other, "sid"); got != "2" {
					t.Errorf("sid=%q in the other session, want 2", got)
				}
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			edit(t, path, func(tx *bbolt.Tx) error {
				key, kept := tx.Bucket(bucketDamaged).Cursor().First()
				if !bytes.HasSuffix(key, encodeKey(shop)) || !bytes.Equal(kept, damaged) {
					t.Errorf("kept %x under %x, want %x", kept, key, damaged)
				}
				return nil
			})
			apply(t, openAt(t, path), shop, cookie("sid", "3"))
		})
	}
}

// A file that shrinks under the store faults where it is read.
func TestAFileThatVanishesUnderTheStoreIsAnOutage(t *testing.T) {
	t.Parallel()
	path := tempPath(t)
	s, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	apply(t, s, shop, cookie("sid", "1"))
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, _, err := s.Apply(t.Context(), shop, set(cookie("sid", "2")), hourly); !errors.Is(err, errDamaged) {
			t.Errorf("Apply: error %v, want %v", err, errDamaged)
		}
	}
	if got := value(t, s, shop, "sid"); got != "1" {
		t.Errorf("sid=%q, want 1", got)
	}
	if err := s.Close(); err == nil {
		t.Error("Close: no error")
	}
}

func wantOpenError(t *testing.T, path, want string) {
	t.Helper()
	s, err := Open(path)
	if err == nil {
		s.Close()
		t.Fatal("Open succeeded")
	}
	if got := err.Error(); !strings.HasPrefix(got, "open store "+path+": ") || !strings.HasSuffix(got, want) {
		t.Errorf("Open: %v\nwant it to end %s", err, want)
	}
}

// fill makes a store of sessions, each of 16 KB, at path.
func fill(t *testing.T, path string, sessions int) {
	t.Helper()
	s := openAt(t, path)
	for i := range sessions {
		apply(t, s, session.Key{Site: shop.Site, ID: strconv.Itoa(i)}, large(i)...)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func edit(t *testing.T, path string, change func(tx *bbolt.Tx) error) {
	t.Helper()
	db, err := bbolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Update(change); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(t *testing.T, path string, content []byte) {
	t.Helper()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
