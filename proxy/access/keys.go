package access

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Key signs access tokens.
type Key struct {
	id      string // its public half's fingerprint: "kid"
	private ed25519.PrivateKey
	refresh []byte // of the same secret, for refresh tokens
}

// ParseKey reads a private key: Ed25519 in PKCS #8 and PEM, as "openssl genpkey
// -algorithm ed25519" makes it. Its error is a sentence.
func ParseKey(text []byte) (Key, error) {
	block, _ := pem.Decode(text)
	if block == nil || block.Type != "PRIVATE KEY" {
		return Key{}, errors.New("this file holds no private key in PEM")
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	private, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return Key{}, errors.New("this is no Ed25519 key")
	}
	return newKey(private), nil
}

func newKey(private ed25519.PrivateKey) Key {
	sum := sha256.Sum256(private.Public().(ed25519.PublicKey))
	return Key{
		id:      base64.RawURLEncoding.EncodeToString(sum[:12]),
		private: private,
		refresh: derive(private.Seed(), "sessionproxy refresh tokens"),
	}
}

// derive makes a secret of 32 bytes from another, for one use.
func derive(secret []byte, use string) []byte {
	key, err := hkdf.Key(sha256.New, secret, nil, use, 32)
	if err != nil {
		panic(err) // only of lengths that no hash can give
	}
	return key
}

// mac is what makes a text ours.
func mac(key []byte, parts ...string) []byte {
	h := hmac.New(sha256.New, key)
	for _, p := range parts {
		h.Write([]byte(p))
		h.Write([]byte{0}) // in no part
	}
	return h.Sum(nil)
}

// keyring is the keys that are good now. The first signs.
type keyring struct {
	all  []Key
	byID map[string]Key
	kept []keptKey // as they stand in the store; nil for the operator's own
}

func newKeyring(keys []Key, kept []keptKey) *keyring {
	r := &keyring{all: keys, byID: map[string]Key{}, kept: kept}
	for _, k := range keys {
		r.byID[k.id] = k
	}
	return r
}

func (r *keyring) newest() Key { return r.all[0] }

// Made keys sign for so long, and are good for as long again, which is longer
// than any token lives.
const (
	keyLife  = 30 * 24 * time.Hour
	keysKept = "session:access:keys"
)

// keptKey is a key in the store.
type keptKey struct {
	Made time.Time `json:"made"`
	Box  []byte    `json:"box"` // nonce and AES-256-GCM of the seed
}

// errSealed says that the store has keys that are no use here.
var errSealed = errors.New("those in the store are of another CA")

// openKeys reads the keys in the store, and makes one where there is none or
// the newest is old. A store that has lost some gets ours back. Those that
// can't be opened are replaced by the first call only: else two proxies with two
// CAs would take them from each other for ever.
func (a *Authority) openKeys(ctx context.Context) error {
	ring := a.keys.Load()
	box, err := newBox(a.seal)
	if err != nil {
		return fmt.Errorf("open the signing keys: %w", err)
	}
	var keys []Key
	var kept []keptKey
	err = a.change(ctx, keysKept, func(old []byte) ([]byte, time.Duration, error) {
		kept = nil
		if old != nil && json.Unmarshal(old, &kept) != nil {
			kept = nil
		}
		switch sealed := box.sealed(kept); {
		case sealed && ring != nil:
			return nil, 0, errSealed
		case sealed:
			a.log.Warn("new signing keys are made, and operators log in anew", "err", errSealed)
		}
		lost := false
		if ring != nil {
			kept, lost = union(kept, ring.kept)
		}
		keys, kept = box.open(kept, a.now())
		if len(keys) > 0 && a.now().Sub(kept[0].Made) < keyLife {
			if !lost {
				return nil, 0, errUnchanged
			}
			value, err := json.Marshal(kept)
			return value, 0, err
		}
		_, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			return nil, 0, err
		}
		keys = append([]Key{newKey(private)}, keys...)
		kept = append([]keptKey{{a.now().UTC(), box.seal(private.Seed())}}, kept...)
		value, err := json.Marshal(kept)
		return value, 0, err
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return fmt.Errorf("open the signing keys: %w", err)
	}
	a.keys.Store(newKeyring(keys, kept))
	return nil
}

// union is the keys of both, the newest first, and whether a lacks some.
func union(a, b []keptKey) (all []keptKey, lacks bool) {
	for _, k := range b {
		if !slices.ContainsFunc(a, func(have keptKey) bool { return bytes.Equal(have.Box, k.Box) }) {
			a, lacks = append(a, k), true
		}
	}
	slices.SortStableFunc(a, func(x, y keptKey) int { return y.Made.Compare(x.Made) })
	return a, lacks
}

// errUnchanged leaves a value as it is.
var errUnchanged = errors.New("unchanged")

// rereadEvery bounds how often tokens of unknown keys make us look for new ones.
const rereadEvery = time.Second

// key returns the key of that ID. Another proxy may have made it just now.
func (a *Authority) key(ctx context.Context, id string) (Key, bool) {
	k, ok := a.keys.Load().byID[id]
	if !ok {
		a.lookAgain(ctx)
		k, ok = a.keys.Load().byID[id]
	}
	return k, ok
}

// lookAgain reads the keys anew, unless it has just done so.
func (a *Authority) lookAgain(ctx context.Context) {
	if a.own {
		return
	}
	a.mu.Lock()
	due := a.now().Sub(a.reread) >= rereadEvery
	if due {
		a.reread = a.now()
	}
	a.mu.Unlock()
	if due {
		if err := a.openKeys(ctx); err != nil {
			a.log.Warn("look for new signing keys", "err", err)
		}
	}
}

// box seals keys under the secret of the deployment.
type box struct{ aead cipher.AEAD }

func newBox(seal []byte) (box, error) {
	block, err := aes.NewCipher(derive(seal, "sessionproxy signing keys"))
	if err != nil {
		return box{}, err
	}
	aead, err := cipher.NewGCM(block)
	return box{aead}, err
}

func (b box) seal(seed []byte) []byte {
	nonce := make([]byte, b.aead.NonceSize())
	rand.Read(nonce)
	return b.aead.Seal(nonce, nonce, seed, []byte(keysKept))
}

// sealed says whether there are keys and none can be opened.
func (b box) sealed(kept []keptKey) bool {
	return len(kept) > 0 && !slices.ContainsFunc(kept, func(k keptKey) bool { return b.seed(k) != nil })
}

// open returns the keys that can be opened and are still good.
func (b box) open(kept []keptKey, now time.Time) (keys []Key, good []keptKey) {
	for _, k := range kept {
		if seed := b.seed(k); seed != nil && now.Sub(k.Made) < 2*keyLife {
			keys, good = append(keys, newKey(ed25519.NewKeyFromSeed(seed))), append(good, k)
		}
	}
	return keys, good
}

// seed returns what is in a box, nil where that is not to be had.
func (b box) seed(k keptKey) []byte {
	n := b.aead.NonceSize()
	if len(k.Box) < n {
		return nil
	}
	seed, err := b.aead.Open(nil, k.Box[:n], k.Box[n:], []byte(keysKept))
	if err != nil || len(seed) != ed25519.SeedSize {
		return nil
	}
	return seed
}
