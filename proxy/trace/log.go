package trace

import (
	"context"
	"sync"

	"github.com/sessionproxy/sessionproxy/session"
)

// Kept is how many records a Log keeps: the last ones.
const Kept = 1000

// maxHeld bounds the bytes that the records of a log keep from being freed: jars
// that have been replaced, and clients' own cookies. A usual session has some KiB,
// but a site that changes a full one with each reply has 700 KiB.
const maxHeld = 32 << 20

// maxFollowers bounds those who follow a log at once.
const maxFollowers = 64

// Loader gives the present jar of a session: a [session.Store].
type Loader interface {
	Load(ctx context.Context, key session.Key) (*session.Jar, error)
}

// Log keeps the last records. It is safe for concurrent use. Make it with New.
type Log struct {
	jars Loader

	mu        sync.Mutex // guards what follows
	ring      []Record   // the record n stands at (n-1) % Kept
	last      uint64     // the number of the latest; 0: there is none yet
	held      int        // bytes, by all records
	released  uint64     // the number of the last record that had to let go
	followers map[*Follower]struct{}
}

// New returns an empty log. What it tells of a cookie it compares with the
// session's present jar, which it asks jars for.
func New(jars Loader) *Log {
	return &Log{jars: jars, followers: map[*Follower]struct{}{}}
}

// Add keeps a copy of r. It waits for nobody.
func (l *Log) Add(r *Record) {
	r.clip()
	l.mu.Lock()
	defer l.mu.Unlock()
	before := &Record{}
	if l.last > 0 {
		before = l.at(l.last)
	}
	r.held = r.holds(before)
	l.last++
	r.number = l.last
	if len(l.ring) < Kept {
		l.ring = append(l.ring, *r)
	} else {
		oldest := l.at(l.last)
		l.held -= oldest.held
		*oldest = *r
	}
	for l.held += r.held; l.held > maxHeld; {
		l.release()
	}
	for f := range l.followers {
		f.rouse()
	}
}

// release has the oldest record that holds anything let go of it.
func (l *Log) release() {
	l.released++
	if l.last > Kept {
		l.released = max(l.released, l.last-Kept+1)
	}
	r := l.at(l.released)
	l.held -= r.held
	r.release()
}

func (l *Log) at(number uint64) *Record { return &l.ring[(number-1)%Kept] }

// Last returns up to n exchanges that fit, the latest first.
func (l *Log) Last(ctx context.Context, f Filter, n int) []Exchange {
	return l.tell(ctx, l.find(f.fits, n))
}

// Find returns the exchange of an ID.
func (l *Log) Find(ctx context.Context, id string) (Exchange, bool) {
	found := l.tell(ctx, l.find(func(r *Record) bool { return r.ID == id }, 1))
	if len(found) == 0 {
		return Exchange{}, false
	}
	return found[0], true
}

// find returns up to n records that fit, the latest first. Of a tunnel that has
// ended its opening is left out.
func (l *Log) find(fits func(*Record) bool, n int) []Record {
	l.mu.Lock()
	defer l.mu.Unlock()
	var found []Record
	ended := map[string]bool{}
	for number := l.last; number > 0 && l.last-number < Kept && len(found) < n; number-- {
		r := l.at(number)
		if r.Opened {
			ended[r.ID] = true
		}
		if !fits(r) || r.Outcome == Open && ended[r.ID] {
			continue
		}
		found = append(found, *r)
	}
	return found
}

// tell puts records into words.
func (l *Log) tell(ctx context.Context, records []Record) []Exchange {
	all := make([]Exchange, len(records))
	for i := range records {
		all[i] = records[i].tell(l.now(ctx, &records[i]))
	}
	return all
}

// now is the present jar of a record's session; nil where it can't be told.
func (l *Log) now(ctx context.Context, r *Record) *session.Jar {
	if r.Session == "" {
		return nil
	}
	jar, err := l.jars.Load(ctx, r.Key)
	if err != nil {
		return nil
	}
	return jar
}
