// Package redisstorage keeps certificates, and what fetching them takes, in the
// Redis that proxies share: a single server, Sentinel or a Cluster. Private keys
// are among it, so what seals values is no option.
//
// All is in one slot of a Cluster: a hash of files, and a string for each lock.
// A lock ends by itself unless its holder is alive and says so, and one who has
// lost a lock without knowing can write nothing: each change names the locks
// that its process holds, and Redis compares. So two that fetch one name at once
// never mix the key of one with the certificate of the other.
//
// Which client to talk with is its caller's part.
package redisstorage

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/certs/acme/tree"
)

// Sealer encrypts values, each for the place where it stands.
type Sealer interface {
	Seal(key, field string, value []byte) []byte
	Open(key, field, stored string) ([]byte, error)
}

// Options are the parts of a Storage. All but Lease and Limit are needed.
type Options struct {
	Client redis.UniversalClient
	Prefix string // of every key: "session:"
	Sealer Sealer

	Lease time.Duration // of a lock whose holder is silent; 15 s
	Limit time.Duration // for each request to Redis, tries again included; 5 s
}

// Storage is a [certmagic.Storage] in Redis. Make it with New.
type Storage struct {
	client       redis.UniversalClient
	base         string // of all keys; its hash tag keeps them in one slot
	sealer       Sealer
	lease, limit time.Duration

	mu   sync.Mutex // guards held
	held map[string]*hold
	wg   sync.WaitGroup // heartbeats
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns the Storage in a Redis.
func New(o Options) *Storage {
	s := &Storage{
		client: o.Client, base: o.Prefix + "acme:{all}:", sealer: o.Sealer, lease: o.Lease, limit: o.Limit,
		held: map[string]*hold{},
	}
	if s.lease == 0 {
		s.lease = 15 * time.Second
	}
	if s.limit == 0 {
		s.limit = 5 * time.Second
	}
	return s
}

func (s *Storage) files() string { return s.base + "files" }

// change: KEYS the files, then the locks for them that this process holds; ARGV their
// tokens, then what to do. It returns 0, or which lock is another's by now.
var change = redis.NewScript(`
local locks = #KEYS - 1
for i = 1, locks do
  if redis.call("GET", KEYS[i + 1]) ~= ARGV[i] then return i end
end
if ARGV[locks + 1] == "store" then
  redis.call("HSET", KEYS[1], ARGV[locks + 2], ARGV[locks + 3])
else
  for i = locks + 2, #ARGV do redis.call("HDEL", KEYS[1], ARGV[i]) end
end
return 0`)

var errLost = errors.New("its lock was lost to another proxy")

func (s *Storage) change(ctx context.Context, key string, does ...any) error {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	locks, tokens := s.tokens(key)
	lost, err := change.Run(ctx, s.client, slices.Concat([]string{s.files()}, locks), slices.Concat(tokens, does)...).Int()
	if err == nil && lost > 0 {
		err = fmt.Errorf("%w: %s", errLost, locks[lost-1])
	}
	return err
}

// Store is of [certmagic.Storage].
func (s *Storage) Store(ctx context.Context, key string, value []byte) error {
	record := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixMilli()))
	sealed := s.sealer.Seal(s.files(), key, append(record, value...))
	if err := s.change(ctx, key, "store", key, sealed); err != nil {
		return fmt.Errorf("store %s: %w", key, err)
	}
	return nil
}

// Delete is of [certmagic.Storage].
func (s *Storage) Delete(ctx context.Context, key string) error {
	all, err := s.keys(ctx)
	if err == nil {
		does := []any{"delete", key}
		for _, below := range tree.Below(all, key) {
			does = append(does, below)
		}
		err = s.change(ctx, key, does...)
	}
	if err != nil {
		return fmt.Errorf("delete %s: %w", key, err)
	}
	return nil
}

// Load is of [certmagic.Storage].
func (s *Storage) Load(ctx context.Context, key string) ([]byte, error) {
	value, _, err := s.load(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("load %s: %w", key, err)
	}
	return value, nil
}

var errShort = errors.New("it is not what a proxy stored")

func (s *Storage) load(ctx context.Context, key string) (value []byte, at time.Time, err error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	sealed, err := s.client.HGet(ctx, s.files(), key).Result()
	if errors.Is(err, redis.Nil) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	record, err := s.sealer.Open(s.files(), key, sealed)
	if err == nil && len(record) < 8 {
		err = errShort
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	return record[8:], time.UnixMilli(int64(binary.BigEndian.Uint64(record))), nil
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

func (s *Storage) keys(ctx context.Context) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, s.limit)
	defer cancel()
	files, err := s.client.HGetAll(ctx, s.files()).Result() // some kilobytes a name
	all := make([]string, 0, len(files))
	for key := range files {
		all = append(all, key)
	}
	return all, err
}

// Stat is of [certmagic.Storage].
func (s *Storage) Stat(ctx context.Context, key string) (certmagic.KeyInfo, error) {
	return tree.Stat(ctx, key, s.load, s.keys)
}
