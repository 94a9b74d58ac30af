// Package group knows which proxies share a store: each says every few seconds
// that it is there, and what it has counted lately, and takes its word back
// when it stops. One that is killed is forgotten soon.
//
// What is counted, the proxy knows; what is shown of it, package admin.
package group

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// Every is how often a member gives word, and the length of a [Sample].
const Every = 5 * time.Second

// Bounds.
const (
	life   = 3 * Every       // of a word
	keep   = 120             // samples: ten minutes
	within = 2 * time.Second // what one word may take
)

// key is the prefix of the members' keys.
const key = "session:proxies:"

// Member is one proxy.
type Member struct {
	ID      string    `json:"id"` // random, of this run of it
	Host    string    `json:"host"`
	Admin   string    `json:"admin"` // host:port of its admin API
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Seen    time.Time `json:"seen"`    // when it gave word last
	Samples []Sample  `json:"samples"` // of the last ten minutes, the newest last; none of a time in which it did not run
}

// Sample is what a member counted in the 5 seconds before End.
type Sample struct {
	End int64 `json:"end"` // seconds since 1970, a multiple of 5
	Counts
}

// Counts are those of a proxy, since it began or in a time.
type Counts struct {
	Exchanges   uint64   `json:"exchanges,omitempty"` // requests served, and tunnels that ended
	Failed      uint64   `json:"failed,omitempty"`    // of them: by a fault of ours, an upstream or an origin
	Refused     uint64   `json:"refused,omitempty"`   // of them: not allowed, or not understood
	Logins      uint64   `json:"logins,omitempty"`    // that succeeded
	LoginsLost  uint64   `json:"logins_lost,omitempty"`
	Fills       uint64   `json:"fills,omitempty"` // captcha fields that got their token
	FillsFailed uint64   `json:"fills_failed,omitempty"`
	Workers     int      `json:"workers,omitempty"` // seen within five minutes: not a sum
	Added       []uint64 `json:"added,omitempty"`   // exchanges by the time that the proxy added, one for each of the bounds and one above all
}

// since is what was counted after old.
func (c Counts) since(old Counts) Counts {
	d := Counts{
		Exchanges: c.Exchanges - old.Exchanges, Failed: c.Failed - old.Failed, Refused: c.Refused - old.Refused,
		Logins: c.Logins - old.Logins, LoginsLost: c.LoginsLost - old.LoginsLost,
		Fills: c.Fills - old.Fills, FillsFailed: c.FillsFailed - old.FillsFailed, Workers: c.Workers,
	}
	if d.Exchanges > 0 {
		d.Added = slices.Clone(c.Added)
		for i, n := range old.Added {
			d.Added[i] -= n
		}
	}
	return d
}

// Options are the parts of a Group. All but Store are needed.
type Options struct {
	Store   access.Store // nil: this proxy is alone
	Host    string
	Admin   string
	Version string
	Count   func() Counts // since this proxy began
	Bounds  []float64     // of the Added of all members, in seconds
	Log     *slog.Logger
}

// Group is the membership of this proxy. It is safe for concurrent use. Make it
// with Join.
type Group struct {
	store  access.Store
	count  func() Counts
	bounds []float64
	log    *slog.Logger
	quit   chan struct{}
	done   chan struct{}
	leave  sync.Once

	mu   sync.Mutex // guards self
	self Member

	last Counts // of run alone
	lost bool   // the last word did not reach the store; of run alone
}

// Join makes this proxy a member, until Leave.
func Join(o Options) *Group {
	var id [8]byte
	rand.Read(id[:])
	now := time.Now().UTC()
	g := &Group{
		store: o.Store, count: o.Count, bounds: o.Bounds, log: o.Log, quit: make(chan struct{}), done: make(chan struct{}),
		self: Member{ID: hex.EncodeToString(id[:]), Host: o.Host, Admin: o.Admin, Version: o.Version, Started: now, Seen: now, Samples: []Sample{}},
	}
	go g.run()
	return g
}

// Leave ends the membership: others see it at once. A second call does nothing.
func (g *Group) Leave() {
	g.leave.Do(func() { close(g.quit) })
	<-g.done
}

// run gives word at the multiples of Every, so that the samples of all members
// are of the same times.
func (g *Group) run() {
	defer close(g.done)
	g.give()
	for {
		now := time.Now()
		select {
		case <-g.quit:
			g.put(nil)
			return
		case <-time.After(now.Truncate(Every).Add(Every).Sub(now)):
			g.sample()
			g.give()
		}
	}
}

// sample adds what was counted since the last one.
func (g *Group) sample() {
	counts := g.count()
	s := Sample{time.Now().Truncate(Every).Unix(), counts.since(g.last)}
	g.last = counts
	g.mu.Lock()
	defer g.mu.Unlock()
	g.self.Seen = time.Now().UTC()
	if over := len(g.self.Samples) - keep + 1; over > 0 {
		g.self.Samples = g.self.Samples[over:]
	}
	// A new array, since Members gives the old one away.
	g.self.Samples = append(slices.Clone(g.self.Samples), s)
}

// me is this proxy as it is now.
func (g *Group) me() Member {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.self
}

func (g *Group) give() {
	word, err := json.Marshal(g.me())
	if err != nil {
		panic(err) // a Member can be marshalled
	}
	g.put(word)
}

// put brings a word into the store, nil to take it back.
func (g *Group) put(word []byte) {
	if g.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	name := key + g.self.ID
	old, err := g.store.Get(ctx, name)
	if err == nil || errors.Is(err, access.ErrNotFound) { // its life was over, or the store is empty
		_, err = g.store.Swap(ctx, name, old, word, life)
	}
	if err != nil && !g.lost {
		g.log.Warn("tell the other proxies that this one is there", "err", err)
	}
	g.lost = err != nil
}

// Self is the ID of this proxy.
func (g *Group) Self() string { return g.me().ID }

// Members lists all, in order of host, admin port and start. Where the store
// does not answer, it is this proxy and the error.
func (g *Group) Members(ctx context.Context) ([]Member, error) {
	all := []Member{g.me()}
	select {
	case <-g.quit:
		all = nil
	default:
	}
	if g.store == nil {
		return all, nil
	}
	words, err := g.store.List(ctx, key)
	if err != nil {
		return all, fmt.Errorf("list the proxies: %w", err)
	}
	for _, word := range words {
		var m Member
		if json.Unmarshal(word, &m) == nil && m.ID != g.self.ID { // else of a later version
			all = append(all, m)
		}
	}
	slices.SortFunc(all, func(a, b Member) int {
		return cmp.Or(cmp.Compare(a.Host, b.Host), cmp.Compare(a.Admin, b.Admin), a.Started.Compare(b.Started), cmp.Compare(a.ID, b.ID))
	})
	return all, nil
}
