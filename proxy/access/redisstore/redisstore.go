// Package redisstore is the access store of proxies that share a Redis: a
// single server, Sentinel or a Cluster.
//
// A key is a string with its life. Lists are kept in a sorted set beside them,
// by the end of life, since a scan of a server full of sessions is slow. The
// client is its caller's.
package redisstore

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// Store is an [access.Store] in Redis. Make it with New.
type Store struct {
	client redis.UniversalClient
	prefix string // of all keys of the deployment: "session:"
}

var _ access.Store = (*Store)(nil)

// New returns the store in a Redis. The prefix is that of the session store;
// keys that have their own first word, such as refresh:ID, take what stands
// before a final "session:" of it.
func New(client redis.UniversalClient, prefix string) *Store {
	return &Store{client, prefix}
}

// key is where Redis has a key of ours.
func (s *Store) key(key string) string {
	if rest, ok := strings.CutPrefix(key, "session:"); ok {
		return s.prefix + rest
	}
	return conn.Root(s.prefix) + key
}

// index is the sorted set of the keys that begin as key does, "" where nobody
// lists them.
func (s *Store) index(key string) string {
	if kind(key) == "" {
		return ""
	}
	return s.key(kind(key) + "index")
}

// kind is what of a key says what it is: session:op: of session:op:ID.
func kind(key string) string { return key[:strings.LastIndexByte(key, ':')+1] }

func (s *Store) channel() string { return s.prefix + "access" }

// Get returns the value under key.
func (s *Store) Get(ctx context.Context, key string) ([]byte, error) {
	b, err := s.client.Get(ctx, s.key(key)).Bytes()
	if errors.Is(err, redis.Nil) {
		return nil, access.ErrNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get %s: %w", word(key), err)
	}
	return b, nil
}

// word is a key for an error: what follows may be half a secret.
func word(key string) string { return kind(key) + "…" }

// swap: KEYS key; ARGV whether there is an old, old, whether there is a value,
// value, life in ms.
var swap = redis.NewScript(`
local have = redis.call("GET", KEYS[1])
if ARGV[1] == "1" then
  if have ~= ARGV[2] then return 0 end
elseif have then
  return 0
end
if ARGV[3] == "0" then
  redis.call("DEL", KEYS[1])
elseif ARGV[5] == "0" then
  redis.call("SET", KEYS[1], ARGV[4])
else
  redis.call("SET", KEYS[1], ARGV[4], "PX", ARGV[5])
end
return 1`)

// Swap puts value in the place of old.
func (s *Store) Swap(ctx context.Context, key string, old, value []byte, life time.Duration) (bool, error) {
	ms := int64(0)
	if life > 0 {
		ms = max(life.Milliseconds(), 1)
	}
	index := s.index(key)
	if value != nil && index != "" {
		// First, so that no key is missing there; what has no key is passed over.
		ends := math.Inf(1)
		now := time.Now()
		if life > 0 {
			ends = float64(now.Add(life).UnixMilli())
		}
		_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.ZAddGT(ctx, index, redis.Z{Score: ends, Member: key})
			p.ZRemRangeByScore(ctx, index, "-inf", strconv.FormatInt(now.Add(-time.Hour).UnixMilli(), 10))
			return nil
		})
		if err != nil {
			return false, fmt.Errorf("put %s: %w", word(key), err)
		}
	}
	done, err := swap.Run(ctx, s.client, []string{s.key(key)}, old != nil, old, value != nil, value, ms).Int()
	if err != nil {
		return false, fmt.Errorf("put %s: %w", word(key), err)
	}
	if done == 1 && value == nil && index != "" {
		_ = s.client.ZRem(ctx, index, key).Err() // or it goes with its time
	}
	return done == 1, nil
}

// List returns the values under the keys that begin with prefix.
func (s *Store) List(ctx context.Context, prefix string) (map[string][]byte, error) {
	keys, err := s.client.ZRange(ctx, s.index(prefix), 0, -1).Result()
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	all := map[string][]byte{}
	if len(keys) == 0 {
		return all, nil
	}
	replies := make([]*redis.StringCmd, len(keys))
	// Not MGET: in a Cluster the keys are in many slots.
	_, err = s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, key := range keys {
			replies[i] = p.Get(ctx, s.key(key))
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return nil, fmt.Errorf("list %s: %w", prefix, err)
	}
	for i, r := range replies {
		switch b, err := r.Bytes(); {
		case err == nil:
			all[keys[i]] = b
		case !errors.Is(err, redis.Nil):
			return nil, fmt.Errorf("list %s: %w", prefix, err)
		}
	}
	return all, nil
}

// Publish tells the proxies on the same Redis.
func (s *Store) Publish(ctx context.Context, m access.Message) error {
	if err := s.client.Publish(ctx, s.channel(), m.Topic+" "+m.Body).Err(); err != nil {
		return fmt.Errorf("publish %s: %w", m.Topic, err)
	}
	return nil
}

// Close does nothing: the client is its owner's.
func (s *Store) Close() error { return nil }
