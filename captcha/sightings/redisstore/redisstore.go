// Package redisstore shares on Redis which widgets pages show: it is a
// sightings.Store for single servers, Sentinel and Clusters.
//
// A site's pages are the fields of the hash {session:sitekeys:SITE}, whose field
// without a name is their revision; a companion knows when each was seen. Each
// operation is one script and one round trip.
//
// Connecting, and what to do without Redis, are the caller's part.
package redisstore

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha/sightings"
)

// Store is a sightings.Store on Redis.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
}

var _ sightings.Store = (*Store)(nil)

// New returns a store under the prefix, such as "session:". The client stays
// the caller's to close.
func New(rdb redis.UniversalClient, prefix string) *Store {
	return &Store{rdb: rdb, prefix: prefix}
}

var (
	pagesScript = redis.NewScript(`
		local revision = redis.call('HGET', KEYS[1], '') or ''
		if revision == ARGV[1] then return {revision} end
		return {revision, redis.call('HGETALL', KEYS[1])}`)
	swapScript = redis.NewScript(`
		local pages, seen = KEYS[1], KEYS[2]
		local url, old, new, revision, most, life = ARGV[1], ARGV[2], ARGV[3], ARGV[4], tonumber(ARGV[5]), ARGV[6]
		local has = redis.call('HGET', pages, url) or ''
		if has ~= old then return has end
		redis.call('HSET', pages, url, new, '', revision)
		redis.call('ZADD', seen, redis.call('TIME')[1], url)
		while redis.call('HLEN', pages) > most + 1 do
			local first = redis.call('ZRANGE', seen, 0, 0)[1]
			if not first then break end
			redis.call('ZREM', seen, first)
			redis.call('HDEL', pages, first)
		end
		redis.call('PEXPIRE', pages, life)
		redis.call('PEXPIRE', seen, life)
		return new`)
)

// keys of a site: its pages, and when they were seen.
func (s *Store) keys(site string) ([]string, error) {
	if site == "" || strings.ContainsAny(site, "{}~") {
		return nil, fmt.Errorf("site key %q: it is empty, or holds {, } or ~", site)
	}
	tag := "{" + s.prefix + "sitekeys:" + site + "}"
	return []string{tag, tag + ":seen"}, nil
}

var errReply = errors.New("the script's answer has another form; another program wrote what it read")

// Pages is described in sightings.Store.
func (s *Store) Pages(ctx context.Context, site, have string) (map[string][]byte, string, error) {
	keys, err := s.keys(site)
	if err != nil {
		return nil, "", err
	}
	got, err := pagesScript.Run(ctx, s.rdb, keys[:1], have).Slice()
	if err != nil {
		return nil, "", fmt.Errorf("read the captchas of %s: %w", site, err)
	}
	revision, ok := got[0].(string)
	if !ok {
		return nil, "", fmt.Errorf("read the captchas of %s: %w", site, errReply)
	}
	if len(got) == 1 {
		return nil, revision, nil
	}
	fields, _ := got[1].([]any)
	pages := make(map[string][]byte, len(fields)/2)
	for i := 0; i+1 < len(fields); i += 2 {
		url, _ := fields[i].(string)
		if value, ok := fields[i+1].(string); ok && url != "" {
			pages[url] = []byte(value)
		}
	}
	return pages, revision, nil
}

// Swap is described in sightings.Store.
func (s *Store) Swap(ctx context.Context, site, url string, old, now []byte) ([]byte, error) {
	keys, err := s.keys(site)
	if err != nil {
		return nil, err
	}
	has, err := swapScript.Run(ctx, s.rdb, keys, url, old, now, rand.Text(), sightings.MaxPages, sightings.Life.Milliseconds()).Text()
	if err != nil {
		return nil, fmt.Errorf("keep the captchas of %s: %w", site, err)
	}
	if has == "" {
		return nil, nil
	}
	return []byte(has), nil
}
