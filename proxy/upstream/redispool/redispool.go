// Package redispool keeps the leases of upstreams in Redis, for all proxies
// that share it: a [upstream.Ledger].
//
// The pool's set and the hash of what is assigned are those that workers in
// other languages use (SADD, SPOP, HSET, EXPIRE on the whole hash). The set
// holds what has room, so that they can pop it; what they pop counts as taken
// until they add it again, or its time is over. The truth about our own leases
// is in companion keys in the same slot. One pool is one slot of a Cluster.
//
// It is given a client and knows nothing of how that reaches Redis.
package redispool

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	crand "crypto/rand"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// Options are the parts of a Ledger. All are needed.
type Options struct {
	Client redis.UniversalClient
	Prefix string // of all keys, such as "session:"
	Log    *slog.Logger

	// New says that no proxy of those that share this Redis can have begun
	// before this one: leases are given at once then, if Redis is new, too.
	New bool

	LeaseTime   time.Duration // see [upstream.LeaseTime]
	ForeignTime time.Duration // how long what others took counts as taken, see [ForeignTime]
}

// ForeignTime is how long what other programs took counts as taken: as long as
// they let the hash of what is assigned live.
const ForeignTime = 10 * time.Minute

// Ledger is an [upstream.Ledger] in Redis. Make it with New.
type Ledger struct {
	o       Options
	process string // this one
	since   *redis.Script

	mu       sync.Mutex // guards what follows
	declared map[string]declared
}

type declared struct {
	upstream.Declaration
	told bool // Redis has been told before
}

// New returns a ledger. It asks Redis nothing yet.
func New(o Options) *Ledger {
	return &Ledger{
		o: o, process: crand.Text(), declared: map[string]declared{},
		since: redis.NewScript(fmt.Sprintf("-- of %q alone\n%s", o.Prefix, sinceLua)),
	}
}

var _ upstream.Ledger = (*Ledger)(nil)

// LeaseTime is part of [upstream.Ledger].
func (l *Ledger) LeaseTime() time.Duration { return l.o.LeaseTime }

// poolKey is the set of a pool, and assignedKey the hash of who has what.
func (l *Ledger) poolKey(pool string) string     { return l.publicKey("proxy_pool", pool) }
func (l *Ledger) assignedKey(pool string) string { return l.publicKey("proxy_assigned", pool) }

func (l *Ledger) publicKey(kind, pool string) string {
	if pool == "default" {
		return l.o.Prefix + kind
	}
	return l.o.Prefix + kind + ":" + pool
}

// companion is a key in the slot of the pool's set.
func (l *Ledger) companion(pool, name string) string { return "{" + l.poolKey(pool) + "}:" + name }

func (l *Ledger) keys(pool string) []string {
	keys := []string{l.poolKey(pool)}
	for _, name := range companions {
		keys = append(keys, l.companion(pool, name))
	}
	return keys
}

// run runs a script. A pool that Redis has forgotten is declared again first;
// one that nobody has declared has no answer, and no error.
func (l *Ledger) run(ctx context.Context, pool string, s *redis.Script, args ...any) (answer any, err error) {
	all := append([]any{l.process, l.o.LeaseTime.Milliseconds(), l.o.ForeignTime.Milliseconds(), ""}, args...)
	for range 2 {
		answer, err = s.Run(ctx, l.o.Client, l.keys(pool), all...).Result()
		switch {
		case err == nil, errors.Is(err, redis.Nil):
			return answer, nil
		case !redis.HasErrorPrefix(err, "UNDECLARED"):
			return nil, fmt.Errorf("lease upstreams of the pool %s: %w", pool, err)
		}
		l.mu.Lock()
		d, ok := l.declared[pool]
		l.mu.Unlock()
		if !ok {
			return nil, nil
		}
		if err := l.declare(ctx, pool, d); err != nil {
			return nil, err
		}
	}
	return nil, fmt.Errorf("lease upstreams of the pool %s: %w", pool, err)
}

// Declare is part of [upstream.Ledger].
func (l *Ledger) Declare(ctx context.Context, pool string, d upstream.Declaration) error {
	l.mu.Lock()
	next := declared{Declaration: d, told: l.declared[pool].told}
	l.mu.Unlock()
	if err := l.declare(ctx, pool, next); err != nil {
		return err
	}
	_, err := l.Renew(ctx, pool, nil) // looks at what others have and hold
	return err
}

func (l *Ledger) declare(ctx context.Context, pool string, d declared) error {
	known, err := l.known(ctx)
	if err != nil {
		return fmt.Errorf("declare the pool %s: %w", pool, err)
	}
	if d.told {
		known = "again"
	}
	args := []any{l.process, l.o.LeaseTime.Milliseconds(), l.o.ForeignTime.Milliseconds(), known, d.Capacity}
	for _, url := range d.URLs {
		args = append(args, url)
	}
	if err := declareScript.Run(ctx, l.o.Client, l.keys(pool), args...).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return fmt.Errorf("declare the pool %s: %w", pool, err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	d.told = true
	l.declared[pool] = d
	return nil
}

// known is what is known of leases on pools that Redis does not know: it may
// have been emptied while proxies held some.
func (l *Ledger) known(ctx context.Context) (string, error) {
	keys, fresh := []string{l.o.Prefix + "leases"}, ""
	if l.o.New {
		fresh = "new"
	}
	raw, err := l.since.EvalSha(ctx, l.o.Client, keys, "", fresh).Result()
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		raw, err = l.since.Eval(ctx, l.o.Client, keys, "first", fresh).Result()
	}
	if err != nil {
		return "", err
	}
	if answer := asReply(raw); answer.number(1) == 0 {
		return strconv.FormatInt(answer.number(0), 10), nil
	}
	return "new", nil
}

// Acquire is part of [upstream.Ledger].
func (l *Ledger) Acquire(ctx context.Context, pool string, asks []upstream.Ask) ([]upstream.Answer, error) {
	args := []any{upstream.QueueTime.Milliseconds()}
	for _, a := range asks {
		strict := ""
		if a.Strict {
			strict = "1"
		}
		args = append(args, a.Owner, a.Token, a.Not, a.Only, strict)
	}
	raw, err := l.run(ctx, pool, acquireScript, args...)
	if err != nil {
		return nil, err
	}
	answers := make([]upstream.Answer, len(asks))
	rows := asReply(raw).rows()
	var copies []any
	for i := range answers {
		if i >= len(rows) {
			answers[i].Why = upstream.Empty // nobody has declared it
			continue
		}
		r := rows[i]
		answers[i] = upstream.Answer{
			Token: r.text(0), URL: r.text(1), Rests: r.ms(2), Failures: int(r.number(3)),
			Why: upstream.Why(r.text(4)), After: r.ms(5),
		}
		if answers[i].Token == asks[i].Token && asks[i].Only == "" {
			copies = append(copies, asks[i].Owner, answers[i].URL)
		}
	}
	l.copyTo(ctx, pool, copies)
	return answers, nil
}

// Leave is part of [upstream.Ledger].
func (l *Ledger) Leave(ctx context.Context, pool string, owners []string) error {
	args := make([]any, len(owners))
	for i, o := range owners {
		args[i] = o
	}
	_, err := l.run(ctx, pool, leaveScript, args...)
	return err
}

// Renew is part of [upstream.Ledger]. Beside, it looks at what other programs
// have added and taken.
func (l *Ledger) Renew(ctx context.Context, pool string, held []upstream.Hold) ([]upstream.Standing, error) {
	claims, err := l.claims(ctx, pool)
	if err != nil {
		return nil, fmt.Errorf("lease upstreams of the pool %s: %w", pool, err)
	}
	args := append([]any{len(claims) / 2}, claims...)
	for _, h := range held {
		args = append(args, h.Token, h.Owner, h.URL)
	}
	raw, err := l.run(ctx, pool, renewScript, args...)
	if err != nil {
		return nil, err
	}
	answer := asReply(raw)
	standings := make([]upstream.Standing, len(held))
	rows := answer.list(0).rows()
	var copies []any
	for i, h := range held {
		standings[i].State = upstream.Gone
		if i < len(rows) {
			standings[i] = upstream.Standing{State: upstream.State(rows[i].number(0)), Rests: rows[i].ms(1)}
		}
		if standings[i].State != upstream.Gone {
			copies = append(copies, h.Owner, h.URL)
		}
	}
	l.copyTo(ctx, pool, copies)
	l.forget(ctx, pool, answer.list(1))
	return standings, l.discover(ctx, pool, answer.list(2))
}

// Release is part of [upstream.Ledger].
func (l *Ledger) Release(ctx context.Context, pool string, back []upstream.Return) error {
	var args []any
	for _, b := range back {
		forget := ""
		if b.Forget {
			forget = "1"
		}
		args = append(args, b.Token, forget)
	}
	raw, err := l.run(ctx, pool, releaseScript, args...)
	if err == nil {
		l.forget(ctx, pool, asReply(raw))
	}
	return err
}

// Rest is part of [upstream.Ledger].
func (l *Ledger) Rest(ctx context.Context, pool, url string, r upstream.Rest) (time.Duration, error) {
	jitter := rand.Float64() / 4 //nolint:gosec // it guards nothing
	raw, err := l.run(ctx, pool, restScript, url, string(r.Reason), r.Base.Milliseconds(), r.Limit.Milliseconds(), jitter)
	if err != nil {
		return 0, err
	}
	ms, _ := raw.(int64) // none where nobody has declared the pool
	return time.Duration(ms) * time.Millisecond, nil
}

// Recover is part of [upstream.Ledger].
func (l *Ledger) Recover(ctx context.Context, pool, url string) error {
	_, err := l.run(ctx, pool, membersScript, "recover", url)
	return err
}

// Add is part of [upstream.Ledger].
func (l *Ledger) Add(ctx context.Context, pool, url string) error {
	_, err := l.run(ctx, pool, membersScript, "add", url)
	return err
}

// Remove is part of [upstream.Ledger].
func (l *Ledger) Remove(ctx context.Context, pool, url string) (bool, error) {
	raw, err := l.run(ctx, pool, membersScript, "remove", url)
	was, _ := raw.(int64)
	return was == 1, err
}

// End is part of [upstream.Ledger].
func (l *Ledger) End(ctx context.Context, pool, token string) error {
	_, err := l.run(ctx, pool, membersScript, "end", token)
	return err
}

// List is part of [upstream.Ledger].
func (l *Ledger) List(ctx context.Context, pool string) ([]upstream.Status, error) {
	raw, err := l.run(ctx, pool, listScript)
	if err != nil {
		return nil, err
	}
	var list []upstream.Status
	for _, r := range asReply(raw).rows() {
		s := upstream.Status{
			URL: r.text(0), Source: upstream.Source(r.text(1)), Capacity: int(r.number(2)), Failures: int(r.number(3)),
			Reason: upstream.Reason(r.text(4)), Rests: r.ms(5), Foreign: r.number(6) == 1,
		}
		for _, h := range r.list(7).rows() {
			s.Leases = append(s.Leases, upstream.Held{Token: h.text(0), Owner: h.text(1), Since: time.UnixMilli(h.number(2))})
		}
		slices.SortFunc(s.Leases, func(a, b upstream.Held) int { return strings.Compare(a.Owner, b.Owner) })
		list = append(list, s)
	}
	slices.SortFunc(list, func(a, b upstream.Status) int { return strings.Compare(a.URL, b.URL) })
	return list, nil
}

// Turn is part of [upstream.Ledger].
func (l *Ledger) Turn(ctx context.Context, pool, job string, every time.Duration) (bool, error) {
	ours, err := l.o.Client.SetNX(ctx, l.companion(pool, "turn:"+job), l.process, every).Result()
	if err != nil {
		return false, fmt.Errorf("take a turn at the pool %s: %w", pool, err)
	}
	return ours, nil
}

// reply is a list as a script returns it.
type reply []any

func asReply(v any) reply {
	list, _ := v.([]any)
	return list
}

func (r reply) list(i int) reply {
	if i >= len(r) {
		return nil
	}
	return asReply(r[i])
}

func (r reply) rows() (rows []reply) {
	for i := range r {
		rows = append(rows, r.list(i))
	}
	return rows
}

func (r reply) text(i int) string {
	if i >= len(r) {
		return ""
	}
	s, _ := r[i].(string)
	return s
}

func (r reply) number(i int) int64 {
	if i >= len(r) {
		return 0
	}
	switch n := r[i].(type) {
	case int64:
		return n
	case string:
		v, _ := strconv.ParseInt(n, 10, 64)
		return v
	}
	return 0
}

func (r reply) ms(i int) time.Duration { return time.Duration(r.number(i)) * time.Millisecond }
