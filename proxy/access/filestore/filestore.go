// Package filestore is the access store of one machine: a bbolt file that one
// process holds open. Its messages reach that process alone.
package filestore

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// Store is an [access.Store] in a file. Make it with Open.
type Store struct {
	db *bbolt.DB

	mu        sync.Mutex // guards followers; held while they are called
	followers map[*func(access.Message)]struct{}
}

var _ access.Store = (*Store)(nil)

// bucket holds key → the end of its life in milliseconds, 8 bytes (0: none),
// then the value.
var bucket = []byte("access")

// lockWait bounds the wait for a process that is just ending.
const lockWait = 500 * time.Millisecond

// Open opens the store in the file at path, or makes it there with mode 0600.
func Open(path string) (*Store, error) {
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if errors.Is(err, berrors.ErrTimeout) {
		err = errors.New("in use by another sessionproxy; stop it or give --state another directory")
	}
	if err != nil {
		return nil, fmt.Errorf("open access store %s: %w", path, err)
	}
	s := &Store{db: db, followers: map[*func(access.Message)]struct{}{}}
	if err := db.Update(sweep); err != nil {
		return nil, errors.Join(fmt.Errorf("open access store %s: %w", path, err), db.Close())
	}
	return s, nil
}

// sweep removes what is over: nobody may ever ask for it again.
func sweep(tx *bbolt.Tx) error {
	b, err := tx.CreateBucketIfNotExists(bucket)
	if err != nil {
		return err
	}
	var over [][]byte
	_ = b.ForEach(func(k, v []byte) error {
		if _, live := decode(v); !live {
			over = append(over, bytes.Clone(k))
		}
		return nil
	})
	for _, k := range over {
		if err := b.Delete(k); err != nil {
			return err
		}
	}
	return nil
}

func encode(value []byte, life time.Duration) []byte {
	ends := uint64(0)
	if life > 0 {
		ends = uint64(time.Now().Add(life).UnixMilli())
	}
	return append(binary.BigEndian.AppendUint64(nil, ends), value...)
}

// decode returns a copy of the value in v, and whether its life goes on.
func decode(v []byte) (value []byte, live bool) {
	if len(v) < 8 {
		return nil, false
	}
	ends := binary.BigEndian.Uint64(v)
	return bytes.Clone(v[8:]), ends == 0 || uint64(time.Now().UnixMilli()) < ends
}

// Get returns the value under key.
func (s *Store) Get(_ context.Context, key string) (value []byte, err error) {
	err = s.db.View(func(tx *bbolt.Tx) error {
		var live bool
		if value, live = decode(tx.Bucket(bucket).Get([]byte(key))); !live {
			return access.ErrNotFound
		}
		return nil
	})
	if err != nil && !errors.Is(err, access.ErrNotFound) {
		err = fmt.Errorf("get %s: %w", key, err)
	}
	return value, err
}

// Swap puts value in the place of old.
func (s *Store) Swap(_ context.Context, key string, old, value []byte, life time.Duration) (done bool, err error) {
	err = s.db.Update(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucket)
		have, live := decode(b.Get([]byte(key)))
		if live != (old != nil) || live && !bytes.Equal(have, old) {
			return nil
		}
		done = true
		if value == nil {
			return b.Delete([]byte(key))
		}
		if err := b.Put([]byte(key), encode(value, life)); err != nil {
			return err
		}
		if n, err := b.NextSequence(); err != nil || n%sweepEvery != 0 {
			return err
		}
		return sweep(tx)
	})
	if err != nil {
		return false, fmt.Errorf("put %s: %w", key, err)
	}
	return done, nil
}

// sweepEvery is after how many changes what is over is removed.
const sweepEvery = 1024

// List returns the values under the keys that begin with prefix.
func (s *Store) List(_ context.Context, prefix string) (map[string][]byte, error) {
	all := map[string][]byte{}
	err := s.db.View(func(tx *bbolt.Tx) error {
		c := tx.Bucket(bucket).Cursor()
		for k, v := c.Seek([]byte(prefix)); k != nil && strings.HasPrefix(string(k), prefix); k, v = c.Next() {
			if value, live := decode(v); live {
				all[string(k)] = value
			}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	return all, nil
}

// Publish calls those that follow, before it returns.
func (s *Store) Publish(_ context.Context, m access.Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for on := range s.followers {
		(*on)(m)
	}
	return nil
}

// Follow calls on with what is published.
func (s *Store) Follow(ctx context.Context, on func(access.Message)) {
	s.mu.Lock()
	on(access.Message{Topic: access.Began})
	s.followers[&on] = struct{}{}
	s.mu.Unlock()
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.followers, &on)
	on(access.Message{Topic: access.Ended})
}

// Close lets go of the file.
func (s *Store) Close() error {
	if err := s.db.Close(); err != nil {
		return fmt.Errorf("close access store: %w", err)
	}
	return nil
}
