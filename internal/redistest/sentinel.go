package redistest

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// MasterName is what the Sentinels call the group's master.
const MasterName = "shop"

// Group is a master with two replicas, and three Sentinels that watch them.
type Group struct {
	Nodes     []*Server // the first begins as the master
	Sentinels []*Server

	t testing.TB
}

// Sentinel starts a group whose master counts as down after 1 s of silence.
// The options are for its nodes.
func Sentinel(t testing.TB, options ...Option) *Group {
	t.Helper()
	g := &Group{t: t}
	for i := range 3 {
		o := options
		if i > 0 {
			host, port := "127.0.0.1", g.Nodes[0].port()
			o = append([]Option{Conf("replicaof " + host + " " + port)}, o...)
		}
		g.Nodes = append(g.Nodes, start(t, o...))
	}
	// A Sentinel finds replicas in the master's INFO, which it asks for every 10 s.
	Eventually(t, 20*time.Second, "the replicas follow", func() bool {
		return strings.Contains(g.Nodes[0].info("replication"), "connected_slaves:2")
	})
	conf := g.Nodes[0].conf
	lines := []string{
		"sentinel monitor " + MasterName + " 127.0.0.1 " + g.Nodes[0].port() + " 2",
		"sentinel down-after-milliseconds " + MasterName + " 1000",
		"sentinel failover-timeout " + MasterName + " 3000",
		"sentinel auth-user " + MasterName + " tester",
		"sentinel auth-pass " + MasterName + " " + Password,
	}
	for i := range 3 {
		known := []string{fmt.Sprintf("sentinel myid %040d", i+1)}
		for j, other := range g.Sentinels { // the others hear of it by themselves
			known = append(known, fmt.Sprintf("sentinel known-sentinel %s 127.0.0.1 %s %040d", MasterName, other.port(), j+1))
		}
		g.Sentinels = append(g.Sentinels, start(t, func(s *settings) {
			s.sentinel, s.tls = true, conf.tls
			s.conf = append(append(append(s.conf, lines...), known...), conf.sentinels...)
		}))
	}
	Eventually(t, 20*time.Second, "the Sentinels know each other and all nodes", func() bool {
		for _, s := range g.Sentinels {
			info := s.info("sentinel")
			if !strings.Contains(info, "slaves=2,sentinels=3") || !strings.Contains(info, "status=ok") {
				return false
			}
		}
		return true
	})
	return g
}

// AsSentinel makes of [Single] a Sentinel that knows the lines of its
// configuration and no other Sentinel.
func AsSentinel(lines ...string) Option {
	return func(s *settings) { s.sentinel, s.conf = true, append(s.conf, lines...) }
}

// URL names all Sentinels.
func (g *Group) URL() string {
	scheme := "redis+sentinel"
	if g.Nodes[0].conf.tls != nil {
		scheme = "rediss+sentinel"
	}
	return scheme + "://" + addrs(g.Sentinels) + "/" + MasterName
}

// Master is the node that the first Sentinel takes for the master.
func (g *Group) Master() *Server {
	g.t.Helper()
	at, _ := g.Sentinels[0].Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
	for _, n := range g.Nodes {
		if len(at) == 2 && at[1] == n.port() {
			return n
		}
	}
	g.t.Fatalf("the Sentinels' master %v is none of %s", at, addrs(g.Nodes))
	return nil
}

// Failover lets the Sentinels make a replica the master, while the old master
// is there and well, and waits until they have.
func (g *Group) Failover() {
	g.t.Helper()
	old := g.Master()
	// Right after a failover, or before a replica's state is known, a Sentinel refuses.
	Eventually(g.t, 20*time.Second, "a Sentinel begins the failover", func() bool {
		return g.Sentinels[0].client.Do(g.t.Context(), "SENTINEL", "FAILOVER", MasterName).Err() == nil
	})
	g.WaitMaster(old)
}

// WaitMaster waits until all Sentinels know another master than the old one.
func (g *Group) WaitMaster(old *Server) {
	g.t.Helper()
	Eventually(g.t, 30*time.Second, "the Sentinels know another master", func() bool {
		for _, s := range g.Sentinels {
			at, _ := s.Do("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
			if len(at) != 2 || at[1] == old.port() {
				return false
			}
		}
		return true
	})
}

func (s *Server) info(section string) string {
	s.t.Helper()
	text, _ := s.Do("INFO", section).(string)
	return text
}
