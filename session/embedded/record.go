package embedded

import (
	"encoding/binary"
	"errors"
	"hash/crc32"

	"github.com/sessionproxy/sessionproxy/session"
)

// On disk a record is a checksum, two times and the jar. bbolt's pages have
// no checksum of their own; this one covers the key too, so that a record under
// a damaged key is not given to another session.

const header = 4 + 2*8

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	order      = binary.BigEndian

	errRecord = errors.New("record is damaged")
)

// encode returns the bytes of a record under the encoded key.
func encode(key []byte, r *session.Record) ([]byte, error) {
	jar, err := r.Jar.MarshalBinary()
	if err != nil {
		return nil, err
	}
	b := make([]byte, 4, header+len(jar))
	b = order.AppendUint64(b, uint64(r.Used))
	b = order.AppendUint64(b, uint64(r.Ends))
	b = append(b, jar...)
	order.PutUint32(b, checksum(key, b[4:]))
	return b, nil
}

// decode reads what encode wrote. It keeps no part of key and b.
func decode(key, b []byte) (session.Key, *session.Record, error) {
	if len(b) < header || order.Uint32(b) != checksum(key, b[4:]) {
		return session.Key{}, nil, errRecord
	}
	k, ok := decodeKey(key)
	if !ok {
		return session.Key{}, nil, errRecord
	}
	r := &session.Record{
		Jar:  new(session.Jar),
		Used: int64(order.Uint64(b[4:])),
		Ends: int64(order.Uint64(b[12:])),
	}
	return k, r, r.Jar.UnmarshalBinary(b[header:])
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
