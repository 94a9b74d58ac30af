package conn

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// rights are the commands that the user of a proxy must be allowed, as an ACL
// names them, each with arguments that may be queued and are never run: those
// of sessions, leases, login locks, captcha tokens and access, since a reload
// may bring in each of them. The manual's ACL line has the same.
func rights(prefix string) []right {
	public, companion := prefix+"cookies:~check", "{"+prefix+"cookies:~check}:"
	refresh, denied := Root(prefix)+"refresh:~check", Root(prefix)+"denied:~check"
	return []right{
		// What scripts and their callers do with keys.
		{"+eval", []any{"EVAL", "return 0", 1, companion}},
		{"+evalsha", []any{"EVALSHA", strings.Repeat("0", 40), 1, companion}},
		{"+decr", []any{"DECR", companion}},
		{"+del", []any{"DEL", companion}},
		{"+exists", []any{"EXISTS", companion}},
		{"+expire", []any{"EXPIRE", companion, 1}},
		{"+get", []any{"GET", companion}},
		{"+get", []any{"GET", refresh}},
		{"+get", []any{"GET", denied}},
		{"+hdel", []any{"HDEL", companion, "f"}},
		{"+hexists", []any{"HEXISTS", companion, "f"}},
		{"+hget", []any{"HGET", companion, "f"}},
		{"+hgetall", []any{"HGETALL", public}},
		{"+hincrby", []any{"HINCRBY", companion, "f", 1}},
		{"+hlen", []any{"HLEN", companion}},
		{"+hmget", []any{"HMGET", companion, "f"}},
		{"+hset", []any{"HSET", companion, "f", "v"}},
		{"+incr", []any{"INCR", companion}},
		{"+llen", []any{"LLEN", companion}},
		{"+lpop", []any{"LPOP", companion}},
		{"+lpush", []any{"LPUSH", companion, "m"}},
		{"+lrange", []any{"LRANGE", companion, 0, 0}},
		{"+lrem", []any{"LREM", companion, 1, "m"}},
		{"+ltrim", []any{"LTRIM", companion, 0, 0}},
		{"+object|idletime", []any{"OBJECT", "IDLETIME", companion}},
		{"+pexpire", []any{"PEXPIRE", companion, 1}},
		{"+pexpireat", []any{"PEXPIREAT", companion, 1}},
		{"+pttl", []any{"PTTL", companion}},
		{"+rpush", []any{"RPUSH", companion, "m"}},
		{"+sadd", []any{"SADD", companion, "m"}},
		{"+scan", []any{"SCAN", 0, "MATCH", public}},
		{"+sdiff", []any{"SDIFF", companion, companion}},
		{"+set", []any{"SET", companion, ""}},
		{"+sismember", []any{"SISMEMBER", companion, "m"}},
		{"+smembers", []any{"SMEMBERS", companion}},
		{"+srem", []any{"SREM", companion, "m"}},
		{"+time", []any{"TIME"}},
		{"+unlink", []any{"UNLINK", companion}},
		{"+zadd", []any{"ZADD", companion, 1, "m"}},
		{"+zcard", []any{"ZCARD", companion}},
		{"+zrange", []any{"ZRANGE", companion, 0, 0}},
		{"+zrangebyscore", []any{"ZRANGEBYSCORE", companion, 0, 0}},
		{"+zrank", []any{"ZRANK", companion, "m"}},
		{"+zrem", []any{"ZREM", companion, "m"}},
		{"+zremrangebyscore", []any{"ZREMRANGEBYSCORE", companion, 0, 0}},
		{"+zscore", []any{"ZSCORE", companion, "m"}},
		// What a connection does.
		{"+info", []any{"INFO"}},
		{"+ping", []any{"PING"}},
		{"+client|setname", []any{"CLIENT", "SETNAME", "sessionproxy"}},
		{"+client|tracking", []any{"CLIENT", "TRACKING", "OFF"}},
		{"+subscribe", []any{"SUBSCRIBE", prefix + "tracking"}},
		{"+publish", []any{"PUBLISH", prefix + "access", ""}},
		{"+cluster|slots", []any{"CLUSTER", "SLOTS"}}, // in a Cluster only
	}
}

var quoted = regexp.MustCompile(`'([a-z|]+)'`)

// command is the one that a user may not run, as a server names it.
func command(err error) string {
	if found := quoted.FindStringSubmatch(err.Error()); found != nil {
		return found[1]
	}
	return "ping"
}

// key is the one that a command is about.
func key(args []any) string {
	switch args[0] {
	case "EVAL", "EVALSHA":
		return fmt.Sprint(args[3])
	case "OBJECT":
		return fmt.Sprint(args[2])
	}
	return fmt.Sprint(args[1])
}

type right struct {
	name string
	args []any
}

// The rest of the ACL line: what this check is done with. HELLO is everyone's.
var handshake = []string{"+multi", "+discard"}

// Root is what stands before the keys whose first word is their own, such as
// refresh:ID: the prefix without a final "session:".
func Root(prefix string) string { return strings.TrimSuffix(prefix, "session:") }

// patterns are the ACL patterns of the keys that are stored under a prefix. The
// channels have the first one's.
func patterns(prefix string) []string {
	return []string{prefix + "*", "{" + prefix + "*", Root(prefix) + "refresh:*", Root(prefix) + "denied:*"}
}

// pattern is the one that a key is under.
func pattern(prefix, key string) string {
	all := patterns(prefix)
	i := slices.IndexFunc(all, func(p string) bool { return strings.HasPrefix(key, strings.TrimSuffix(p, "*")) })
	return all[max(i, 0)]
}

// missing returns what of the ACL line the user lacks, in its order. Between
// MULTI and DISCARD a server checks commands, and runs none.
func (c *Client) missing(ctx context.Context, cn *redis.Conn, prefix string) []string {
	for _, name := range []string{"MULTI", "DISCARD"} {
		if err := cn.Do(ctx, name).Err(); redis.IsPermissionError(err) {
			return []string{"+" + strings.ToLower(name)}
		}
	}
	var missing []string
	add := func(name string) {
		if !slices.Contains(missing, name) {
			missing = append(missing, name)
		}
	}
	if err := cn.Do(ctx, "MULTI").Err(); err != nil {
		return nil // it will show where it matters
	}
	defer cn.Do(ctx, "DISCARD")
	for _, r := range rights(prefix) {
		if r.name == "+cluster|slots" && c.options.Mode != Cluster {
			continue
		}
		err := cn.Do(ctx, r.args...).Err()
		if !redis.IsPermissionError(err) {
			continue
		}
		switch text := err.Error(); {
		case strings.Contains(text, "channel"):
			add("&" + prefix + "*")
		case strings.Contains(text, " key"):
			add("~" + pattern(prefix, key(r.args)))
		default:
			add(r.name)
		}
	}
	return missing
}
