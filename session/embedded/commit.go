package embedded

import (
	"cmp"
	"context"
	"errors"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionproxy/sessionproxy/session"
)

// Nobody waits for renewals and removals, so they are gathered for a while. A
// crash in between makes some lives a second shorter.
const (
	flushEvery = time.Second
	sweepEvery = time.Minute
)

// batch is what one commit writes: the last state of each key, nil where it is
// to be removed.
type batch struct {
	records map[session.Key]*session.Record
	done    chan struct{} // closed when it is on disk, or given up
	err     error         // read once done is closed
}

func newBatch() *batch {
	return &batch{records: make(map[session.Key]*session.Record), done: make(chan struct{})}
}

func (b *batch) finish(err error) {
	b.err = err
	close(b.done)
}

// wait returns when b is on disk: at once where b is nil.
func (b *batch) wait(ctx context.Context) error {
	if b == nil {
		return nil
	}
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// newest is the last state of key, on disk or not, and the batch that will
// write it: nil where it is there. s.mu is held.
func (s *Store) newest(key session.Key) (*session.Record, *batch) {
	for _, b := range []*batch{s.filling, s.writing} {
		if r, ok := b.records[key]; ok {
			return r, b
		}
	}
	return s.live[key], nil
}

// newestShared is the last state of the session that a private key belongs to,
// and nil for a shared key. s.mu is held.
func (s *Store) newestShared(key session.Key) *session.Record {
	if key.Worker == "" {
		return nil
	}
	r, _ := s.newest(key.Shared())
	return r
}

// put makes r the newest state of key. s.mu is held.
func (s *Store) put(key session.Key, r *session.Record) {
	s.filling.records[key] = r
	if r != nil {
		s.workers.add(key)
	}
}

// version reads the clock of the versions: wall time that never goes back, so
// that a version stays the highest when its jar is gone. s.mu is held.
func (s *Store) version() int64 {
	s.clock = max(s.clock, time.Now().UnixMicro())
	return s.clock
}

// wakeUp asks for a commit.
func (s *Store) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // asked already
	}
}

// run writes batches until Close. Nobody else uses the file.
func (s *Store) run() {
	defer close(s.stopped)
	flush, sweep := time.NewTicker(flushEvery), time.NewTicker(sweepEvery)
	defer flush.Stop()
	defer sweep.Stop()
	for {
		select {
		case <-s.wake:
			_ = s.commit() // those who wait for the batch get its error
		case <-flush.C:
			_ = s.commit()
		case <-sweep.C:
			s.sweep()
		case <-s.quit:
			s.closeErr = s.commit()
			if s.broken != nil {
				s.closeErr = s.broken
				return
			}
			s.closeErr = cmp.Or(s.closeErr, s.db.Close())
			return
		}
	}
}

// commit writes what was put so far, and shows it to Load. Changes that come
// meanwhile gather in the next batch: the slower the disk, the larger it gets.
func (s *Store) commit() error {
	s.mu.Lock()
	b := s.filling
	if len(b.records) == 0 {
		s.mu.Unlock()
		return nil
	}
	s.writing, s.filling = b, newBatch()
	s.mu.Unlock()

	err := s.write(b)

	s.mu.Lock()
	defer s.mu.Unlock()
	s.writing = new(batch)
	if err != nil {
		// What gathered meanwhile builds on states that are lost.
		lost := s.filling
		s.filling = newBatch()
		s.recount(lost)
		lost.finish(err)
	} else {
		s.show(b)
	}
	s.recount(b)
	b.finish(err)
	return err
}

// show makes what is on disk now visible.
func (s *Store) show(b *batch) {
	s.view.Lock()
	defer s.view.Unlock()
	for key, r := range b.records {
		if r == nil {
			delete(s.live, key)
		} else {
			s.live[key] = r
		}
	}
}

// write commits b to the file.
func (s *Store) write(b *batch) error {
	if s.broken != nil {
		return s.broken
	}
	err := guarded(func() error {
		return s.db.Update(func(tx *bbolt.Tx) error {
			jars := tx.Bucket(bucketJars)
			for key, r := range b.records {
				if err := save(jars, encodeKey(key), r); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if errors.Is(err, errDamaged) {
		s.broken = err
	}
	return err
}

// save puts r under the encoded key, or removes what is there.
func save(jars *bbolt.Bucket, key []byte, r *session.Record) error {
	if r == nil {
		return jars.Delete(key)
	}
	value, err := encode(key, r)
	if err != nil {
		return err
	}
	return jars.Put(key, value)
}

// sweep removes the records of sessions that are over, and the cookies of those
// of which a floor is left. The next commit takes it to the disk.
func (s *Store) sweep() {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now().UnixMicro()
	for key, r := range s.live {
		if _, pending := s.newest(key); pending != nil || r.LiveIn(s.newestShared(key), now) {
			continue
		}
		if key.Worker != "" {
			s.put(key, nil)
			continue
		}
		switch rest := r.At(now); rest {
		case r.Jar:
		case nil:
			s.put(key, nil)
			// Without it none could tell that they are over.
			s.dropPrivate(key, r.Ends)
		default:
			s.put(key, &session.Record{Jar: rest, Used: r.Used, Ends: r.Ends})
		}
	}
}
