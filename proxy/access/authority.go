// Package access says who an operator is, and what a token that stands for an
// operator or a client is worth.
//
// It has two kinds of proof. An access token is signed, short-lived and checked
// without asking anybody; what was revoked before its time stands on a list
// that each proxy holds in memory. A refresh token and a browser's session are
// records of a [Store] that the proxies share, so that they end when they are
// to end.
//
// Passwords, package password judges; what an operator may do and what a client
// may use, the callers.
package access

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/password"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// Options are the parts of an Authority. All but Keys, Token and Audit are needed.
type Options struct {
	Store Store
	// Keys are the operator's own, the first of which signs; none: they are
	// made, and kept in the store.
	Keys []Key
	// Seal is a secret of 32 bytes that all proxies of the deployment have,
	// under which keys that are made are kept.
	Seal      []byte
	Operators []config.Operator
	// Token is the admin token: who has it is the operator
	// [config.TokenOperator], whose password it is. "": there is none.
	Token     string
	Passwords *password.Verifier
	Audit     *audit.Log
	Log       *slog.Logger
}

// Authority issues tokens and judges them. It is safe for concurrent use. Make
// it with New.
type Authority struct {
	store     Store
	seal      []byte
	own       bool // the keys are the operator's own
	token     string
	passwords *password.Verifier
	audit     *audit.Log
	log       *slog.Logger
	now       func() time.Time

	keys      atomic.Pointer[keyring]
	operators atomic.Pointer[operators]
	denied    denied
	seen      seen

	mu       sync.Mutex // guards what follows
	watchers []func(Message)
	onDenied []func(id string)
	reread   time.Time // the keys, last

	stop    context.CancelFunc
	running sync.WaitGroup
}

// New opens the keys and begins to follow the store, until Close.
func New(ctx context.Context, o Options) (*Authority, error) {
	a := &Authority{
		store: o.Store, seal: o.Seal, own: len(o.Keys) > 0, token: o.Token, passwords: o.Passwords, audit: o.Audit, log: o.Log, now: time.Now,
		denied: denied{until: map[string]denial{}},
	}
	if err := a.SetOperators(o.Operators); err != nil {
		return nil, err
	}
	if a.own {
		a.keys.Store(newKeyring(o.Keys, nil))
	} else if err := a.openKeys(ctx); err != nil {
		return nil, err
	}
	following, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.running.Go(func() { a.store.Follow(following, a.hear) })
	a.running.Go(func() { a.tend(following) })
	return a, nil
}

// Close stops following. The store is its owner's.
func (a *Authority) Close() {
	a.stop()
	a.running.Wait()
}

// hear takes what other proxies tell, and this one too.
func (a *Authority) hear(m Message) {
	switch m.Topic {
	case Began:
		a.readDenied()
	case Ended:
		a.denied.coherent.Store(false)
	case topicDenied:
		a.hearDenied(m.Body)
	default:
		a.mu.Lock()
		watchers := a.watchers
		a.mu.Unlock()
		for _, on := range watchers {
			on(m)
		}
	}
}

// Watch calls on with each message of the proxies that is not about access
// itself. It must return soon.
func (a *Authority) Watch(on func(Message)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.watchers = append(a.watchers[:len(a.watchers):len(a.watchers)], on)
}

// Publish tells all proxies.
func (a *Authority) Publish(ctx context.Context, m Message) error { return a.store.Publish(ctx, m) }

// tendEvery is how often what is over is dropped, and keys are looked at.
const tendEvery = time.Hour

func (a *Authority) tend(ctx context.Context) {
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			a.denied.drop(a.now())
			if !a.own {
				if err := a.openKeys(ctx); err != nil && ctx.Err() == nil {
					a.log.Warn("renew the signing keys", "err", err)
				}
			}
		}
	}
}

// maxTries bounds how often a change is tried again that others were faster
// with.
const maxTries = 16

var errBusy = errors.New("others change it all the time")

// change makes a new value of the one under key, until nobody was faster. next
// returns nil to remove it, and an error to leave it.
func (a *Authority) change(ctx context.Context, key string, next func(old []byte) (value []byte, life time.Duration, err error)) error {
	for range maxTries {
		old, err := a.store.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		if err != nil {
			old = nil
		}
		value, life, err := next(old)
		if err != nil {
			return err
		}
		if done, err := a.store.Swap(ctx, key, old, value, life); done || err != nil {
			return err
		}
	}
	return fmt.Errorf("change %s: %w", key, errBusy)
}
