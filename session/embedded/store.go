// Package embedded is the [session.Store] of one machine: one bbolt file that
// one process holds open.
//
// All jars are in memory, and requests read only that. A change is on disk
// before Apply returns and before any Load shows it; changes that come while a
// commit is under way share the next one. The file survives kill -9, and a full
// disk: what could not be written is refused and forgotten.
//
// Which cookies a change may touch, [session.Jar] decides.
package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/sessionproxy/sessionproxy/session"
)

var (
	errClosed     = errors.New("store is closed")
	errKeyTooLong = errors.New("key is too long")
)

// maxKey bounds the three parts of a key together; bbolt takes 32 KiB.
const maxKey = bbolt.MaxKeySize - 64

// Store is a session.Store in one file. Make it with Open.
type Store struct {
	db      *bbolt.DB
	damaged int

	// live is what Load shows: what is on disk, and renewals on their way
	// there; nil once the store is closed. It is changed with both locks
	// held, mu first, so that either is enough to read it.
	live map[session.Key]*session.Record
	view sync.RWMutex // guards live

	mu      sync.Mutex // guards live and what follows
	clock   int64      // the highest version given or found on disk
	filling *batch     // takes the next changes
	writing *batch     // is being committed; empty between commits
	workers workers    // of the private keys that are live or pending
	closed  bool

	wake     chan struct{} // somebody waits for filling
	quit     chan struct{}
	stopped  chan struct{}
	broken   error // bbolt panicked, and may hold its locks for ever; run's own
	closeErr error // read once stopped is closed
}

// none is the jar where there is none.
var none = new(session.Jar)

var _ session.Store = (*Store)(nil)

// Damaged is the number of records that could not be read at this or an earlier
// Open. Their bytes are kept in the file's bucket "damaged".
func (s *Store) Damaged() int { return s.damaged }

// Now is the machine's clock.
func (s *Store) Now() time.Time { return time.Now() }

// Load returns the jar under key, or session.ErrNotFound.
func (s *Store) Load(_ context.Context, key session.Key) (*session.Jar, error) {
	jar, err := s.load(key, time.Now().UnixMicro())
	if err != nil {
		return nil, fail("load", key, err)
	}
	if jar == nil {
		return nil, session.ErrNotFound
	}
	return jar, nil
}

// load returns what Load shows under key, nil for nothing.
func (s *Store) load(key session.Key, now int64) (*session.Jar, error) {
	s.view.RLock()
	own, shared, closed := s.live[key], (*session.Record)(nil), s.live == nil
	if key.Worker != "" {
		shared = s.live[key.Shared()]
	}
	s.view.RUnlock()
	if closed {
		return nil, errClosed
	}
	return session.JarAt(key, own, shared, now), nil
}

// Apply changes the jar under key. It returns once the change is on disk. When
// it returns ctx's error the change may still come to hold.
func (s *Store) Apply(ctx context.Context, key session.Key, u session.Update, life session.Life) (*session.Jar, []session.Outcome, error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, fail("apply to", key, err)
	}
	now := time.Now().UnixMicro()

	// Most replies say what the jar says already: that takes neither the
	// writers' lock nor the disk. A change that is still on its way there
	// has not returned, so this one may count as the earlier.
	base, err := s.load(key, now)
	if err != nil {
		return nil, nil, fail("apply to", key, err)
	}
	base = cmp.Or(base, none)
	u.Now = time.UnixMicro(now).UTC()
	if jar, outcomes := base.Apply(u, now); jar == base {
		return jar, outcomes, s.Renew(ctx, key, life)
	}

	jar, outcomes, b, err := s.change(key, u, life)
	if err == nil {
		err = b.wait(ctx)
	}
	if err != nil {
		return nil, nil, fail("apply to", key, err)
	}
	return jar, outcomes, nil
}

// change applies u to the newest state of key, on disk or not, and returns the
// batch to wait for, nil for none.
func (s *Store) change(key session.Key, u session.Update, life session.Life) (*session.Jar, []session.Outcome, *batch, error) {
	if len(key.Site)+len(key.ID)+len(key.Worker) > maxKey {
		return nil, nil, nil, errKeyTooLong
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, nil, errClosed
	}
	now := time.Now().UnixMicro()
	old, pending := s.newest(key)
	shared := s.newestShared(key)
	base := cmp.Or(session.JarAt(key, old, shared, now), none)
	u.Now = time.UnixMicro(now).UTC()
	jar, outcomes := base.Apply(u, s.version())
	// Where nothing changed, the batch is that of the change which made this
	// one needless: what the caller saw in the jar must survive too.
	if jar != base {
		switch over := !old.LiveIn(shared, now); {
		case key.Worker != "" && over:
			s.makeRoom(key.Shared(), now)
		case old != nil && over:
			s.dropPrivate(key, old.Ends)
		}
		s.put(key, &session.Record{Jar: jar, Used: now, Ends: session.EndOf(key, jar, shared, now, life)})
		pending = s.filling
	}
	s.wakeUp()
	return jar, outcomes, pending, nil
}

// Renew restarts the idle life of the session under key. It does not wait for
// the disk: a renewal that is lost makes a life shorter and nothing else.
func (s *Store) Renew(_ context.Context, key session.Key, life session.Life) error {
	now := time.Now().UnixMicro()
	s.view.RLock()
	r, shared, closed := s.live[key], (*session.Record)(nil), s.live == nil
	if key.Worker != "" {
		shared = s.live[key.Shared()]
	}
	s.view.RUnlock()
	if closed {
		return fail("renew", key, errClosed)
	}
	if _, due := r.Due(key, shared, now, life); !due {
		return nil
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fail("renew", key, errClosed)
	}
	now = time.Now().UnixMicro()
	r, _ = s.newest(key)
	end, due := r.Due(key, s.newestShared(key), now, life)
	if !due {
		return nil
	}
	s.put(key, r.Renewed(now, end))
	s.view.Lock()
	defer s.view.Unlock()
	if shown := s.live[key]; shown.LiveIn(s.live[key.Shared()], now) {
		s.live[key] = shown.Renewed(now, end)
	}
	return nil
}

// Revoke ends the session of key.
func (s *Store) Revoke(ctx context.Context, key session.Key) error {
	return s.end(ctx, "revoke", key.Shared(), func(old *session.Record, now int64) *session.Record {
		jar := cmp.Or(old.At(now), none).Revoke(s.version())
		return &session.Record{Jar: jar, Used: now, Ends: now}
	})
}

// Clear empties the session of key.
func (s *Store) Clear(ctx context.Context, key session.Key) error {
	return s.end(ctx, "clear", key.Shared(), func(old *session.Record, now int64) *session.Record {
		jar := old.At(now)
		if jar == nil {
			return nil
		}
		return &session.Record{Jar: jar.Clear(s.version()), Used: old.Used, Ends: old.Ends}
	})
}

// end puts what next makes of the shared record in its place, removes the
// private ones, and waits for the disk. A next of nil leaves no record.
func (s *Store) end(ctx context.Context, op string, key session.Key, next func(old *session.Record, now int64) *session.Record) error {
	if len(key.Site)+len(key.ID) > maxKey {
		return fail(op, key, errKeyTooLong)
	}
	if err := ctx.Err(); err != nil {
		return fail(op, key, err)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return fail(op, key, errClosed)
	}
	old, _ := s.newest(key)
	s.put(key, next(old, time.Now().UnixMicro()))
	s.dropPrivate(key, math.MaxInt64)
	b := s.filling
	s.wakeUp()
	s.mu.Unlock()

	if err := b.wait(ctx); err != nil {
		return fail(op, key, err)
	}
	return nil
}

// List returns the sessions that hold cookies.
func (s *Store) List(ctx context.Context, site string) ([]session.Info, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	now := time.Now().UnixMicro()
	var list []session.Info
	s.view.RLock()
	closed := s.live == nil
	for key, r := range s.live {
		if key.Worker != "" || (site != "" && key.Site != site) || !r.Live(now) {
			continue
		}
		if info := r.Info(key, now); info.Cookies > 0 {
			list = append(list, info)
		}
	}
	s.view.RUnlock()
	if closed {
		return nil, fmt.Errorf("list sessions: %w", errClosed)
	}
	slices.SortFunc(list, func(a, b session.Info) int {
		return cmp.Or(cmp.Compare(a.Key.Site, b.Key.Site), cmp.Compare(a.Key.ID, b.Key.ID))
	})
	return list, nil
}

// Close writes what is pending and lets go of the file. Its error is that of
// the last commit. A second Close does nothing.
func (s *Store) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		<-s.stopped
		return nil
	}
	close(s.quit)
	<-s.stopped
	s.mu.Lock()
	s.view.Lock()
	s.live = nil
	s.view.Unlock()
	s.mu.Unlock()
	if s.closeErr != nil {
		return fmt.Errorf("close store: %w", s.closeErr)
	}
	return nil
}

func fail(op string, key session.Key, err error) error {
	return fmt.Errorf("%s session %q of %q: %w", op, key.ID, key.Site, err)
}
