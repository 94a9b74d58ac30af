package redistest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

const slots = 16384

// Nodes are three masters, and then a replica of each, that form a Cluster.
type Nodes struct {
	Nodes []*Server

	t testing.TB
}

// Cluster starts a Cluster whose nodes count as failed after 2 s of silence.
func Cluster(t testing.TB, options ...Option) *Nodes {
	t.Helper()
	c := &Nodes{t: t}
	for range 6 {
		c.Nodes = append(c.Nodes, start(t, append([]Option{Conf("cluster-enabled yes", "cluster-node-timeout 2000",
			fmt.Sprintf("cluster-port %d", freeport.Port(t)), "cluster-replica-validity-factor 0")}, options...)...))
	}
	for i, n := range c.Nodes {
		n.Do("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		if i < 3 {
			n.Do("CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
		}
	}
	for i, n := range c.Nodes {
		for _, other := range c.Nodes[i+1:] { // all pairs: gossip would take seconds
			n.Do("CLUSTER", "MEET", "127.0.0.1", other.port(), other.busPort())
		}
	}
	c.wait("the nodes know each other", func(n *Server) bool { return strings.Contains(n.cluster("INFO"), "cluster_known_nodes:6") })
	for i, n := range c.Nodes[3:] {
		Eventually(t, 20*time.Second, "a replica takes its master", func() bool {
			return n.client.Do(t.Context(), "CLUSTER", "REPLICATE", c.Nodes[i].id()).Err() == nil
		})
	}
	c.WaitOK()
	c.wait("the replicas follow", func(n *Server) bool {
		info := n.info("replication")
		return strings.Contains(info, "connected_slaves:1") || strings.Contains(info, "master_link_status:up")
	})
	return c
}

// URL names the three nodes that began as masters.
func (c *Nodes) URL() string {
	scheme := "redis+cluster"
	if c.Nodes[0].conf.tls != nil {
		scheme = "rediss+cluster"
	}
	return scheme + "://" + addrs(c.Nodes[:3])
}

// WaitOK waits until all nodes that run say that the Cluster is well, and
// agree on who serves what.
func (c *Nodes) WaitOK() {
	c.t.Helper()
	c.wait("the Cluster is well", func(n *Server) bool {
		if !strings.Contains(n.cluster("INFO"), "cluster_state:ok") {
			return false
		}
		served := 0
		for _, to := range n.slots() {
			served += to.end - to.start + 1
		}
		return served == slots
	})
}

// WaitFailover waits until nothing is served by a node that was killed, and
// the Cluster is well.
func (c *Nodes) WaitFailover(old *Server) {
	c.t.Helper()
	c.wait("a replica took over from "+old.Addr, func(n *Server) bool {
		return !slices.ContainsFunc(n.slots(), func(r slotRange) bool { return r.port == old.port() })
	})
	c.WaitOK()
}

func (c *Nodes) wait(what string, holds func(*Server) bool) {
	c.t.Helper()
	Eventually(c.t, 30*time.Second, what, func() bool {
		return !slices.ContainsFunc(c.running(), func(n *Server) bool { return !holds(n) })
	})
}

// running are the nodes that were not killed.
func (c *Nodes) running() []*Server {
	return slices.DeleteFunc(slices.Clone(c.Nodes), func(n *Server) bool { return !n.process.runs() })
}

// Slot is the slot of a key.
func (c *Nodes) Slot(key string) int {
	c.t.Helper()
	slot, _ := c.running()[0].Do("CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Master is the node that serves a slot, as the first running node sees it.
func (c *Nodes) Master(slot int) *Server {
	c.t.Helper()
	for _, r := range c.running()[0].slots() {
		if r.start <= slot && slot <= r.end {
			for _, n := range c.Nodes {
				if n.port() == r.port {
					return n
				}
			}
		}
	}
	c.t.Fatalf("no node serves slot %d", slot)
	return nil
}

// MoveSlot moves a slot, with the keys in it, to another master.
func (c *Nodes) MoveSlot(slot int, to *Server) {
	c.t.Helper()
	from := c.Master(slot)
	to.Do("CLUSTER", "SETSLOT", slot, "IMPORTING", from.id())
	from.Do("CLUSTER", "SETSLOT", slot, "MIGRATING", to.id())
	for {
		keys, _ := from.Do("CLUSTER", "GETKEYSINSLOT", slot, 100).([]any)
		if len(keys) == 0 {
			break
		}
		from.Do(append([]any{"MIGRATE", "127.0.0.1", to.port(), "", 0, 5000, "AUTH2", "tester", Password, "KEYS"}, keys...)...)
	}
	for _, n := range []*Server{to, from} {
		n.Do("CLUSTER", "SETSLOT", slot, "NODE", to.id())
	}
}

func (s *Server) id() string {
	s.t.Helper()
	return s.cluster("MYID")
}

func (s *Server) cluster(command string) string {
	s.t.Helper()
	text, _ := s.Do("CLUSTER", command).(string)
	return text
}

// busPort is where the node speaks with its like.
func (s *Server) busPort() string {
	for _, line := range s.conf.conf {
		if port, ok := strings.CutPrefix(line, "cluster-port "); ok {
			return port
		}
	}
	return ""
}

// slotRange says which port serves the slots from start to end.
type slotRange struct {
	start, end int
	port       string
}

func (s *Server) slots() []slotRange {
	s.t.Helper()
	var ranges []slotRange
	reply, _ := s.Do("CLUSTER", "SLOTS").([]any)
	for _, r := range reply {
		r, _ := r.([]any)
		if len(r) < 3 {
			continue
		}
		start, _ := r[0].(int64)
		end, _ := r[1].(int64)
		node, _ := r[2].([]any)
		ranges = append(ranges, slotRange{int(start), int(end), fmt.Sprint(node[1])})
	}
	return ranges
}
