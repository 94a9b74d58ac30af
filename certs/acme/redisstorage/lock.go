package redisstorage

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"
)

// hold is a lock that this process holds, or thinks so.
type hold struct {
	token string
	stop  context.CancelFunc // of its heartbeat
}

func (s *Storage) lockKey(name string) string { return s.base + "lock:" + name }

// tokens are the keys of the locks for a file that this process holds, and what
// stands under them while it does.
func (s *Storage) tokens(file string) (keys []string, tokens []any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, h := range s.held {
		if !guards(name, file) {
			continue
		}
		keys = append(keys, s.lockKey(name))
		tokens = append(tokens, h.token)
	}
	return keys, tokens
}

// guards says whether a lock is for a file. That of one certificate is not for
// those of others: it may be held for hours, from one attempt to the next.
func guards(lock, file string) bool {
	name, one := strings.CutPrefix(lock, "issue_cert_")
	return !one || strings.Contains(file, certmagic.StorageKeys.Safe(name))
}

// poll is how often a lock that is taken is looked at.
const poll = 250 * time.Millisecond

// Lock is of [certmagic.Locker].
func (s *Storage) Lock(ctx context.Context, name string) error {
	for {
		done, err := s.TryLock(ctx, name)
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(poll):
		case <-ctx.Done():
			return fmt.Errorf("lock %s: %w", name, ctx.Err())
		}
	}
}

// TryLock is of [certmagic.TryLocker].
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	beat, stop := context.WithCancel(context.Background())
	h := &hold{rand.Text(), stop}
	err := s.client.SetArgs(ctx, s.lockKey(name), h.token, redis.SetArgs{Mode: "NX", TTL: s.lease}).Err()
	if err != nil {
		stop()
	}
	if errors.Is(err, redis.Nil) {
		return false, nil
	}
	if err != nil {
		// It may have been taken all the same: nobody keeps it, so it ends.
		return false, fmt.Errorf("lock %s: %w", name, err)
	}
	s.mu.Lock()
	s.held[name] = h
	s.mu.Unlock()
	s.wg.Go(func() { s.beat(beat, name, h.token) })
	return true, nil
}

// beat keeps a lock until ctx ends, or it is lost.
func (s *Storage) beat(ctx context.Context, name, token string) {
	tick := time.NewTicker(s.lease / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		// What Redis does not answer is asked again: the lock may be there yet.
		if kept, err := s.keep(ctx, name, token); err == nil && !kept {
			return
		}
	}
}

var keep = redis.NewScript(`
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("PEXPIRE", KEYS[1], ARGV[2])`)

func (s *Storage) keep(ctx context.Context, name, token string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	return keep.Run(ctx, s.client, []string{s.lockKey(name)}, token, s.lease.Milliseconds()).Bool()
}

// RenewLockLease is of [certmagic.LockLeaseRenewer], which asks for it before
// each attempt: one who lost the lock since, in an outage for instance, has to
// have it again first. For how long is not the attempt's to say, but the
// heartbeat's: else nobody would go on for hours where a holder was killed.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	h := s.held[name]
	s.mu.Unlock()
	if h != nil {
		kept, err := s.keep(ctx, name, h.token)
		if err != nil {
			return fmt.Errorf("keep the lock %s: %w", name, err)
		}
		if kept {
			return nil
		}
		h.stop()
	}
	again, err := s.TryLock(ctx, name)
	if err == nil && !again {
		err = fmt.Errorf("keep the lock %s: %w", name, errLost)
	}
	return err
}

var release = redis.NewScript(`
if redis.call("GET", KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call("DEL", KEYS[1])`)

// Unlock is of [certmagic.Locker].
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	h := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if h == nil {
		return fmt.Errorf("unlock %s: %w", name, errLost)
	}
	h.stop()
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	freed, err := release.Run(ctx, s.client, []string{s.lockKey(name)}, h.token).Bool()
	if err == nil && !freed {
		err = errLost
	}
	if err != nil {
		return fmt.Errorf("unlock %s: %w", name, err)
	}
	return nil
}

// Close lets go of the locks that are held yet, so that others need not wait
// for their end.
func (s *Storage) Close() error {
	s.mu.Lock()
	names := make([]string, 0, len(s.held))
	for name := range s.held {
		names = append(names, name)
	}
	s.mu.Unlock()
	errs := make([]error, 0, len(names))
	for _, name := range slices.Sorted(slices.Values(names)) {
		errs = append(errs, s.Unlock(context.Background(), name))
	}
	s.wg.Wait()
	return errors.Join(errs...)
}
