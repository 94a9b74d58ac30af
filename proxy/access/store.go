package access

import (
	"context"
	"errors"
	"time"
)

// ErrNotFound says that a store has nothing under a key, or that its life is
// over. No other error says so.
var ErrNotFound = errors.New("not found")

// Store is what the proxies of one deployment know together. It is safe for
// concurrent use, and returns soon after ctx ends. What Swap has returned holds
// at once for every proxy. Keys are printable ASCII without spaces.
type Store interface {
	// Get returns the value under key, or ErrNotFound.
	Get(ctx context.Context, key string) ([]byte, error)

	// Swap puts value in the place of old for a life, and reports whether it
	// did: not where another value is there, or none. An old of nil stands
	// for none, a value of nil removes the key. A life of 0 does not end. Of
	// several that swap the same old at once, one does.
	Swap(ctx context.Context, key string, old, value []byte, life time.Duration) (bool, error)

	// List returns the values under all keys that begin with prefix, which
	// ends with a colon.
	List(ctx context.Context, prefix string) (map[string][]byte, error)

	// Publish tells everybody that follows.
	Publish(ctx context.Context, m Message) error

	// Follow calls on, one call at a time, until ctx ends: with Began when
	// from there on no message is missed, with Ended when that is no longer
	// so, and with each message in between. It tries again by itself.
	Follow(ctx context.Context, on func(Message))

	// Close frees the store.
	Close() error
}

// Message is what proxies tell each other.
type Message struct {
	Topic string // a word; Began or Ended
	Body  string
}

// Topics of Follow itself.
const (
	Began = "began"
	Ended = "ended"
)
