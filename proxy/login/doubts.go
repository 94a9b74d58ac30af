package login

import (
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Doubts remembers, for this process and for a time, which logged-out replies
// tell nothing of their session: those of a site that errs now and then, and
// pages that stay closed to whoever is logged in. The zero Doubts is ready.
type Doubts struct {
	mu     sync.RWMutex // guards what follows
	erred  map[session.Key]time.Time
	closed map[page]time.Time
}

type page struct {
	session.Key
	at string // host, path and query
}

const (
	doubtFor  = 10 * time.Minute
	maxDoubts = 10_000 // of each kind: clients choose sessions and URLs
	maxAt     = 1024   // bytes of a page's URL
)

// Erred says that a page was logged out, and was not when it was asked for again.
func (d *Doubts) Erred(key session.Key) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.erred = remember(d.erred, key)
}

// HasErred says whether that was seen of the session.
func (d *Doubts) HasErred(key session.Key) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return time.Since(d.erred[key]) < doubtFor
}

// Close says that a page was logged out right after logins.
func (d *Doubts) Close(key session.Key, at string) {
	if len(at) > maxAt {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = remember(d.closed, page{key, at})
}

// Closed says whether that was seen of the page.
func (d *Doubts) Closed(key session.Key, at string) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return time.Since(d.closed[page{key, at}]) < doubtFor
}

// Open says that a page was not logged out.
func (d *Doubts) Open(key session.Key, at string) {
	if !d.Closed(key, at) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.closed, page{key, at})
}

// remember puts k into seen, and forgets others where there are too many.
func remember[K comparable](seen map[K]time.Time, k K) map[K]time.Time {
	if seen == nil {
		seen = map[K]time.Time{}
	}
	if _, known := seen[k]; !known && len(seen) >= maxDoubts {
		for other := range seen {
			delete(seen, other)
			break
		}
	}
	seen[k] = time.Now()
	return seen
}
