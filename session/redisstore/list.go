package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/sessionproxy/sessionproxy/session"
)

// List returns the sessions that hold cookies. It looks at every key in Redis,
// and takes as long as that takes.
func (s *Store) List(ctx context.Context, site string) ([]session.Info, error) {
	keys, err := s.keys(ctx, site, false)
	if err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	var mu sync.Mutex // guards list
	var list []session.Info
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(listing)
	for _, key := range keys {
		g.Go(func() error {
			info, err := s.info(ctx, key)
			if err != nil || info.Cookies == 0 {
				return err
			}
			mu.Lock()
			list = append(list, info)
			mu.Unlock()
			return nil
		})
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("list sessions: %w", err)
	}
	slices.SortFunc(list, func(a, b session.Info) int { return compareKeys(a.Key, b.Key) })
	return list, nil
}

// listing is how many sessions a list looks at at once.
const listing = 16

func compareKeys(a, b session.Key) int {
	return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.ID, b.ID), cmp.Compare(a.Worker, b.Worker))
}

func (s *Store) info(ctx context.Context, key session.Key) (session.Info, error) {
	e, err := s.entry(key)
	if err != nil {
		return session.Info{}, err
	}
	e.settle(ctx)
	st, err := s.look(ctx, e)
	if err != nil {
		return session.Info{}, fail("load", key, err)
	}
	if now := s.clock.now(); st.record.Live(now) {
		return st.record.Info(key, now), nil
	}
	return session.Info{}, nil
}

// keys returns the keys of all that is kept of a site, or of all sites where
// site is "": of sessions, live or not, and, where private, of private jars; in order.
func (s *Store) keys(ctx context.Context, site string, private bool) ([]session.Key, error) {
	if _, err := s.entry(session.Key{}); err != nil {
		return nil, err
	}
	var mu sync.Mutex // guards found
	found := make(map[session.Key]bool)
	scan := func(ctx context.Context, client redis.UniversalClient) error {
		all := client.Scan(ctx, 0, "*"+escape(s.prefix+"cookies:"+site)+"*", scanCount).Iterator()
		for all.Next(ctx) {
			key, ok := s.keyOf(all.Val())
			if !ok || site != "" && key.Site != site || key.Worker != "" && !private {
				continue
			}
			mu.Lock()
			found[key] = true
			mu.Unlock()
		}
		return all.Err()
	}
	var err error
	if cluster, ok := s.client.(*redis.ClusterClient); ok {
		err = cluster.ForEachMaster(ctx, func(ctx context.Context, c *redis.Client) error { return scan(ctx, c) })
	} else {
		err = scan(ctx, s.client)
	}
	if err != nil {
		return nil, err
	}
	return slices.SortedFunc(maps.Keys(found), compareKeys), nil
}

// scanCount is how many keys Redis looks at for one answer: about a millisecond
// of its time.
const scanCount = 1000

// escape makes a pattern of a text that means itself.
func escape(text string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "]", `\]`).Replace(text)
}
