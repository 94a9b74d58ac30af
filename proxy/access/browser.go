package access

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/netip"
	"time"
)

// same compares what may be secret.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// LoginBrowser lets a browser in. It returns the value of its cookie, of which
// the store has the hash only. Errors are those of Login.
func (a *Authority) LoginBrowser(ctx context.Context, name, pass, device string, from netip.Addr) (value string, who Operator, err error) {
	o, err := a.check(name, pass, from)
	if err != nil {
		return "", Operator{}, err
	}
	raw := make([]byte, 32)
	rand.Read(raw)
	value = base64.RawURLEncoding.EncodeToString(raw)
	id := browserID(value)
	if err := a.put(ctx, keyBrowser+id, a.newLogin(name, device, from, o, BrowserLife), BrowserLife); err != nil {
		return "", Operator{}, err
	}
	return value, Operator{name, o.role, id}, nil
}

func browserID(value string) string {
	sum := sha256.Sum256([]byte(value))
	return hex.EncodeToString(sum[:16])
}

// renewAfter is how much of a browser's session passes before a use makes it
// anew.
const renewAfter = time.Minute

// Browser judges a browser's cookie, and makes its session last. The error is
// ErrToken or the store's.
func (a *Authority) Browser(ctx context.Context, value string, from netip.Addr) (Operator, error) {
	if len(value) != base64.RawURLEncoding.EncodedLen(32) {
		return Operator{}, ErrToken
	}
	id := browserID(value)
	var who Operator
	err := a.change(ctx, keyBrowser+id, func(old []byte) ([]byte, time.Duration, error) {
		var l login
		if old == nil || json.Unmarshal(old, &l) != nil {
			return nil, 0, ErrToken
		}
		o, ok := a.operators.Load().all[l.User]
		if !ok || o.proof != l.Proof {
			return nil, 0, ErrToken
		}
		who = Operator{l.User, o.role, id}
		now := a.now().UTC()
		if now.Sub(l.Used) < renewAfter {
			return nil, 0, errUnchanged
		}
		l.Used, l.Expires, l.From = now, now.Add(BrowserLife), from.String()
		value, err := json.Marshal(l)
		return value, BrowserLife, err
	})
	if err != nil && !errors.Is(err, errUnchanged) {
		return Operator{}, err
	}
	return who, nil
}
