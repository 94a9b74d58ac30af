package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
	"github.com/sessionproxy/sessionproxy/session/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// openStore opens the store that the configuration names.
func (i *instance) openStore() error {
	o, ok := i.config.Store.Redis()
	if !ok {
		store, err := embedded.Open(filepath.Join(i.config.State, "store.db"))
		if err != nil {
			return err
		}
		i.store = store
		if n := store.Damaged(); n > 0 {
			i.log.Warn("some sessions in the store can't be read and were set aside", "count", n)
		}
		return nil
	}
	return i.openRedis(o)
}

// checkLimit bounds what the start waits for Redis.
const checkLimit = 10 * time.Second

// openRedis opens a store that other proxies and workers share.
func (i *instance) openRedis(o conn.Options) (err error) {
	conn.LogTo(i.log)
	if i.client, err = conn.Open(o); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), checkLimit)
	defer cancel()
	c := i.config.Store
	warnings, err := i.client.Check(ctx, c.Prefix)
	for _, w := range warnings {
		i.log.Warn(w)
	}
	if err != nil {
		return err
	}
	if err := sameLayout(ctx, i.client, c.Prefix); err != nil {
		return err
	}
	if err := sameCA(ctx, i.client, c.Prefix+"ca", i.authority.Fingerprint()); err != nil {
		return err
	}
	i.declare(i.config)
	refused := proxy.RefusedCookies(i.registry)
	seconds := storeSeconds(i.registry)
	i.redis, err = redisstore.Open(redisstore.Options{
		Client: i.client, Prefix: c.Prefix, Encryption: c.Keys(), NoMirror: !c.Mirror, Log: i.log,
		Sites: func(key string) (redisstore.Site, bool) {
			site, ok := (*i.declared.Load())[key]
			return site, ok
		},
		Observe: func(op string, took time.Duration) { seconds.WithLabelValues(op).Observe(took.Seconds()) },
		Refused: func(reason string) { refused.WithLabelValues(reason).Inc() },
	})
	if err != nil {
		return err
	}
	i.store = i.redis
	i.readiness.Need(i.redis.Up, c.Required)
	registerStore(i.registry, i.redis, i.client)
	i.log.Info("sessions live in Redis", "store", o, "public_hash", publicHash(c), "encrypted", len(c.Encryption) > 0)
	return nil
}

// publicHash says what workers of other programs, and whoever else may read
// Redis, see of cookies.
func publicHash(c config.Store) string {
	if c.Mirror {
		return "values in clear"
	}
	return "none"
}

// storeUp says whether the store is there, where requests may not go on without
// it; nil where they may.
func (i *instance) storeUp() func() bool {
	if i.redis == nil || !i.config.Store.Required {
		return nil
	}
	return i.redis.Up
}

// declare tells the store which sites there are.
func (i *instance) declare(c *config.Config) {
	sites := sitesOf(c)
	i.declared.Store(&sites)
}

// sitesOf are the declared sites as the store sees them, by key.
func sitesOf(c *config.Config) map[string]redisstore.Site {
	sites := make(map[string]redisstore.Site, len(c.Sites))
	for _, s := range c.Sites {
		site := redisstore.Site{
			Policy: session.NewPolicy(s.Cookies.Share, s.Cookies.Private, false),
			Life:   session.Life{Idle: s.Cookies.TTL, Max: s.Cookies.MaxAge},
		}
		for _, p := range s.Patterns {
			site.Hosts = append(site.Hosts, redisstore.Host{Name: p.Host, Wildcard: p.Wildcard})
		}
		sites[s.Key] = site
	}
	return sites
}

// layout numbers the keys of this release in Redis, and what they hold. Another
// number means another release: it counts up with each change that the one
// before would misread.
const layout = "1"

// sameLayout compares the layout with that of the proxies that were here
// before: two that misread each other's sessions lose them.
func sameLayout(ctx context.Context, client redis.UniversalClient, prefix string) error {
	theirs, err := agree(ctx, client, prefix+"layout", layout)
	if err != nil {
		return fmt.Errorf("compare the layout of the keys with that of other proxies: %w", err)
	}
	if theirs != layout {
		return fmt.Errorf("the keys in this Redis have layout %q, and this release reads and writes layout %s: "+
			"run the release that the other proxies run, or give this one keys of its own with store.prefix", theirs, layout)
	}
	return nil
}

// sameCA compares the CA's fingerprint with that of the proxies that were here
// before: clients may be sent from one to the other.
func sameCA(ctx context.Context, client redis.UniversalClient, key, fingerprint string) error {
	theirs, err := agree(ctx, client, key, fingerprint)
	if err != nil {
		return fmt.Errorf("compare the CA with that of other proxies: %w", err)
	}
	if theirs != fingerprint {
		return fmt.Errorf("another proxy on this Redis signs with another CA (SHA-256 %s, this one %s), which its clients would not trust here: "+
			"copy ca.pem and ca.key from its state directory into this one's, or name one pair for both with ca.cert and ca.key; "+
			"where that CA is of no use any more, delete the key %s from Redis", theirs, fingerprint, key)
	}
	return nil
}

// agree sets key to value where it is not set, and returns what it holds then.
func agree(ctx context.Context, client redis.UniversalClient, key, value string) (string, error) {
	if err := client.SetArgs(ctx, key, value, redis.SetArgs{Mode: "NX"}).Err(); err != nil && !errors.Is(err, redis.Nil) {
		return "", err
	}
	return client.Get(ctx, key).Result()
}
