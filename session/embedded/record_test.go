package embedded

import (
	"bytes"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

// Whatever their parts hold, two keys are never one.
func FuzzKeysKeepTheirParts(f *testing.F) {
	f.Add("shop.test", "default", "")
	f.Add("", "", "")
	f.Add("\x01", "a\x00", "\xff")
	f.Fuzz(func(t *testing.T, site, id, worker string) {
		want := session.Key{Site: site, ID: id, Worker: worker}
		if got, ok := decodeKey(encodeKey(want)); !ok || got != want {
			t.Errorf("%q came back as %q, %v", want, got, ok)
		}
	})
}

// Bytes are refused, or they are what encode writes.
func FuzzDecode(f *testing.F) {
	key := encodeKey(shop)
	jar, _ := none.Apply(set(cookie("sid", "1")), 1)
	value, err := encode(key, &session.Record{Jar: jar, Used: 1, Ends: 2})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(key, value)
	f.Add(key, value[:len(value)-1])
	f.Add([]byte{200}, value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		// The fuzzer does not guess checksums.
		if len(value) >= 4 {
			value = bytes.Clone(value)
			order.PutUint32(value, checksum(key, value[4:]))
		}
		k, r, err := decode(key, value)
		if err != nil {
			return
		}
		again, err := encode(encodeKey(k), r)
		if err != nil {
			t.Fatal(err)
		}
		if _, same, err := decode(encodeKey(k), again); err != nil || same.Ends != r.Ends || same.Jar.Version() != r.Jar.Version() {
			t.Errorf("%+v came back as %+v, %v", r, same, err)
		}
	})
}
