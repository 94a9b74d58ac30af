package proxy

import (
	"hash/maphash"
	"sync"
)

// browsers remembers which clients have sent Fetch metadata. They send none to
// plain http sites, and must not be taken for scrapers there.
//
// Two generations bound it: when the newer is full the older is forgotten, and
// whoever is seen again moves to the newer.
type browsers struct {
	seed maphash.Seed

	mu       sync.RWMutex // guards what follows
	new, old map[uint64]struct{}
}

// maxBrowsers bounds a generation: 8 bytes each, and their map.
const maxBrowsers = 1 << 16

func newBrowsers() *browsers {
	return &browsers{seed: maphash.MakeSeed(), new: map[uint64]struct{}{}}
}

func (b *browsers) key(client, agent string) uint64 {
	return maphash.Comparable(b.seed, [2]string{client, agent})
}

func (b *browsers) has(client, agent string) bool {
	k := b.key(client, agent)
	b.mu.RLock()
	defer b.mu.RUnlock()
	_, inNew := b.new[k]
	_, inOld := b.old[k]
	return inNew || inOld
}

func (b *browsers) add(client, agent string) {
	k := b.key(client, agent)
	b.mu.RLock()
	_, known := b.new[k]
	b.mu.RUnlock()
	if known {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.new) >= maxBrowsers {
		b.old, b.new = b.new, map[uint64]struct{}{}
	}
	b.new[k] = struct{}{}
}
