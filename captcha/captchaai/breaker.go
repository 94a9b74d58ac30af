package captchaai

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"
)

// breaker holds what one call learned of the account for all others: that
// there is no use in calling for a while, or that calls come too fast.
type breaker struct {
	mu     sync.Mutex
	cause  *Error // why it is open
	until  time.Time
	pause  time.Time // calls wait until then
	submit time.Time // when the next submission may go
}

// How long the client keeps still.
const (
	keyTime      = time.Hour       // only the operator can mend a key; a look each hour is no ban
	banTime      = 5 * time.Minute // the service documents about that
	threadsTime  = 5 * time.Minute
	uploadTime   = 10 * time.Second       // MAX_USER_TURN
	rateTime     = 5 * time.Second        // no Retry-After given
	submitPeriod = 100 * time.Millisecond // between submissions; the protocol's origin bans more than 20 a second
)

// enter waits for a pause to end, and for a submission's turn. It returns the
// cause where the breaker is open.
func (b *breaker) enter(ctx context.Context, op string, submits bool) error {
	for {
		b.mu.Lock()
		now := time.Now()
		if b.cause != nil && now.Before(b.until) {
			e := *b.cause
			e.Op = op
			b.mu.Unlock()
			return &e
		}
		b.cause = nil
		wait := b.pause.Sub(now)
		if submits {
			wait = max(wait, b.submit.Sub(now))
		}
		if wait <= 0 {
			if submits {
				b.submit = now.Add(submitPeriod)
			}
			b.mu.Unlock()
			return nil
		}
		b.mu.Unlock()
		if err := sleep(ctx, wait); err != nil {
			return &Error{Op: op, Class: Deadline, Err: err}
		}
	}
}

// learn takes from a call's error what concerns the whole account.
func (b *breaker) learn(log *slog.Logger, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return
	}
	switch e.Class {
	case BadKey:
		b.trip(log, e, keyTime)
	case Banned:
		last := banTime
		if d, ok := bans[strings.TrimLeft(strings.TrimPrefix(e.Code, "ERROR:"), " ")]; ok {
			last = d
		}
		b.trip(log, e, last)
	case NoThreads:
		b.trip(log, e, threadsTime)
	case TooFast:
		wait := e.RetryAfter
		switch {
		case wait > 0:
		case e.Code == "MAX_USER_TURN":
			wait = uploadTime
		default:
			wait = rateTime
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if until := time.Now().Add(wait); until.After(b.pause) {
			b.pause = until
		}
	}
}

func (b *breaker) trip(log *slog.Logger, e *Error, last time.Duration) {
	b.mu.Lock()
	now := time.Now()
	known := b.cause != nil && now.Before(b.until)
	if until := now.Add(last); !known || until.After(b.until) && b.cause.Code != e.Code {
		b.cause, b.until = e, until
	}
	b.mu.Unlock()
	if !known {
		log.Warn("the captcha service is left alone for a while", "err", e, "for", last)
	}
}

// sleep waits, or returns why ctx ended.
func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
