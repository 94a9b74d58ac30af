package password

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"net/netip"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// Why a password was not looked at.
var (
	ErrTooMany = errors.New("too many wrong passwords from this address")
	ErrBusy    = errors.New("too many passwords are being checked")
)

// RetryAfter is when to try again after either.
const RetryAfter = 5 * time.Second

// Verifier checks passwords: a right one once, at most one hash a core at a
// time, and those from an address that has sent wrong ones ever more slowly. It
// is safe for concurrent use.
type Verifier struct {
	key     []byte // of the process, for what it remembers
	cores   chan struct{}
	guesses guesses
	group   singleflight.Group

	mu       sync.RWMutex // guards what follows
	new, old map[[sha256.Size]byte]struct{}
}

// Bounds of what is remembered, in each of two generations, and of waits.
const (
	maxRight  = 2048
	coreWait  = 5 * time.Second
	guessWait = 2 * time.Second
)

// NewVerifier returns one that has seen nothing.
func NewVerifier() *Verifier {
	v := &Verifier{
		key:   make([]byte, 32),
		cores: make(chan struct{}, runtime.GOMAXPROCS(0)),
		new:   map[[sha256.Size]byte]struct{}{},
	}
	rand.Read(v.key)
	v.guesses.all = map[netip.Prefix]*guesser{}
	return v
}

// Check says whether the password, which came from an address, is that of name.
// A name that is not known is given the secret of another, and known false: it
// then takes as long as a wrong password. The error is ErrTooMany or ErrBusy.
func (v *Verifier) Check(from netip.Addr, name, password string, s Secret, known bool) (bool, error) {
	id := v.sum(s.text[:], name, password)
	if v.remembers(id) {
		return true, nil
	}
	// A hundred workers that start at once have one password.
	right, err, _ := v.group.Do(string(id[:]), func() (any, error) {
		settle, err := v.guesses.begin(from)
		if err != nil {
			return false, err
		}
		right, err := v.matches(s, password)
		right = right && known
		settle(right)
		if right {
			v.remember(id)
		}
		return right, err
	})
	return right.(bool), err
}

// Decoy picks the secret that an unknown name is checked against: always the
// same for one name, so that time tells it from no other.
func (v *Verifier) Decoy(name string, of []Secret) Secret {
	if len(of) == 0 {
		return Secret{}
	}
	sum := v.sum(nil, name, "")
	return of[int(binary.BigEndian.Uint32(sum[:]))%len(of)]
}

// Forget drops all that is remembered.
func (v *Verifier) Forget() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.new, v.old = map[[sha256.Size]byte]struct{}{}, nil
}

func (v *Verifier) matches(s Secret, password string) (bool, error) {
	if s.Slow() {
		wait := time.NewTimer(coreWait)
		defer wait.Stop()
		select {
		case v.cores <- struct{}{}:
			defer func() { <-v.cores }()
		case <-wait.C:
			return false, ErrBusy
		}
	}
	return s.Matches(password), nil
}

// sum is what a credential is remembered by: keyed, so that a dump of the
// process gives nobody a password to try.
func (v *Verifier) sum(secret []byte, name, password string) [sha256.Size]byte {
	b := make([]byte, 0, 512) // most are shorter, and stay on the stack
	b = append(b, v.key...)
	b = append(b, secret...)
	b = binary.BigEndian.AppendUint32(b, uint32(len(name)))
	b = append(b, name...)
	return sha256.Sum256(append(b, password...))
}

func (v *Verifier) remembers(id [sha256.Size]byte) bool {
	v.mu.RLock()
	defer v.mu.RUnlock()
	_, inNew := v.new[id]
	_, inOld := v.old[id]
	return inNew || inOld
}

func (v *Verifier) remember(id [sha256.Size]byte) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.new) >= maxRight {
		v.old, v.new = v.new, map[[sha256.Size]byte]struct{}{}
	}
	v.new[id] = struct{}{}
}
