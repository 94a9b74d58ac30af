package tracking

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// How often the nodes of a Cluster are asked who serves what.
const clusterPoll = 500 * time.Millisecond

// watchCluster follows all that any node names as a master. After a failover
// nodes disagree for a moment; a slot that two are named for is coherent while
// both are heard, so that it does not matter who is right.
func (t *Tracker) watchCluster(ctx context.Context) {
	nodes := map[string]*redis.Client{}
	defer func() {
		for _, n := range nodes {
			_ = n.Close()
		}
	}()
	seeds := t.o.Client.Options().Addrs
	asked := slices.Clone(seeds)
	tick := time.NewTicker(clusterPoll)
	defer tick.Stop()
	for {
		if masters := t.askCluster(ctx, nodes, asked); len(masters) > 0 {
			t.follow(ctx, masters)
			asked = slices.Clone(seeds)
			for _, m := range masters {
				if !slices.Contains(asked, m.Addr) {
					asked = append(asked, m.Addr)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-t.poke:
			select { // not again and again while a master is away
			case <-ctx.Done():
				return
			case <-time.After(beat / 5):
			}
		}
	}
}

// askCluster asks the nodes at addrs, and joins their answers.
func (t *Tracker) askCluster(ctx context.Context, nodes map[string]*redis.Client, addrs []string) []conn.Master {
	ctx, cancel := context.WithTimeout(ctx, conn.IOTimeout)
	defer cancel()
	for _, addr := range addrs {
		if nodes[addr] == nil {
			nodes[addr] = redis.NewClient(t.o.Client.Node(addr))
		}
	}
	for addr, n := range nodes {
		if !slices.Contains(addrs, addr) {
			_ = n.Close()
			delete(nodes, addr)
		}
	}
	answers := make(chan []conn.Master, len(nodes))
	for addr, n := range nodes {
		go func() {
			slots, err := n.ClusterSlots(ctx).Result() //nolint:staticcheck // CLUSTER SHARDS came with 7.0
			if err != nil {
				slots = nil
			}
			masters, _ := conn.Masters(slots, addr)
			answers <- masters
		}()
	}
	all := map[string]conn.Master{}
	for range nodes {
		for _, m := range <-answers {
			one := all[m.Addr]
			one.Addr = m.Addr
			for _, r := range m.Slots {
				if !slices.Contains(one.Slots, r) {
					one.Slots = append(one.Slots, r)
				}
			}
			all[m.Addr] = one
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b conn.Master) int { return cmp.Compare(a.Addr, b.Addr) })
}
