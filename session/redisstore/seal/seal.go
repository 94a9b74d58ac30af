// Package seal encrypts what proxies keep in Redis and nobody else is to read.
// It knows keys and bytes, and nothing of Redis.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"errors"
	"fmt"
)

// What a stored value begins with.
const (
	plain  = 0
	sealed = 1
)

// Why a value does not open.
var (
	ErrSealed   = errors.New("it is encrypted, and the store's encryption names no key that opens it; add the key that it was written with")
	ErrNotOurs  = errors.New("it is not what sessionproxy writes")
	ErrKeyBytes = errors.New("an encryption key is 16, 24 or 32 bytes")
)

// Sealer encrypts values with AES-GCM. The place of a value is authenticated
// with it, so that whoever can write to Redis can't move it to another one.
// Without keys it writes values as they are. It is safe for concurrent use.
type Sealer struct {
	keys []cipher.AEAD // the first one writes, all read
}

// New returns the Sealer of keys, each of 16, 24 or 32 bytes.
func New(keys [][]byte) (*Sealer, error) {
	s := new(Sealer)
	for i, key := range keys {
		block, err := aes.NewCipher(key)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, ErrKeyBytes)
		}
		aead, err := cipher.NewGCM(block)
		if err != nil {
			return nil, fmt.Errorf("encryption key %d: %w", i+1, err)
		}
		s.keys = append(s.keys, aead)
	}
	return s, nil
}

// Seal makes of a value what is stored in that field of that hash.
func (s *Sealer) Seal(key, field string, value []byte) []byte {
	if len(s.keys) == 0 {
		return append([]byte{plain}, value...)
	}
	aead := s.keys[0]
	b := make([]byte, 1+aead.NonceSize(), 1+aead.NonceSize()+len(value)+aead.Overhead())
	b[0] = sealed
	nonce := b[1:]
	rand.Read(nonce)
	return aead.Seal(b, nonce, value, place(key, field)) //nolint:gosec // the nonce is random: the linter sees its buffer alone
}

// Open reads what Seal made. Values from before encryption was switched on are
// read too, and sealed when they are written next.
func (s *Sealer) Open(key, field, stored string) ([]byte, error) {
	switch {
	case stored != "" && stored[0] == plain:
		return []byte(stored[1:]), nil
	case stored == "" || stored[0] != sealed:
		return nil, ErrNotOurs
	}
	for _, aead := range s.keys {
		if n := 1 + aead.NonceSize(); len(stored) >= n {
			if value, err := aead.Open(nil, []byte(stored[1:n]), []byte(stored[n:]), place(key, field)); err == nil {
				return value, nil
			}
		}
	}
	return nil, ErrSealed
}

func place(key, field string) []byte { return []byte(key + "\x00" + field) }
