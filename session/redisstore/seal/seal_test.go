package seal_test

import (
	"bytes"
	"errors"
	"testing"

	"github.com/sessionproxy/sessionproxy/session/redisstore/seal"
)

func TestSealedValuesStayInTheirPlace(t *testing.T) {
	t.Parallel()
	s, err := seal.New([][]byte{bytes.Repeat([]byte{1}, 16)})
	if err != nil {
		t.Fatal(err)
	}
	stored := string(s.Seal("key", "field", []byte("value")))
	if value, err := s.Open("key", "field", stored); err != nil || string(value) != "value" {
		t.Errorf("opened %q, %v", value, err)
	}
	for _, place := range [][2]string{{"other", "field"}, {"key", "other"}} {
		if value, err := s.Open(place[0], place[1], stored); err == nil {
			t.Errorf("in %q it opens as %q", place, value)
		}
	}
	for n := range stored {
		if _, err := s.Open("key", "field", stored[:n]); err == nil {
			t.Errorf("its first %d bytes open", n)
		}
	}
	if _, err := seal.New([][]byte{[]byte("short")}); !errors.Is(err, seal.ErrKeyBytes) {
		t.Errorf("a short key: %v, want %v", err, seal.ErrKeyBytes)
	}
}

// FuzzOpen: nothing opens but what was sealed, or written before there was a key.
func FuzzOpen(f *testing.F) {
	s, err := seal.New([][]byte{bytes.Repeat([]byte{1}, 16)})
	if err != nil {
		f.Fatal(err)
	}
	sealed := s.Seal("key", "field", []byte("value"))
	f.Add(string(sealed))
	f.Add("\x00plain")
	f.Add("")
	f.Fuzz(func(t *testing.T, stored string) {
		value, err := s.Open("key", "field", stored)
		switch {
		case err != nil, stored == string(sealed):
		case stored[0] != 0 || string(value) != stored[1:]:
			t.Errorf("%q opens as %q", stored, value)
		}
	})
}
