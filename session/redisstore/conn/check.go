package conn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// The oldest Redis that knows what is used: RESP3's pushes and ACL channels.
const oldest = "6.2"

// Check reaches every server that c would use and looks for what keeps it from
// serving as a store whose keys begin with prefix. The error is a sentence that
// names the server, what is wrong and what to do; errors.Is finds its cause.
// The warnings are sentences too: what works, and should not stay so.
func (c *Client) Check(ctx context.Context, prefix string) (warnings []string, err error) {
	warned := map[string]bool{}
	warn := func(format string, args ...any) {
		if text := fmt.Sprintf(format, args...); !warned[text] {
			warned[text] = true
			warnings = append(warnings, text)
		}
	}
	if c.options.inClear() {
		warn("store %v: cookies and passwords cross the network in clear; let Redis speak TLS and write rediss", c.options)
	}
	masters, err := c.masters(ctx)
	if err != nil {
		return warnings, err
	}
	for _, m := range masters {
		if err := c.checkNode(ctx, m, prefix, warn); err != nil {
			return warnings, err
		}
	}
	return warnings, nil
}

// patient lets a server answer late: nobody is served before the check, and on
// a machine that starts everything at once half a second is soon over.
func patient(o *redis.Options) *redis.Options {
	o.ReadTimeout, o.WriteTimeout = checkTimeout, checkTimeout
	return o
}

const checkTimeout = 3 * time.Second

// masters are the servers that are written to.
func (c *Client) masters(ctx context.Context) ([]Master, error) {
	switch c.options.Mode {
	case Sentinel:
		addr, err := c.askSentinels(ctx)
		return []Master{{Addr: addr, Slots: allSlots}}, err
	case Cluster:
		return c.askCluster(ctx)
	default:
		return []Master{{Addr: c.options.Addrs[0], Slots: allSlots}}, nil
	}
}

// askSentinels returns the master's address from the first Sentinel that knows
// it, else the error of the first that was asked.
func (c *Client) askSentinels(ctx context.Context) (string, error) {
	var first error
	for _, addr := range c.options.Addrs {
		master, err := c.askSentinel(ctx, addr)
		if err == nil {
			return master, nil
		}
		first = cmp.Or(first, err)
	}
	return "", first
}

func (c *Client) askSentinel(ctx context.Context, addr string) (string, error) {
	s := redis.NewSentinelClient(patient(c.SentinelNode(addr)))
	defer func() { _ = s.Close() }()
	at, err := s.GetMasterAddrByName(ctx, c.options.MasterName).Result()
	switch {
	case err == nil && len(at) == 2:
		return net.JoinHostPort(at[0], at[1]), nil
	case errors.Is(err, redis.Nil):
		return "", c.fault(addr, fmt.Sprintf("this Sentinel watches no master %q", c.options.MasterName), "write one that it watches after the hosts: "+watched(ctx, s), err)
	case strings.Contains(strings.ToLower(err.Error()), "unknown command"):
		return "", c.fault(addr, "this is no Sentinel", "name the Sentinels' addresses, port 26379 as a rule; or write redis:// for this Redis alone", err)
	}
	return "", c.explain(addr, err, true)
}

// watched lists the masters that a Sentinel knows.
func watched(ctx context.Context, s *redis.SentinelClient) string {
	all, err := s.Masters(ctx).Result()
	var names []string
	for _, m := range all {
		fields, _ := m.([]any)
		for i := 0; i+1 < len(fields); i += 2 {
			if fields[i] == "name" {
				names = append(names, fmt.Sprint(fields[i+1]))
			}
		}
		if fields, ok := m.(map[any]any); ok {
			names = append(names, fmt.Sprint(fields["name"]))
		}
	}
	if err != nil || len(names) == 0 {
		return "it names none"
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// askCluster returns the masters that the first node that answers knows, else
// the error of the first that was asked.
func (c *Client) askCluster(ctx context.Context) ([]Master, error) {
	var first error
	for _, addr := range c.options.Addrs {
		masters, err := c.askClusterNode(ctx, addr)
		if err == nil {
			return masters, nil
		}
		first = cmp.Or(first, err)
	}
	return nil, first
}

func (c *Client) askClusterNode(ctx context.Context, addr string) ([]Master, error) {
	n := redis.NewClient(patient(c.Node(addr)))
	defer func() { _ = n.Close() }()
	slots, err := n.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS came with 7.0
	switch {
	case err == nil:
	case strings.Contains(err.Error(), "cluster support disabled"):
		return nil, c.fault(addr, "this Redis is no node of a Cluster", "write redis:// for it, or name a node of the Cluster", err)
	case redis.IsPermissionError(err):
		return nil, c.lacks([]string{"+cluster|slots"}, addr, err)
	default:
		return nil, c.explain(addr, err, false)
	}
	masters, served := Masters(slots, addr)
	if served != SlotCount {
		return nil, c.fault(addr, fmt.Sprintf("the Cluster serves %d of %d slots", served, SlotCount), "see what redis-cli --cluster check says", errNotServed)
	}
	return masters, nil
}

// checkNode looks at one server that is written to.
func (c *Client) checkNode(ctx context.Context, m Master, prefix string, warn func(string, ...any)) error {
	addr := m.Addr
	n := redis.NewClient(patient(c.Node(addr)))
	defer func() { _ = n.Close() }()
	cn := n.Conn()
	defer func() { _ = cn.Close() }()
	// Connecting runs SELECT too, where the URL has a number.
	if err := cn.Hello(ctx, 3, "", "", "").Err(); redis.IsPermissionError(err) {
		return c.lacks([]string{"+" + command(err)}, addr, err)
	} else if strings.HasPrefix(fmt.Sprint(err), "ERR unknown command") {
		return c.fault(addr, "it does not speak RESP3, and so can't tell what changed", "reach Redis itself, not what stands between", err)
	} else if err != nil {
		if c.options.Mode != Single && !slices.Contains(c.options.Addrs, addr) && isDial(err) {
			return c.fault(addr, "its peers announce this address, and it can't be reached from here", "let them announce one that can (replica-announce-ip, cluster-announce-ip): "+reason(err), err)
		}
		return c.explain(addr, err, false)
	}
	info, err := cn.Info(ctx, "all").Result() // one section a call is all that 6.2 takes
	if redis.IsPermissionError(err) {
		return c.lacks(c.missing(ctx, cn, prefix), addr, err)
	} else if err != nil {
		return c.explain(addr, err, false)
	}
	if err := c.judge(addr, parseInfo(info), warn); err != nil {
		return err
	}
	if missing := c.missing(ctx, cn, prefix); len(missing) > 0 {
		return c.lacks(missing, addr, errNoPermission)
	}
	// A disk that failed, a full memory or missing replicas show nowhere but at a write.
	if err := cn.Set(ctx, m.Key("{"+prefix+"cookies:~check", "}:"), "", DialTimeout).Err(); err != nil {
		return c.explain(addr, err, false)
	}
	return nil
}

// judge reads what a server says of itself.
func (c *Client) judge(addr string, info map[string]string, warn func(string, ...any)) error {
	switch mode := info["redis_mode"]; {
	case mode == "sentinel":
		return c.fault(addr, "this is a Sentinel, which stores nothing", "write redis+sentinel://"+addr+"/MASTER", errWrongMode)
	case mode == "cluster" && c.options.Mode != Cluster:
		return c.fault(addr, "this is a node of a Cluster", "write redis+cluster:// in place of redis://", errWrongMode)
	case mode == "standalone" && c.options.Mode == Cluster:
		return c.fault(addr, "this Redis is no node of a Cluster", "write redis:// for it", errWrongMode)
	}
	if v := info["redis_version"]; older(v, oldest) {
		return c.fault(addr, "this is Redis "+v, "use "+oldest+" or newer", errTooOld)
	}
	if info["role"] == "slave" {
		return c.fault(addr, "this is a read-only replica", fmt.Sprintf("name its master, which is %s; or let Sentinels say who is, with redis+sentinel://", net.JoinHostPort(info["master_host"], info["master_port"])), errReplica)
	}
	if policy := info["maxmemory_policy"]; info["maxmemory"] != "0" && policy != "" && policy != "noeviction" {
		warn("store %v: with maxmemory-policy %s a full Redis drops sessions; set it to noeviction", c.options, policy)
	}
	return nil
}

func parseInfo(text string) map[string]string {
	info := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			info[name] = value
		}
	}
	return info
}

// older says whether version v comes before w. What can't be read is new: a
// fork may count as it likes.
func older(v, w string) bool {
	p, q := strings.Split(v, "."), strings.Split(w, ".")
	for i := range q {
		if i >= len(p) {
			return false
		}
		a, err := strconv.Atoi(p[i])
		b, _ := strconv.Atoi(q[i])
		if err != nil || a != b {
			return err == nil && a < b
		}
	}
	return false
}
