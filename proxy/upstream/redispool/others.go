package redispool

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// The hash of what is assigned has another slot than the pool's set, so no
// script can hold both: ours in it are copies, and what others write there is
// read beside the scripts.

// claims returns who says that they have what: owners of other programs with
// their URLs, in turn.
func (l *Ledger) claims(ctx context.Context, pool string) (claims []any, err error) {
	// Ours are noted before they are copied, and forgotten after: an owner that
	// stands in the one list or the other, before or after, is ours.
	ours := map[string]bool{}
	note := func() error {
		owners, err := l.o.Client.SMembers(ctx, l.companion(pool, "copies")).Result()
		for _, o := range owners {
			ours[o] = true
		}
		return err
	}
	if err := note(); err != nil {
		return nil, err
	}
	assigned, err := l.o.Client.HGetAll(ctx, l.assignedKey(pool)).Result()
	if err != nil {
		return nil, err
	}
	if err := note(); err != nil {
		return nil, err
	}
	for owner, raw := range assigned {
		u, err := upstream.Parse(raw)
		if err != nil || ours[owner] {
			continue
		}
		claims = append(claims, owner, u.URL())
	}
	return claims, nil
}

// copyTo writes owners and their URLs to the hash. It is a courtesy: what fails
// is written with the next renewal.
func (l *Ledger) copyTo(ctx context.Context, pool string, copies []any) {
	if len(copies) == 0 {
		return
	}
	_, err := l.o.Client.Pipelined(ctx, func(p redis.Pipeliner) error {
		p.HSet(ctx, l.assignedKey(pool), copies...)
		p.Expire(ctx, l.assignedKey(pool), ForeignTime)
		return nil
	})
	if err != nil {
		l.o.Log.Debug("copy leases for other programs", "pool", pool, "err", err)
	}
}

// forget takes owners out of the hash. What fails is found by a later renewal.
func (l *Ledger) forget(ctx context.Context, pool string, owners reply) {
	var names []string
	args := []any{"uncopied"}
	for i := range owners {
		names = append(names, owners.text(i))
		args = append(args, owners.text(i))
	}
	if len(names) == 0 {
		return
	}
	err := l.o.Client.HDel(ctx, l.assignedKey(pool), names...).Err()
	if err == nil {
		_, err = l.run(ctx, pool, membersScript, args...)
	}
	if err != nil {
		l.o.Log.Debug("take back copies of leases", "pool", pool, "err", err)
	}
}

// discover takes what others have added to the pool's set, where the pool is one
// that does.
func (l *Ledger) discover(ctx context.Context, pool string, raw reply) error {
	l.mu.Lock()
	wanted := l.declared[pool].Discover
	l.mu.Unlock()
	if !wanted {
		return nil
	}
	bad := 0
	args := []any{"discover"}
	for i := range raw {
		u, err := upstream.Parse(raw.text(i))
		if err != nil {
			bad++
			continue
		}
		args = append(args, u.URL(), raw.text(i))
	}
	if len(args) > 1 {
		if _, err := l.run(ctx, pool, membersScript, args...); err != nil {
			return err
		}
	}
	if bad > 0 {
		l.o.Log.Warn("some members of the pool's set are no URLs of upstreams", "pool", pool, "count", bad)
	}
	return nil
}
