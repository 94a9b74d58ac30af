package embedded

import (
	"cmp"
	"slices"

	"github.com/sessionproxy/sessionproxy/session"
)

// workers are the names of the workers that have private jars, by the shared
// key of their session.
type workers map[session.Key]map[string]struct{}

func (w workers) add(key session.Key) {
	if key.Worker == "" {
		return
	}
	names := w[key.Shared()]
	if names == nil {
		names = make(map[string]struct{})
		w[key.Shared()] = names
	}
	names[key.Worker] = struct{}{}
}

func (w workers) remove(key session.Key) {
	names := w[key.Shared()]
	delete(names, key.Worker)
	if len(names) == 0 {
		delete(w, key.Shared())
	}
}

// recount corrects the workers of the keys of b, which was committed or given
// up. s.mu is held.
func (s *Store) recount(b *batch) {
	for key := range b.records {
		if r, _ := s.newest(key); r != nil {
			s.workers.add(key)
		} else {
			s.workers.remove(key)
		}
	}
}

// dropPrivate removes the private jars of a session that were last used before
// that time. s.mu is held.
func (s *Store) dropPrivate(shared session.Key, before int64) {
	for name := range s.workers[shared] {
		key := session.Key{Site: shared.Site, ID: shared.ID, Worker: name}
		if r, _ := s.newest(key); r != nil && r.Used < before {
			s.put(key, nil)
		}
	}
}

// makeRoom removes private jars of a session so that one more is within the
// bound: those that are over, then the least recently used. s.mu is held.
func (s *Store) makeRoom(shared session.Key, now int64) {
	names := s.workers[shared]
	if len(names) < session.MaxPrivate {
		return
	}
	type private struct {
		name string
		*session.Record
	}
	kept := make([]private, 0, len(names))
	whole, _ := s.newest(shared)
	for name := range names {
		key := session.Key{Site: shared.Site, ID: shared.ID, Worker: name}
		switch r, _ := s.newest(key); {
		case r.LiveIn(whole, now):
			kept = append(kept, private{name, r})
		case r != nil:
			s.put(key, nil)
		}
	}
	slices.SortFunc(kept, func(a, b private) int {
		return cmp.Or(cmp.Compare(a.Used, b.Used), cmp.Compare(a.Jar.Version(), b.Jar.Version()))
	})
	for _, p := range kept[:max(0, len(kept)-session.MaxPrivate+1)] {
		s.put(session.Key{Site: shared.Site, ID: shared.ID, Worker: p.name}, nil)
	}
}
