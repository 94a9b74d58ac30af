package redispool_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// clock is how times are written in a verdict.
const clock = "15:04:05.000000"

// journal is what the ledgers were asked and answered, and who was killed.
type journal struct {
	mu    sync.Mutex // guards what follows
	lines []line
	ends  map[string]time.Time // when leases end in the ledger, by whose they are on what
}

func newJournal() *journal { return &journal{ends: map[string]time.Time{}} }

type line struct {
	at   time.Time
	addr string // of the upstream; "": of all
	text string
}

func (j *journal) note(addr, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line{time.Now(), addr, text})
}

// of is what may matter for an upstream now.
func (j *journal) of(addr string) string { return j.around(addr, time.Now()) }

// around is what may have mattered for it then.
func (j *journal) around(addr string, then time.Time) string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var b strings.Builder
	for _, l := range j.lines {
		if (l.addr == "" || l.addr == addr) && then.Sub(l.at).Abs() < 3*chaosLease {
			fmt.Fprintln(&b, l.at.Format(clock), l.text)
		}
	}
	return b.String()
}

// lease notes that a proxy was told of an owner's lease, which it asked for then.
func (j *journal) lease(proxy, owner, addr string, asked time.Time) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.ends[proxy+" "+owner+" "+addr] = asked.Add(chaosLease)
}

// leased says whether the ledger has it that the owner of that worker may leave
// by an upstream yet.
func (j *journal) leased(proxy, worker, addr string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Now().Before(j.ends[proxy+" "+upstream.Worker("crawler", worker).String()+" "+addr])
}

// mortal is the ledger of a proxy that can die without a word. It writes down
// the proxy's leases.
type mortal struct {
	upstream.Ledger
	name    string
	journal *journal
	dead    atomic.Bool
}

var errDead = errors.New("the proxy is dead")

func (m *mortal) Acquire(ctx context.Context, pool string, asks []upstream.Ask) ([]upstream.Answer, error) {
	began := time.Now()
	answers, err := m.Ledger.Acquire(ctx, pool, asks)
	for i, a := range answers {
		if a.Token != "" {
			m.lives("got", began, a.URL, asks[i].Owner, a.Token)
		}
	}
	return answers, err
}

func (m *mortal) Renew(ctx context.Context, pool string, held []upstream.Hold) ([]upstream.Standing, error) {
	began := time.Now()
	standings, err := m.Ledger.Renew(ctx, pool, held)
	for i, h := range held {
		switch {
		case err != nil:
			m.journal.note(addr(h.URL), fmt.Sprintf("%s could not renew %s: %v", m.name, h.Token, err))
		case standings[i].State == upstream.Gone:
			m.journal.note(addr(h.URL), fmt.Sprintf("%s learnt that %s is gone", m.name, h.Token))
		default:
			m.lives("renewed", began, h.URL, h.Owner, h.Token)
		}
	}
	return standings, err
}

func (m *mortal) lives(how string, began time.Time, url, owner, token string) {
	m.journal.lease(m.name, owner, addr(url), began)
	end := began.Add(chaosLease - chaosLease/10).Format(clock)
	m.journal.note(addr(url), fmt.Sprintf("%s %s %s of %s, asked for at %s, and ends it at %s", m.name, how, token, owner, began.Format(clock), end))
}

func (m *mortal) Release(ctx context.Context, pool string, back []upstream.Return) error {
	if m.dead.Load() {
		return errDead
	}
	err := m.Ledger.Release(ctx, pool, back)
	for _, b := range back {
		m.journal.note("", fmt.Sprintf("%s gave back %s: %v", m.name, b.Token, err))
	}
	return err
}

func addr(url string) string { return strings.TrimPrefix(url, "http://") }
