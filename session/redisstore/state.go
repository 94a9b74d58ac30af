package redisstore

import (
	"maps"

	"github.com/sessionproxy/sessionproxy/session"
)

// state is what Redis held under one key at one moment. It never changes; nil
// is not known.
type state struct {
	record *session.Record // nil: nothing
	token  string          // of the write that made it; "" where none did
	digest string          // of the mirror, as the script counts it; "" where there is none

	// names is what the mirror said, by cookie name: of names that are gone
	// too. Empty in a private jar's.
	names map[string]name

	// mirror is the hash as it is, where that differs from names: a worker
	// wrote it, or let it go. nil where it does not.
	mirror map[string]string
	// mirrorEnds is when the mirror ends: 0 where it does not by itself, or
	// is not there.
	mirrorEnds int64
}

// name is what became of one name in the mirror.
type name struct {
	there   bool     // in the mirror as it was last written
	version int64    // of the jar at its last change
	values  []uint64 // hashes of its last values, newest first
}

const (
	maxValues = 8    // of a name
	maxGone   = 1024 // names that are remembered though they are gone
)

// had says whether the name had, or has, a value of this hash.
func (n name) had(hash uint64) bool {
	for _, v := range n.values {
		if v == hash {
			return true
		}
	}
	return false
}

// has says whether the mirror as it was last written has the value.
func (n name) has(hash uint64) bool { return n.there && n.values[0] == hash }

// mirrored returns what a mirror of the jar holds, hashed, as the change that
// gave the jar its version leaves it.
func mirrored(before map[string]name, mirror map[string]string, version int64) map[string]name {
	after := maps.Clone(before)
	if after == nil {
		after = make(map[string]name, len(mirror))
	}
	for key, n := range before {
		if _, still := mirror[key]; n.there && !still {
			n.there, n.version = false, version
			after[key] = n
		}
	}
	for key, value := range mirror {
		n, hash := after[key], hashValue(value)
		if n.has(hash) {
			continue
		}
		after[key] = name{there: true, version: version, values: n.with(hash)}
	}
	forget(after, len(after)-len(mirror)-maxGone)
	return after
}

// with returns the values with hash as the newest.
func (n name) with(hash uint64) []uint64 {
	values := make([]uint64, 1, maxValues)
	values[0] = hash
	for _, v := range n.values {
		if v != hash && len(values) < maxValues {
			values = append(values, v)
		}
	}
	return values
}

// forget removes the names that are gone for longest.
func forget(names map[string]name, count int) {
	for ; count > 0; count-- {
		oldest, version := "", int64(0)
		for key, n := range names {
			if !n.there && (version == 0 || n.version < version) {
				oldest, version = key, n.version
			}
		}
		delete(names, oldest)
	}
}
