package redisstore

import (
	"slices"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

// FuzzDecode: whatever stands in Redis is read, or is an error, and what was read
// is written as it was read.
func FuzzDecode(f *testing.F) {
	f.Add(byte(nameField), encodeName("sid", name{version: 1, there: true, values: []uint64{1, 2}}))
	f.Add(byte(cookieField), []byte{0})
	f.Add(byte(markField), []byte{0})
	f.Add(byte(0), encodeStrings([]string{"a", ""}))
	f.Fuzz(func(t *testing.T, kind byte, value []byte) {
		if list, err := decodeStrings(value); err == nil {
			if again, err := decodeStrings(encodeStrings(list)); err != nil || !slices.Equal(list, again) {
				t.Errorf("%q is read again as %q, %v", list, again, err)
			}
		}
		var parts session.Parts
		names := map[string]name{}
		if decodePart(&parts, names, kind, value) != nil {
			return
		}
		for key, n := range names {
			k, again, err := decodeName(encodeName(key, n))
			if err != nil || k != key || again.version != n.version || again.there != n.there || !slices.Equal(again.values, n.values) {
				t.Errorf("%q %+v is read again as %q %+v, %v", key, n, k, again, err)
			}
		}
	})
}
