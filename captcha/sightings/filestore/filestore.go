// Package filestore keeps on one machine which widgets pages show: it is a
// sightings.Store in a bbolt file that one process holds open.
package filestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sessionproxy/sessionproxy/captcha/sightings"
)

// Store is a sightings.Store in a file. Make it with Open. In it each site is a
// bucket of pages: when one was seen, in milliseconds and 8 bytes, then the page.
type Store struct{ db *bbolt.DB }

var _ sightings.Store = (*Store)(nil)

// lockWait bounds the wait for a process that is just ending.
const lockWait = 500 * time.Millisecond

// Open opens the store in the file at path, or makes it there with mode 0600.
func Open(path string) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if errors.Is(err, berrors.ErrTimeout) {
		err = errors.New("in use by another sessionproxy; stop it or give --state another directory")
	}
	if err != nil {
		return nil, fmt.Errorf("open store of captchas %s: %w", path, err)
	}
	return &Store{db}, nil
}

// Close lets go of the file.
func (s *Store) Close() error { return s.db.Close() }

func encode(seen time.Time, page []byte) []byte {
	return append(binary.BigEndian.AppendUint64(nil, uint64(seen.UnixMilli())), page...)
}

// decode returns a copy of the page in v; nil where its life is over.
func decode(v []byte) []byte {
	if len(v) < 8 || time.Since(seen(v)) >= sightings.Life {
		return nil
	}
	return bytes.Clone(v[8:])
}

func seen(v []byte) time.Time { return time.UnixMilli(int64(binary.BigEndian.Uint64(v))) }

// only is the revision of all pages: nobody else changes them.
const only = "only"

// Pages is described in sightings.Store.
func (s *Store) Pages(_ context.Context, site, have string) (pages map[string][]byte, revision string, err error) {
	if have == only {
		return nil, only, nil
	}
	pages = map[string][]byte{}
	err = s.db.View(func(tx *bbolt.Tx) error {
		b := tx.Bucket([]byte(site))
		if b == nil {
			return nil
		}
		return b.ForEach(func(url, v []byte) error {
			if page := decode(v); page != nil {
				pages[string(url)] = page
			}
			return nil
		})
	})
	if err != nil {
		return nil, "", fmt.Errorf("read the captchas of %s: %w", site, err)
	}
	if len(pages) > 0 {
		revision = only
	}
	return pages, revision, nil
}

// Swap is described in sightings.Store.
func (s *Store) Swap(_ context.Context, site, url string, old, now []byte) (has []byte, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		b, err := tx.CreateBucketIfNotExists([]byte(site))
		if err != nil {
			return err
		}
		if has = decode(b.Get([]byte(url))); !bytes.Equal(has, old) {
			return nil
		}
		has = now
		if err := b.Put([]byte(url), encode(time.Now(), now)); err != nil {
			return err
		}
		return makeRoom(b)
	})
	if err != nil {
		return nil, fmt.Errorf("keep the captchas of %s: %w", site, err)
	}
	return has, nil
}

// makeRoom removes pages whose life is over, and beyond the bound the one that
// was seen longest ago.
func makeRoom(b *bbolt.Bucket) error {
	var over [][]byte
	var first []byte
	n, at := 0, time.Time{}
	_ = b.ForEach(func(url, v []byte) error {
		if decode(v) == nil {
			over = append(over, bytes.Clone(url))
			return nil
		}
		if n++; first == nil || seen(v).Before(at) {
			first, at = bytes.Clone(url), seen(v)
		}
		return nil
	})
	if n > sightings.MaxPages {
		over = append(over, first)
	}
	for _, url := range over {
		if err := b.Delete(url); err != nil {
			return err
		}
	}
	return nil
}
