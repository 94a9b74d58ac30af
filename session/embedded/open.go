package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"runtime/debug"
	"slices"
	"syscall"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"github.com/sessionproxy/sessionproxy/session"
)

// lockWait bounds the wait for a process that is just ending.
const lockWait = 500 * time.Millisecond

// The file's buckets.
var (
	bucketMeta    = []byte("meta")    // schemaKey → the format's version, one byte
	bucketJars    = []byte("jars")    // encodeKey → record.encode
	bucketDamaged = []byte("damaged") // a sequence number, then the key → bytes that were no record

	schemaKey = []byte("schema")
)

const schema = 1

var (
	errDamaged = errors.New("the file is damaged")
	errForeign = errors.New("not a session store; move it away or give --state another directory")
)

// Open opens the store in the file at path, or makes it there with mode 0600;
// the directory has to exist. A second process is refused. A record that cannot
// be read is put aside, and counted by Damaged.
func Open(path string) (*Store, error) {
	s := &Store{
		live:    make(map[session.Key]*session.Record),
		workers: make(workers),
		filling: newBatch(),
		writing: new(batch),
		wake:    make(chan struct{}, 1),
		quit:    make(chan struct{}),
		stopped: make(chan struct{}),
	}
	err := guarded(func() error { return s.open(path) })
	if errors.Is(err, errDamaged) {
		return nil, fmt.Errorf("open store %s: %w; restore it from a backup, or move it away to start without sessions", path, err)
	}
	if err != nil {
		return nil, fmt.Errorf("open store %s: %w", path, err)
	}
	go s.run()
	return s, nil
}

func (s *Store) open(path string) (err error) {
	s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockWait})
	if err != nil {
		return openError(err)
	}
	// After a panic the file stays open: bbolt may hold the locks that
	// Close would wait for.
	if err := s.read(); err != nil {
		return errors.Join(err, s.db.Close())
	}
	return nil
}

// openError tells damage from what the system refuses. bbolt names only some of
// what it finds in a file.
func openError(err error) error {
	if errors.Is(err, berrors.ErrTimeout) {
		return errors.New("in use by another sessionproxy; stop it or give --state another directory")
	}
	_, path := errors.AsType[*fs.PathError](err)
	_, errno := errors.AsType[syscall.Errno](err)
	if path || errno {
		return err
	}
	return fmt.Errorf("%w: %w", errDamaged, err)
}

// read fills the memory from the file, and writes only where it must: a proxy
// starts on a full disk too.
func (s *Store) read() error {
	fresh, damaged := false, [][]byte(nil)
	err := s.db.View(func(tx *bbolt.Tx) error {
		meta := tx.Bucket(bucketMeta)
		if meta == nil {
			first, _ := tx.Cursor().First()
			if fresh = first == nil; !fresh {
				return errForeign
			}
			return nil
		}
		if err := readable(meta.Get(schemaKey)); err != nil {
			return err
		}
		s.damaged = tx.Bucket(bucketDamaged).Stats().KeyN
		return tx.Bucket(bucketJars).ForEach(func(k, v []byte) error {
			key, r, err := decode(k, v)
			if err != nil {
				damaged = append(damaged, bytes.Clone(k))
				return nil
			}
			s.live[key] = r
			s.workers.add(key)
			s.clock = max(s.clock, r.Jar.Version())
			return nil
		})
	})
	if err != nil || (!fresh && len(damaged) == 0) {
		return err
	}
	s.damaged += len(damaged)
	return s.db.Update(func(tx *bbolt.Tx) error {
		if fresh {
			return create(tx)
		}
		return putAside(tx, damaged)
	})
}

func readable(version []byte) error {
	switch {
	case len(version) != 1:
		return fmt.Errorf("%w: it has no format", errDamaged)
	case version[0] > schema:
		return fmt.Errorf("written by a newer sessionproxy (format %d, this one reads %d); upgrade this one or give --state another directory", version[0], schema)
	}
	return nil
}

func create(tx *bbolt.Tx) error {
	for _, name := range [][]byte{bucketMeta, bucketJars, bucketDamaged} {
		if _, err := tx.CreateBucket(name); err != nil {
			return err
		}
	}
	return tx.Bucket(bucketMeta).Put(schemaKey, []byte{schema})
}

// putAside moves records from the jars to the damaged.
func putAside(tx *bbolt.Tx, keys [][]byte) error {
	jars, aside := tx.Bucket(bucketJars), tx.Bucket(bucketDamaged)
	for _, key := range keys {
		n, err := aside.NextSequence()
		if err != nil {
			return err
		}
		// A number first: the same session may be damaged twice.
		if err := aside.Put(slices.Concat(order.AppendUint64(nil, n), key), jars.Get(key)); err != nil {
			return err
		}
		if err := jars.Delete(key); err != nil {
			return err
		}
	}
	return nil
}

// guarded runs f and makes an error of its panics: bbolt trusts its pages, and
// reads them from a map of the file, which faults where the file is cut off.
func guarded(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errDamaged, p)
		}
	}()
	return f()
}
