package password

import (
	"net/netip"
	"sync"
	"time"
)

// guesses bounds how many wrong passwords an address sends: a burst, as a user
// with a wrong setting makes, and then one a second. Each check takes from what
// is left before it begins, so that sending many at once gains nothing, and a
// right one gives it back.
type guesses struct {
	mu  sync.Mutex // guards all
	all map[netip.Prefix]*guesser
}

// guesser is one address: how many wrong passwords it had left at a time.
type guesser struct {
	left float64
	at   time.Time
}

// Bounds.
const (
	burst       = 30
	perSecond   = 1.0
	maxGuessers = 1 << 14
)

// begin waits until the address may try, in guessWait at most. settle tells how
// it went.
func (g *guesses) begin(from netip.Addr) (settle func(right bool), err error) {
	key := network(from)
	now := time.Now()
	g.mu.Lock()
	one := g.all[key]
	if one == nil {
		one = &guesser{left: burst, at: now}
		g.makeRoom(now)
		g.all[key] = one
	}
	one.refill(now)
	wait := time.Duration((1 - one.left) / perSecond * float64(time.Second))
	if wait > guessWait {
		g.mu.Unlock()
		return nil, ErrTooMany
	}
	one.left--
	g.mu.Unlock()
	time.Sleep(wait) // not negative: at once
	return func(right bool) {
		if right {
			g.mu.Lock()
			defer g.mu.Unlock()
			one.left = min(one.left+1, burst)
		}
	}, nil
}

func (o *guesser) refill(now time.Time) {
	o.left = min(o.left+now.Sub(o.at).Seconds()*perSecond, burst)
	o.at = now
}

// makeRoom forgets addresses that have made no guess for long, or any where all
// have.
func (g *guesses) makeRoom(now time.Time) {
	if len(g.all) < maxGuessers {
		return
	}
	var victim netip.Prefix
	for key, o := range g.all {
		if o.refill(now); o.left >= burst {
			delete(g.all, key)
		}
		victim = key
	}
	if len(g.all) >= maxGuessers {
		delete(g.all, victim)
	}
}

// network is what one attacker holds: an IPv4 address, or an IPv6 network of 64
// bits.
func network(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := a.BitLen()
	if a.Is6() {
		bits = 64
	}
	p, _ := a.Prefix(bits)
	return p
}
