package captcha

import (
	"context"
	"errors"
	"time"
)

// Times of the store's calls.
const (
	storeTime = 250 * time.Millisecond // for one
	awayTime  = time.Second            // after one failed, until the next is tried
)

// try makes one call of the store, and says whether it answered. While it is
// away none is made but one a second. Where it did not answer, the error is what
// the call ended with.
func (p *Pool) try(ctx context.Context, call func(context.Context) error) (answered bool, err error) {
	p.mu.Lock()
	away := time.Now().Before(p.back)
	p.mu.Unlock()
	if away {
		return false, nil
	}
	bound, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	if err = call(bound); !isOutage(err) {
		return true, err
	}
	if ctx.Err() == nil { // else it is the caller who left
		p.mu.Lock()
		p.back = time.Now().Add(awayTime)
		p.mu.Unlock()
	}
	return false, err
}

// pop takes a token out of the store, or one that was kept here while that was
// away.
func (p *Pool) pop(ctx context.Context, k Key) (Token, error) {
	var t Token
	ok, err := p.try(ctx, func(ctx context.Context) (err error) {
		t, err = p.store.Pop(ctx, k)
		return err
	})
	if ok && err == nil {
		return t, nil
	}
	spare, spareErr := p.spare.Pop(ctx, k)
	if spareErr == nil || !ok {
		return spare, spareErr
	}
	return Token{}, err
}

// keep puts a token into the store, or keeps it here while that is away. One that
// the store may have got is not kept here too: it would be used twice.
func (p *Pool) keep(ctx context.Context, k Key, t Token, put func(Store, context.Context, Key, Token) error) error {
	ok, err := p.try(ctx, func(ctx context.Context) error { return put(p.store, ctx, k, t) })
	if ok || errors.Is(err, ErrUnsure) {
		return err
	}
	return put(p.spare, ctx, k, t)
}

// look says what is ready of a key. What was kept here goes to a store that is
// back.
func (p *Pool) look(ctx context.Context, k Key) (State, error) {
	var state State
	ok, err := p.try(ctx, func(ctx context.Context) (err error) {
		state, err = p.store.Look(ctx, k)
		return err
	})
	spare, _ := p.spare.Look(ctx, k) // it cannot fail
	if !ok {
		return spare, nil
	}
	for range spare.Ready {
		t, err := p.spare.Pop(ctx, k)
		if err != nil {
			break
		}
		if p.keep(ctx, k, t, Store.Return) == nil {
			state.Ready++
		}
	}
	return state, err
}

// spend takes one from the budget; while the store is away, from this proxy's
// share of it.
func (p *Pool) spend(ctx context.Context, site string, perHour int) (int, error) {
	n := 0
	ok, err := p.try(ctx, func(ctx context.Context) (err error) {
		n, err = p.store.Spend(ctx, site, perHour)
		return err
	})
	if !ok && ctx.Err() == nil {
		n, err = p.spare.Spend(ctx, site, min(perHour, max(perHour/p.threads.peers(), 1)))
	} else if !ok {
		err = context.Cause(ctx)
	}
	return n, err
}

func (p *Pool) refund(ctx context.Context, site string) {
	if ok, _ := p.try(ctx, func(ctx context.Context) error { return p.store.Refund(ctx, site) }); !ok {
		_ = p.spare.Refund(ctx, site) // it cannot fail
	}
}
