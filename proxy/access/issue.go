package access

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"
)

// Grant is a token that stands for a client's password.
type Grant struct {
	ID       string    `json:"-"`
	Client   string    `json:"client"`
	Sites    []string  `json:"sites,omitempty"`    // that it is held to; none: the client's
	Sessions []string  `json:"sessions,omitempty"` // globs; the same
	By       string    `json:"by"`                 // who issued it
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires"`
}

const keyIssued = "session:issued:"

// Issue makes a token for a client. The life is above 0, and MaxProxyLife at
// most.
func (a *Authority) Issue(ctx context.Context, g Grant, life time.Duration) (Grant, string, error) {
	g.ID = newID()
	g.Issued = a.now().UTC().Truncate(time.Second)
	g.Expires = g.Issued.Add(life)
	value, err := json.Marshal(g)
	if err != nil {
		return Grant{}, "", err
	}
	token, err := a.sign(g.Client, forProxy, g.ID, life, claims{Sites: g.Sites, Sessions: g.Sessions})
	if err != nil {
		return Grant{}, "", err
	}
	if _, err := a.store.Swap(ctx, keyIssued+g.ID, nil, value, life); err != nil {
		return Grant{}, "", err
	}
	return g, token, nil
}

// Grants lists the tokens that were issued and have not ended, by client.
func (a *Authority) Grants(ctx context.Context) ([]Grant, error) {
	records, err := a.store.List(ctx, keyIssued)
	if err != nil {
		return nil, err
	}
	var all []Grant
	for key, value := range records {
		var g Grant
		if json.Unmarshal(value, &g) != nil {
			continue
		}
		g.ID = strings.TrimPrefix(key, keyIssued)
		all = append(all, g)
	}
	slices.SortFunc(all, func(a, b Grant) int {
		return cmp.Or(cmp.Compare(a.Client, b.Client), a.Issued.Compare(b.Issued), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}

// RevokeGrant ends a token for all proxies. It reports false where none of that
// ID is good.
func (a *Authority) RevokeGrant(ctx context.Context, id string) (bool, error) {
	all, err := a.Grants(ctx)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(all, func(g Grant) bool { return g.ID == id })
	if i < 0 {
		return false, nil
	}
	if err := a.deny(ctx, id, all[i].Expires); err != nil {
		return false, err
	}
	return true, a.change(ctx, keyIssued+id, func([]byte) ([]byte, time.Duration, error) { return nil, 0, nil })
}

// Client judges a token that came as a client's password. Its signature is
// checked once.
func (a *Authority) Client(ctx context.Context, text string) (Grant, error) {
	sum := sha256.Sum256([]byte(text))
	if g, known := a.seen.get(sum); known {
		if !a.Good(ctx, g) {
			return Grant{}, ErrToken
		}
		return g, nil
	}
	c, err := a.parse(ctx, text, forProxy)
	if err != nil {
		return Grant{}, err
	}
	g := Grant{ID: c.ID, Client: c.Subject, Sites: c.Sites, Sessions: c.Sessions, Issued: c.IssuedAt.Time, Expires: c.ExpiresAt.Time}
	a.seen.put(sum, g)
	return g, nil
}

// seen remembers tokens whose signature was good, in two generations.
type seen struct {
	mu       sync.RWMutex // guards what follows
	new, old map[[sha256.Size]byte]Grant
}

// maxSeen bounds a generation.
const maxSeen = 1024

func (s *seen) get(sum [sha256.Size]byte) (Grant, bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if g, known := s.new[sum]; known {
		return g, true
	}
	g, known := s.old[sum]
	return g, known
}

func (s *seen) put(sum [sha256.Size]byte, g Grant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.new == nil || len(s.new) >= maxSeen {
		s.old, s.new = s.new, map[[sha256.Size]byte]Grant{}
	}
	s.new[sum] = g
}

// Good says whether a token that was good before is so now.
func (a *Authority) Good(ctx context.Context, g Grant) bool {
	return a.now().Before(g.Expires.Add(skew)) && !a.isDenied(ctx, g.ID)
}
