package access

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// denied are the tokens, and the devices whose tokens, that were revoked and
// have not ended. It is a copy of what the store has under denied:ID.
type denied struct {
	coherent atomic.Bool               // no message can be missed
	away     atomic.Pointer[time.Time] // until when the store is not asked: it has just failed

	mu    sync.RWMutex // guards until
	until map[string]denial
}

// denial ends when both clocks say so, since what it denies ends by the one that
// people set: a clock that goes ahead for a while and back revives no token.
type denial struct{ wall, steady time.Time }

const (
	keyDenied   = "denied:"
	topicDenied = "denied"
	storeTime   = 250 * time.Millisecond // for what a request asks the store
)

// deny revokes what has the ID, and tells all proxies. It is over at until by
// itself.
func (a *Authority) deny(ctx context.Context, id string, until time.Time) error {
	until = until.Add(skew)
	life := until.Sub(a.now())
	if life <= 0 {
		return nil
	}
	text := strconv.FormatInt(until.Unix()+1, 10)
	err := a.change(ctx, keyDenied+id, func([]byte) ([]byte, time.Duration, error) { return []byte(text), life, nil })
	if err != nil {
		return err
	}
	a.hearDenied(id + " " + text) // here at once, whatever becomes of the message
	return a.store.Publish(ctx, Message{topicDenied, id + " " + text})
}

func (a *Authority) hearDenied(body string) {
	id, text, _ := strings.Cut(body, " ")
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil || id == "" {
		return
	}
	a.addDenied(id, time.Unix(seconds, 0))
}

func (a *Authority) addDenied(id string, until time.Time) {
	a.denied.mu.Lock()
	_, known := a.denied.until[id]
	a.denied.until[id] = denial{until, time.Now().Add(until.Sub(a.now()))}
	a.denied.mu.Unlock()
	if known {
		return
	}
	a.mu.Lock()
	tell := a.onDenied
	a.mu.Unlock()
	for _, f := range tell {
		f(id)
	}
}

// OnDenied calls f with the ID of each token, or device, that is revoked from
// now on, here or by another proxy. It must return soon.
func (a *Authority) OnDenied(f func(id string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.onDenied = append(a.onDenied[:len(a.onDenied):len(a.onDenied)], f)
}

// readDenied fills the copy, once messages come.
func (a *Authority) readDenied() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	all, err := a.store.List(ctx, keyDenied)
	if err != nil {
		a.log.Warn("read which tokens are revoked: each is asked for until that succeeds", "err", err)
		return
	}
	for key, value := range all {
		a.hearDenied(strings.TrimPrefix(key, keyDenied) + " " + string(value))
	}
	a.denied.coherent.Store(true)
}

// isDenied says whether a token was revoked, by itself or with its device. The
// store is asked only while the copy may lack something; if it can't say, what
// is known has to do: the token is signed, and ends soon.
func (a *Authority) isDenied(ctx context.Context, id string) bool {
	device, _, ofDevice := strings.Cut(id, ".")
	a.denied.mu.RLock()
	_, itself := a.denied.until[id]
	_, with := a.denied.until[device]
	a.denied.mu.RUnlock()
	if itself || with {
		return true
	}
	if a.denied.coherent.Load() {
		return false
	}
	if until := a.denied.away.Load(); until != nil && time.Now().Before(*until) {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	for _, id := range []string{id, device} {
		switch _, err := a.store.Get(ctx, keyDenied+id); {
		case err == nil:
			return true
		case !errors.Is(err, ErrNotFound):
			a.denied.away.Store(new(time.Now().Add(time.Second)))
			a.log.Warn("ask whether a token is revoked: what is known has to do for a second", "err", err)
			return false
		}
		if !ofDevice {
			break
		}
	}
	return false
}

func (d *denied) drop(now time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for id, until := range d.until {
		if now.After(until.wall) && time.Now().After(until.steady) {
			delete(d.until, id)
		}
	}
}
