// Package redispool shares solved tokens, budgets and threads between proxies
// on Redis: it is a captcha.Store for single servers, Sentinel and Clusters.
//
// The list session:tokens:SITE:SITEKEY[:ACTION] is public: any program may
// RPUSH a token to it and LPOP one from it, without a word to us. What a list
// cannot say, such as when a token is too old, stands in companions whose hash
// tag is the list's whole name, so that one script reaches both on a Cluster.
// Each operation is one script and one round trip, but for Keys, which looks
// through the server for an operator.
//
// Connecting, time limits and what to do without Redis are the caller's part.
package redispool

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/captcha"
)

// Store is a captcha.Store on Redis.
type Store struct {
	rdb    redis.UniversalClient
	prefix string
}

var _ captcha.Store = (*Store)(nil)

// New returns a store under the prefix, such as "session:". The client stays
// the caller's to close.
func New(rdb redis.UniversalClient, prefix string) *Store {
	return &Store{rdb: rdb, prefix: prefix}
}

var (
	//go:embed tokens.lua
	tokensLua string
	//go:embed threads.lua
	threadsLua string

	tokensScript  = redis.NewScript(tokensLua)
	threadsScript = redis.NewScript(threadsLua)
	spendScript   = redis.NewScript(`
		local n = tonumber(redis.call('GET', KEYS[1]) or '0')
		if n >= tonumber(ARGV[1]) then return {0, n, redis.call('PTTL', KEYS[1])} end
		n = redis.call('INCR', KEYS[1])
		if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
		return {1, n, 0}`)
	refundScript = redis.NewScript(`
		if tonumber(redis.call('GET', KEYS[1]) or '0') > 0 then redis.call('DECR', KEYS[1]) end
		return 0`)
	refillScript = redis.NewScript(`
		local by = redis.call('GET', KEYS[1])
		if by and by ~= ARGV[1] then return 0 end
		redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
		return 1`)
)

// list is the public name of a key's tokens.
func (s *Store) list(k captcha.Key) string {
	name := s.prefix + "tokens:" + k.Site + ":" + k.SiteKey
	if k.Action != "" {
		name += ":" + k.Action
	}
	return name
}

// tokens runs one operation of tokens.lua.
func (s *Store) tokens(ctx context.Context, op string, k captcha.Key, t captcha.Token) ([]any, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	list := s.list(k)
	tag := "{" + list + "}"
	got, err := tokensScript.Run(ctx, s.rdb, []string{list, tag + ":due", tag + ":spent", tag + ":need", tag + ":prefetched"},
		op, t.Value, time.Until(t.Expires).Milliseconds(), captcha.ForeignLife.Milliseconds(), captcha.SpentTime.Milliseconds(),
		captcha.NeedTime.Milliseconds(), captcha.MaxReady, captcha.MaxToken, t.Prefetched).Slice()
	switch puts := op == "push" || op == "return"; {
	case err == nil:
		return got, nil
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		err = captcha.ErrNoList
	case puts && unsure(err):
		err = fmt.Errorf("%w: %w", captcha.ErrUnsure, err)
	}
	return nil, fmt.Errorf("%s captcha token of %s: %w", op, k, err)
}

// unsure says of the error of a call whether it may have been carried out, or may
// be yet: it was sent, and had no answer.
func unsure(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	_, answered := errors.AsType[redis.Error](err)
	return !answered && !(ok && dial.Op == "dial")
}

// Pop is described in captcha.Store.
func (s *Store) Pop(ctx context.Context, k captcha.Key) (captcha.Token, error) {
	asked := time.Now()
	got, err := s.tokens(ctx, "pop", k, captcha.Token{})
	if err != nil {
		return captcha.Token{}, err
	}
	if len(got) == 0 {
		return captcha.Token{}, captcha.ErrEmpty
	}
	value, _ := got[0].(string)
	return captcha.Token{Value: value, Expires: asked.Add(millis(got[1])), Prefetched: number(got[2]) == 1}, nil
}

// Push is described in captcha.Store.
func (s *Store) Push(ctx context.Context, k captcha.Key, t captcha.Token) error {
	if err := captcha.CheckToken(t.Value); err != nil {
		return err
	}
	got, err := s.tokens(ctx, "push", k, t)
	if err == nil && len(got) == 0 {
		return captcha.ErrSpent
	}
	return err
}

// Return is described in captcha.Store.
func (s *Store) Return(ctx context.Context, k captcha.Key, t captcha.Token) error {
	_, err := s.tokens(ctx, "return", k, t)
	return err
}

// Look is described in captcha.Store.
func (s *Store) Look(ctx context.Context, k captcha.Key) (captcha.State, error) {
	asked := time.Now()
	got, err := s.tokens(ctx, "look", k, captcha.Token{})
	if err != nil {
		return captcha.State{}, err
	}
	state := captcha.State{Key: k, Ready: int(number(got[0])), Needed: number(got[2]) == 1}
	if state.Ready > 0 {
		state.Ends = asked.Add(millis(got[1]))
	}
	return state, nil
}

// Flush is described in captcha.Store.
func (s *Store) Flush(ctx context.Context, k captcha.Key) (int, error) {
	got, err := s.tokens(ctx, "flush", k, captcha.Token{})
	if err != nil {
		return 0, err
	}
	return int(number(got[0])), nil
}

// Refill is described in captcha.Store.
func (s *Store) Refill(ctx context.Context, k captcha.Key, proxy string, d time.Duration) (bool, error) {
	if err := k.Check(); err != nil {
		return false, err
	}
	n, err := refillScript.Run(ctx, s.rdb, []string{"{" + s.list(k) + "}:refill"}, proxy, d.Milliseconds()).Int()
	if err != nil {
		return false, fmt.Errorf("claim refill of %s: %w", k, err)
	}
	return n == 1, nil
}

// Keys is described in captcha.Store.
func (s *Store) Keys(ctx context.Context, site string) ([]captcha.Key, error) {
	start := s.prefix + "tokens:" + site + ":"
	var mu sync.Mutex // a Cluster's masters are scanned at once
	seen := map[captcha.Key]bool{}
	scan := func(ctx context.Context, rdb redis.Cmdable) error {
		it := rdb.Scan(ctx, 0, escapeGlob(start)+"*", 1000).Iterator()
		for it.Next(ctx) {
			k := captcha.Key{Site: site}
			k.SiteKey, k.Action, _ = strings.Cut(strings.TrimPrefix(it.Val(), start), ":")
			if k.Check() == nil {
				mu.Lock()
				seen[k] = true
				mu.Unlock()
			}
		}
		return it.Err()
	}
	var err error
	if cluster, ok := s.rdb.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, s.rdb)
	}
	if err != nil {
		return nil, fmt.Errorf("list captcha tokens of %s: %w", site, err)
	}
	var keys []captcha.Key
	for k := range seen {
		keys = append(keys, k)
	}
	return keys, nil
}

// escapeGlob makes SCAN's MATCH take s as it is: an IPv6 site has brackets.
func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`).Replace(s)
}

func (s *Store) budget(site string) []string {
	return []string{"{" + s.prefix + "budget:" + site + "}"}
}

// Spend is described in captcha.Store.
func (s *Store) Spend(ctx context.Context, site string, perHour int) (int, error) {
	got, err := spendScript.Run(ctx, s.rdb, s.budget(site), perHour, time.Hour.Milliseconds()).Slice()
	if err != nil {
		return 0, fmt.Errorf("spend captcha budget of %s: %w", site, err)
	}
	n := int(number(got[1]))
	if number(got[0]) == 0 {
		return n, &captcha.BudgetError{Site: site, PerHour: perHour, Again: max(millis(got[2]), 0)}
	}
	return n, nil
}

// Refund is described in captcha.Store.
func (s *Store) Refund(ctx context.Context, site string) error {
	if err := refundScript.Run(ctx, s.rdb, s.budget(site)).Err(); err != nil {
		return fmt.Errorf("refund captcha budget of %s: %w", site, err)
	}
	return nil
}

// Spent is described in captcha.Store.
func (s *Store) Spent(ctx context.Context, site string) (int, error) {
	n, err := s.rdb.Get(ctx, s.budget(site)[0]).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, fmt.Errorf("read captcha budget of %s: %w", site, err)
	}
	return n, nil
}

// Threads is described in captcha.Store.
func (s *Store) Threads(ctx context.Context, c captcha.Claim) (captcha.Grant, error) {
	tag := "{" + s.prefix + "threads}"
	args := []any{c.Proxy, c.Limit, captcha.LeaseTime.Milliseconds(), captcha.QueueTime.Milliseconds(), len(c.Open), len(c.Over)}
	for _, ids := range [][]string{c.Open, c.Over, c.Waiting} {
		for _, id := range ids {
			args = append(args, id)
		}
	}
	got, err := threadsScript.Run(ctx, s.rdb, []string{tag, tag + ":queue", tag + ":waiting", tag + ":proxies", tag + ":last"}, args...).Slice()
	if err != nil {
		return captcha.Grant{}, fmt.Errorf("claim captcha threads: %w", err)
	}
	g := captcha.Grant{Open: int(number(got[0])), Proxies: int(number(got[1]))}
	for _, id := range got[2:] {
		if id, ok := id.(string); ok {
			g.IDs = append(g.IDs, id)
		}
	}
	return g, nil
}

func number(v any) int64 {
	n, _ := v.(int64) // our own scripts return nothing else
	return n
}

func millis(v any) time.Duration { return time.Duration(number(v)) * time.Millisecond }
