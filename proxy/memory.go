package proxy

import (
	"hash/maphash"
	"sync"
)

// memory is a bounded set of what was seen: which clients are browsers, which
// workers keep their own private cookies, which requests of pages go without
// credentials, and what the audit log has a line of.
//
// Two generations bound it: when the newer is full the older is forgotten, and
// what is seen again moves to the newer. 16 bytes, with their map, for each.
type memory struct {
	seed maphash.Seed

	mu       sync.RWMutex // guards what follows
	new, old map[uint64]struct{}
}

// maxMemory bounds a generation.
const maxMemory = 1 << 16

func newMemory() *memory {
	return &memory{seed: maphash.MakeSeed(), new: map[uint64]struct{}{}}
}

func (m *memory) key(parts []string) uint64 {
	var h maphash.Hash
	h.SetSeed(m.seed)
	for _, p := range parts {
		h.WriteString(p)
		h.WriteByte(0) // in no name, address or field
	}
	return h.Sum64()
}

func (m *memory) has(parts ...string) bool {
	k := m.key(parts)
	m.mu.RLock()
	defer m.mu.RUnlock()
	_, inNew := m.new[k]
	_, inOld := m.old[k]
	return inNew || inOld
}

// add remembers parts, and says whether they are new.
func (m *memory) add(parts ...string) (first bool) {
	k := m.key(parts)
	m.mu.RLock()
	_, known := m.new[k]
	m.mu.RUnlock()
	if known {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, known = m.new[k]; known {
		return false
	}
	_, known = m.old[k]
	if len(m.new) >= maxMemory {
		m.old, m.new = m.new, map[uint64]struct{}{}
	}
	m.new[k] = struct{}{}
	return !known
}

func (m *memory) remove(parts ...string) {
	k := m.key(parts)
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.new, k)
	delete(m.old, k)
}
