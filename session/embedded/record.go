package embedded

import (
	"cmp"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// floorLife is how long a floor outlives the session that was revoked.
const floorLife = int64(24 * time.Hour / time.Microsecond)

// loneIdle is the idle life of a private jar without a shared one.
const loneIdle = 30 * time.Minute

// record is one state of one jar. It never changes. Its times are microseconds
// since 1970, like the versions.
type record struct {
	jar  *session.Jar
	used int64 // last renewed
	ends int64
}

// live says whether the session is still going at now.
func (r *record) live(now int64) bool { return r != nil && now < r.ends }

// liveIn is live for a private record in a session of that shared one. The end
// of a session ends the private jars that were used in it, and not those made
// since, for the next.
func (r *record) liveIn(shared *record, now int64) bool {
	return r.live(now) && (shared == nil || now < shared.ends || r.used >= shared.ends)
}

// floor is the floor that holds at now, or 0.
func (r *record) floor(now int64) int64 {
	if r == nil || now >= r.jar.Floor()+floorLife {
		return 0
	}
	return r.jar.Floor()
}

// at is the jar that a request leaves with at now: nil when there is none.
//
// A floor outlives the session as an empty jar: a request that left with no
// version would stay below the floor, and nobody could log in again.
func (r *record) at(now int64) *session.Jar {
	switch {
	case r.live(now):
		return r.jar
	case r.floor(now) == 0:
		return nil
	case len(r.jar.Cookies()) == 0:
		return r.jar
	}
	return r.jar.Clear(r.ends)
}

// jarAt is the jar under key at now, nil for none. own and shared are the
// records of the key and of its session.
func jarAt(key session.Key, own, shared *record, now int64) *session.Jar {
	if key.Worker == "" {
		return own.at(now)
	}
	if own.liveIn(shared, now) {
		return own.jar
	}
	if floor := shared.floor(now); floor != 0 {
		// Revoke removed the private jars; its floor lies under them too,
		// for workers that it never heard of as well.
		return none.Revoke(floor)
	}
	return nil
}

// endOf is when the jar under key ends if it is used at now. That is not before
// now, whatever the rule: see liveIn, which tells by it what was used since.
func endOf(key session.Key, jar *session.Jar, shared *record, now int64, life session.Life) int64 {
	if key.Worker != "" && !shared.live(now) {
		life.Idle = cmp.Or(life.Idle, loneIdle)
	}
	return max(now, jar.End(time.UnixMicro(now), life).UnixMicro())
}

// due says whether the idle life is to be restarted at now, and where it would
// end then. A life that the site's rule has since made shorter is cut at once.
func (r *record) due(key session.Key, shared *record, now int64, life session.Life) (end int64, due bool) {
	if !r.liveIn(shared, now) {
		return 0, false
	}
	end = endOf(key, r.jar, shared, now, life)
	if end < r.ends || 10*(r.ends-now) <= 9*(end-now) {
		return end, true
	}
	// A private jar with a cookie of a year would count as unused for weeks,
	// and make room for others.
	return end, shared.live(now) && 10*(now-r.used) >= min(end, shared.ends)-now
}

// renewed is r with its life restarted.
func (r *record) renewed(now, end int64) *record {
	return &record{jar: r.jar, used: now, ends: end}
}

// info describes a live record under key at now.
func (r *record) info(key session.Key, now int64) session.Info {
	info := session.Info{
		Key:     key,
		Version: r.jar.Version(),
		Created: r.jar.Created(),
		Used:    time.UnixMicro(r.used),
		Expires: time.UnixMicro(r.ends),
	}
	for _, c := range r.jar.Cookies() {
		if !c.Expired(time.UnixMicro(now)) {
			info.Cookies++
		}
	}
	return info
}

// On disk a record is a checksum, two times and the jar. bbolt's pages have
// no checksum of their own; this one covers the key too, so that a record under
// a damaged key is not given to another session.

const header = 4 + 2*8

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	order      = binary.BigEndian

	errRecord = errors.New("record is damaged")
)

// encode returns the record's bytes under the encoded key.
func (r *record) encode(key []byte) ([]byte, error) {
	jar, err := r.jar.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 4, header+len(jar))
	b = order.AppendUint64(b, uint64(r.used))
	b = order.AppendUint64(b, uint64(r.ends))
	b = append(b, jar...)
	order.PutUint32(b, checksum(key, b[4:]))
	return b, nil
}

// decode reads what encode wrote. It keeps no part of key and b.
func decode(key, b []byte) (session.Key, *record, error) {
	if len(b) < header || order.Uint32(b) != checksum(key, b[4:]) {
		return session.Key{}, nil, errRecord
	}
	k, ok := decodeKey(key)
	if !ok {
		return session.Key{}, nil, errRecord
	}
	r := &record{
		jar:  new(session.Jar),
		used: int64(order.Uint64(b[4:])),
		ends: int64(order.Uint64(b[12:])),
	}
	return k, r, r.jar.UnmarshalBinary(b[header:])
}

func checksum(key, rest []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, rest)
}

// encodeKey gives each key its own bytes, whatever its parts hold: site and ID
// with their lengths, then the worker.
func encodeKey(k session.Key) []byte {
	b := make([]byte, 0, 2*binary.MaxVarintLen16+len(k.Site)+len(k.ID)+len(k.Worker))
	b = binary.AppendUvarint(b, uint64(len(k.Site)))
	b = append(b, k.Site...)
	b = binary.AppendUvarint(b, uint64(len(k.ID)))
	b = append(b, k.ID...)
	return append(b, k.Worker...)
}

func decodeKey(b []byte) (k session.Key, ok bool) {
	for _, part := range []*string{&k.Site, &k.ID} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > uint64(len(b)-size) {
			return session.Key{}, false
		}
		*part = string(b[size : size+int(n)])
		b = b[size+int(n):]
	}
	k.Worker = string(b)
	return k, true
}
