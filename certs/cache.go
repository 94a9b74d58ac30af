package certs

import (
	"container/list"
	"crypto/tls"
	"sync"
	"time"
)

// A leaf is one host's certificate. It is read-only.
type leaf struct {
	host  string
	cert  *tls.Certificate
	renew time.Time // from then on a new one is signed
}

// fresh says whether l can be shown at now. A clock that was set back, as at a
// boot without one, leaves certificates from the future behind.
func (l *leaf) fresh(now time.Time) bool {
	return now.Before(l.renew) && !now.Before(l.cert.Leaf.NotBefore)
}

// A leafCache keeps the leaves used last.
type leafCache struct {
	max int

	mu     sync.Mutex // guards what follows
	byHost map[string]*list.Element
	recent *list.List // of *leaf; the one used last is in front
}

func newLeafCache(limit int) leafCache {
	return leafCache{max: limit, byHost: make(map[string]*list.Element), recent: list.New()}
}

// get returns the host's certificate, or nil where there is none to show at now.
func (c *leafCache) get(host string, now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	e := c.byHost[host]
	if e == nil || !e.Value.(*leaf).fresh(now) {
		return nil
	}
	c.recent.MoveToFront(e)
	return e.Value.(*leaf).cert
}

// put keeps l in place of its host's old leaf, and forgets the leaf that was
// unused longest where there are too many.
func (c *leafCache) put(l *leaf) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.byHost[l.host]; old != nil {
		c.recent.Remove(old)
	}
	c.byHost[l.host] = c.recent.PushFront(l)
	if c.recent.Len() > c.max {
		delete(c.byHost, c.recent.Remove(c.recent.Back()).(*leaf).host)
	}
}
