package tracking

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// How often Sentinels are asked for the master, beside what they say by themselves.
const sentinelPoll = time.Second

// watchSentinels follows the master that the Sentinels agreed on last. A
// master that was replaced while it is well goes on answering for seconds: so
// all Sentinels are listened to, and the first to speak counts.
func (t *Tracker) watchSentinels(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	nodes := map[string]*sentinel{}
	defer func() {
		for _, s := range nodes {
			s.end()
		}
	}()
	var master string
	var epoch int64
	spoke := make(chan struct{}, 1)
	tick := time.NewTicker(sentinelPoll)
	defer tick.Stop()
	seeds := t.o.Client.Options().Addrs
	known := seeds
	for {
		for _, addr := range known {
			if nodes[addr] == nil {
				nodes[addr] = t.meet(ctx, addr, &wg, spoke)
			}
		}
		for addr, s := range nodes {
			if !slices.Contains(known, addr) {
				s.end()
				delete(nodes, addr)
			}
		}
		best := t.askSentinels(ctx, nodes)
		if best.addr != "" {
			known = slices.Concat(seeds, best.known)
			// A Sentinel that was cut off tells of a master long gone, by a lower epoch.
			late := best.epoch < epoch && t.heard()
			if best.addr != master && !late {
				if master != "" {
					t.follow(ctx, nil)
					t.o.Client.Switched(master, best.addr)
				}
				master = best.addr
				t.follow(ctx, []conn.Master{{Addr: master, Slots: []conn.Range{{First: 0, Last: conn.SlotCount - 1}}}})
			}
			if !late {
				epoch = best.epoch
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-spoke:
		case <-t.poke:
			select { // not again and again while the master is away
			case <-ctx.Done():
				return
			case <-time.After(beat / 5):
			case <-spoke:
			}
		}
	}
}

// heard says whether all that is followed is coherent.
func (t *Tracker) heard() bool {
	for _, l := range t.view.Load().links {
		if !l.coherent.Load() {
			return false
		}
	}
	return true
}

// sentinel is one of them, asked over one connection and listened to on another.
type sentinel struct {
	*redis.SentinelClient

	cancel context.CancelFunc
}

func (s *sentinel) end() {
	s.cancel()
	_ = s.Close()
}

// meet begins to listen to a Sentinel.
func (t *Tracker) meet(ctx context.Context, addr string, wg *sync.WaitGroup, spoke chan<- struct{}) *sentinel {
	ctx, cancel := context.WithCancel(ctx)
	wg.Go(func() {
		for ctx.Err() == nil {
			_ = listener{
				options: t.o.Client.SentinelNode(addr), channel: "+switch-master",
				message: func(*redis.Message) {
					select {
					case spoke <- struct{}{}:
					default:
					}
				},
			}.listen(ctx) // one that is away is asked again: the others are there for that
			select {
			case <-ctx.Done():
			case <-time.After(sentinelPoll):
			}
		}
	})
	return &sentinel{SentinelClient: redis.NewSentinelClient(t.o.Client.SentinelNode(addr)), cancel: cancel}
}

// answer is what a Sentinel says of the master.
type answer struct {
	addr  string // "" none
	epoch int64  // of the failover that made it the master
	known []string
}

// askSentinels asks all, and returns the answer of the highest epoch.
func (t *Tracker) askSentinels(ctx context.Context, nodes map[string]*sentinel) answer {
	ctx, cancel := context.WithTimeout(ctx, conn.IOTimeout)
	defer cancel()
	answers := make(chan answer, len(nodes))
	for addr, s := range nodes {
		go func() { answers <- t.askSentinel(ctx, s, addr) }()
	}
	var best answer
	for range nodes {
		if a := <-answers; a.addr != "" && (best.addr == "" || a.epoch > best.epoch) {
			best = a
		}
	}
	return best
}

func (t *Tracker) askSentinel(ctx context.Context, s *sentinel, self string) answer {
	name := t.o.Client.Options().MasterName
	m, err := s.Master(ctx, name).Result()
	if err != nil {
		return answer{}
	}
	// During a failover that names the old master by the new epoch, and this the new one.
	at, err := s.GetMasterAddrByName(ctx, name).Result()
	if err != nil || len(at) != 2 {
		return answer{}
	}
	a := answer{addr: net.JoinHostPort(at[0], at[1]), known: []string{self}}
	a.epoch, _ = strconv.ParseInt(m["config-epoch"], 10, 64)
	others, err := s.Sentinels(ctx, name).Result()
	if err != nil {
		return a
	}
	for _, o := range others {
		a.known = append(a.known, net.JoinHostPort(o["ip"], o["port"]))
	}
	return a
}
