// Package password holds passwords against what the operator wrote down of
// them, and makes guessing slow.
//
// Whose password it is, and what to answer, is its caller's part.
package password

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/crypto/argon2"
	"golang.org/x/crypto/bcrypt"
)

// Secret is what a password is held against: the password itself, or a hash of
// it. The zero Secret matches nothing.
type Secret struct {
	text   [sha256.Size]byte // of what was written down, so that comparing takes the same time for every length
	plain  bool
	argon  *argon
	bcrypt []byte
}

// argon is an argon2id hash (RFC 9106).
type argon struct {
	memory, passes uint32 // KiB
	lanes          uint8
	salt, key      []byte
}

// Bounds of a hash, so that a login costs no more than a second and a quarter
// of a GiB.
const (
	maxMemory = 256 << 10 // KiB
	maxWork   = 1 << 20   // KiB times passes
	maxLanes  = 16
	maxCost   = 14 // of bcrypt
)

// What New makes: the second choice of RFC 9106 section 4, on one core.
const (
	newMemory, newPasses, newLanes = 64 << 10, 3, 1
	newSalt, newKey                = 16, 32
)

// Parse reads what an operator wrote down: $argon2id$…, $2a$…, $2b$… or $2y$…
// is a hash, anything else the password itself. Its error is a sentence, which
// holds nothing of the text.
func Parse(text string) (Secret, error) {
	s := Secret{text: sha256.Sum256([]byte(text))}
	var err error
	switch scheme := scheme(text); scheme {
	case "":
		s.plain = true
	case "argon2id":
		s.argon, err = parseArgon(text)
	case "2a", "2b", "2y":
		s.bcrypt, err = parseBcrypt(text)
	default:
		err = errors.New("this kind of hash is not read: use argon2id or bcrypt")
	}
	if err != nil {
		return Secret{}, err
	}
	return s, nil
}

// mark begins a hash, and no password that anybody is likely to choose.
var mark = regexp.MustCompile(`^(\$(argon2[a-z]*|[0-9][a-z]?|bcrypt-sha256|pbkdf2[a-z0-9-]*|scrypt|apr1|y|gy|sha1|md5|[PHS])\$|\{[A-Z0-9-]+\})`)

func scheme(text string) string { return strings.Trim(mark.FindString(text), "$") }

// parseArgon reads the PHC string format: $argon2id$v=19$m=65536,t=3,p=1$SALT$KEY.
func parseArgon(text string) (*argon, error) {
	fields := strings.Split(text, "$")
	if len(fields) != 6 {
		return nil, errors.New("an argon2id hash is $argon2id$v=19$m=…,t=…,p=…$SALT$KEY")
	}
	if fields[2] != "v=19" {
		return nil, errors.New("this argon2id hash is of another version than v=19")
	}
	params := strings.Split(fields[3], ",")
	if len(params) != 3 {
		return nil, errors.New("an argon2id hash names m, t and p, in this order")
	}
	var n [3]uint32
	for i, name := range []string{"m=", "t=", "p="} {
		digits, ok := strings.CutPrefix(params[i], name)
		v, err := strconv.ParseUint(digits, 10, 32)
		if !ok || err != nil || v == 0 {
			return nil, errors.New("an argon2id hash names m, t and p, in this order, each a number above 0")
		}
		n[i] = uint32(v)
	}
	a := &argon{memory: n[0], passes: n[1], lanes: uint8(min(n[2], maxLanes+1))}
	switch {
	case a.lanes > maxLanes, a.memory > maxMemory, uint64(a.memory)*uint64(a.passes) > maxWork:
		return nil, fmt.Errorf("this argon2id hash would take each login too long: m is at most %d, m times t at most %d, p at most %d", maxMemory, maxWork, maxLanes)
	case a.memory < 8*uint32(a.lanes):
		return nil, errors.New("this argon2id hash has an m of less than 8 times its p")
	}
	var err, keyErr error
	a.salt, err = base64.RawStdEncoding.Strict().DecodeString(fields[4])
	a.key, keyErr = base64.RawStdEncoding.Strict().DecodeString(fields[5])
	switch {
	case err != nil || keyErr != nil:
		return nil, errors.New("the salt and the key of an argon2id hash are base64 without padding")
	case len(a.salt) < 8 || len(a.salt) > 64 || len(a.key) < 16 || len(a.key) > 64:
		return nil, errors.New("an argon2id hash has a salt of 8 to 64 bytes and a key of 16 to 64")
	}
	return a, nil
}

func parseBcrypt(text string) ([]byte, error) {
	cost, err := bcrypt.Cost([]byte(text))
	switch {
	case err != nil || len(text) != 60:
		return nil, errors.New("a bcrypt hash has 60 characters: $2b$COST$ and 53 more")
	case cost > maxCost:
		return nil, fmt.Errorf("this bcrypt hash would take each login too long: its cost is at most %d", maxCost)
	}
	return []byte(text), nil
}

// Slow says that Matches takes a tenth of a second or so of one core.
func (s Secret) Slow() bool { return !s.plain }

// Same says whether both were read from the same text.
func (s Secret) Same(t Secret) bool { return s.text == t.text }

// Fingerprint is a text that tells the secret from others to whoever has key,
// and nothing to anybody else.
func (s Secret) Fingerprint(key []byte) string {
	h := hmac.New(sha256.New, key)
	h.Write(s.text[:])
	return hex.EncodeToString(h.Sum(nil)[:16])
}

// Matches says whether the password is the one that was written down. It takes
// the same time for every wrong one.
func (s Secret) Matches(password string) bool {
	switch {
	case s.argon != nil:
		a := s.argon
		key := argon2.IDKey([]byte(password), a.salt, a.passes, a.memory, a.lanes, uint32(len(a.key)))
		return subtle.ConstantTimeCompare(key, a.key) == 1
	case s.bcrypt != nil:
		return bcrypt.CompareHashAndPassword(s.bcrypt, []byte(password)) == nil
	}
	given := sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(given[:], s.text[:]) == 1 && s.plain
}

// New returns an argon2id hash of the password, as Parse reads it.
func New(password string) string {
	salt := make([]byte, newSalt)
	rand.Read(salt)
	key := argon2.IDKey([]byte(password), salt, newPasses, newMemory, newLanes, newKey)
	b64 := base64.RawStdEncoding.EncodeToString
	return fmt.Sprintf("$argon2id$v=%d$m=%d,t=%d,p=%d$%s$%s", argon2.Version, newMemory, newPasses, newLanes, b64(salt), b64(key))
}
