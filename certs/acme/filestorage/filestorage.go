// Package filestorage keeps certificates, and what fetching them takes, on one
// machine: a bbolt file that one process holds open. Its locks are that
// process's, and end with it.
package filestorage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sessionproxy/sessionproxy/certs/acme/tree"
)

// Storage is a [certmagic.Storage] in a file. Make it with Open.
type Storage struct {
	db *bbolt.DB

	mu    sync.Mutex               // guards locks
	locks map[string]chan struct{} // those that are held; closed when they end
}

var (
	_ certmagic.Storage   = (*Storage)(nil)
	_ certmagic.TryLocker = (*Storage)(nil)
)

// bucket holds key → when it was stored, in milliseconds, 8 bytes, then the value.
var bucket = []byte("acme")

// lockWait bounds the wait for a process that is just ending.
const lockWait = 500 * time.Millisecond

// Open opens the storage in the file at path, or makes it there with mode 0600.
func Open(path string) (*Storage, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if errors.Is(err, berrors.ErrTimeout) {
		err = errors.New("in use by another sessionproxy; stop it or give --state another directory")
	}
	if err != nil {
		return nil, fmt.Errorf("open certificate storage %s: %w", path, err)
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		_, err := tx.CreateBucketIfNotExists(bucket)
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open certificate storage %s: %w", path, err), db.Close())
	}
	return &Storage{db: db, locks: map[string]chan struct{}{}}, nil
}

// Store is of [certmagic.Storage].
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	return s.update(ctx, "store", key, func(b *bbolt.Bucket) error {
		record := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli()))
		return b.Put([]byte(key), append(record, value...))
	})
}

// Delete is of [certmagic.Storage].
func (s *Storage) Delete(ctx context.Context, key string) error {
	return s.update(ctx, "delete", key, func(b *bbolt.Bucket) error {
		for _, k := range tree.Below(keys(b), key) {
			if err := b.Delete([]byte(k)); err != nil {
				return err
			}
		}
		return b.Delete([]byte(key))
	})
}

func (s *Storage) update(ctx context.Context, op, key string, change func(*bbolt.Bucket) error) error {
	err := ctx.Err()
	if err == nil {
		err = s.db.Update(func(tx *bbolt.Tx) error { return change(tx.Bucket(bucket)) })
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", op, key, err)
	}
	return nil
}

func keys(b *bbolt.Bucket) []string {
	var all []string
	_ = b.ForEach(func(k, _ []byte) error {
		all = append(all, string(k))
		return nil
	})
	return all
}

// Load is of [certmagic.Storage].
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", key, err)
	}
	return value, nil
}

func (s *Storage) load(ctx context.Context, key string) (value []byte, at time.Time, err error) {
	if err := ctx.Err(); err != nil {
		return nil, time.Time{}, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		record := tx.Bucket(bucket).Get([]byte(key))
		if len(record) < 8 {
			return fs.ErrNotExist
		}
		at = time.UnixMilli(int64(binary.BigEndian.Uint64(record)))
		value = append([]byte{}, record[8:]...) // bbolt's own ends with the transaction
		return nil
	})
	return value, at, err
}

// Exists is of [certmagic.Storage].
func (s *Storage) Exists(ctx context.Context, key string) bool {
	_, err := s.Stat(ctx, key)
	return err == nil
}

// List is of [certmagic.Storage].
func (s *Storage) List(ctx context.Context, path string, recursive bool) ([]string, error) {
	all, err := s.keys(ctx)
	if err == nil {
		all, err = tree.List(all, path, recursive)
	}
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", path, err)
	}
	return all, nil
}

func (s *Storage) keys(ctx context.Context) (all []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = s.db.View(func(tx *bbolt.Tx) error {
		all = keys(tx.Bucket(bucket))
		return nil
	})
	return all, err
}

// Stat is of [certmagic.Storage].
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	return tree.Stat(ctx, key, s.load, s.keys)
}

// Lock is of [certmagic.Locker].
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		ended := s.take(name)
		if ended == nil {
			return nil
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w", name, ctx.Err())
		}
	}
}

// TryLock is of [certmagic.TryLocker].
func (s *Storage) TryLock(_ context.Context, name string) (bool, error) {
	return s.take(name) == nil, nil
}

// take takes a lock. It returns what is closed when another's ends, nil where
// there is none.
func (s *Storage) take(name string) (ended <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if held := s.locks[name]; held != nil {
		return held
	}
	s.locks[name] = make(chan struct{})
	return nil
}

// Unlock is of [certmagic.Locker].
func (s *Storage) Unlock(_ context.Context, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	held := s.locks[name]
	if held == nil {
		return fmt.Errorf("unlock %s: %w", name, fs.ErrNotExist)
	}
	delete(s.locks, name)
	close(held)
	return nil
}

// Close lets go of the file.
func (s *Storage) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close certificate storage: %w", err)
	}
	return nil
}
