package sightings

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"time"
)

// Times of the exchange with the store.
const (
	lookEvery = 2 * time.Second        // for what others have seen
	askEvery  = 250 * time.Millisecond // of a site, for a form that comes from a page that is not known here
	storeTime = 250 * time.Millisecond // for one call
	awayTime  = lookEvery              // after one failed, until the next
)

// New returns what the store remembers: nothing before Follow says of which
// sites. A store of nil is none. The log hears of a store that is away; nil: it
// does not.
func New(store Store, log *slog.Logger) *Sightings {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Sightings{store: store, log: log, wake: make(chan struct{}, 1), sites: map[string]*site{}}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if store != nil {
		s.ended.Go(func() { s.run(ctx) })
	}
	return s
}

// Close writes what is not written yet.
func (s *Sightings) Close() {
	s.stop()
	s.ended.Wait()
}

// Follow says of which sites something is to be remembered, and forgets the
// others. What the store has of new ones is there when it returns, unless the
// store is away.
func (s *Sightings) Follow(ctx context.Context, siteKeys []string) {
	s.mu.Lock()
	for key := range s.sites {
		if !slices.Contains(siteKeys, key) {
			delete(s.sites, key)
		}
	}
	for _, key := range siteKeys {
		if s.sites[key] == nil {
			s.sites[key] = &site{pages: map[string]*sighting{}}
		}
	}
	s.mu.Unlock()
	for key, at := range s.all() {
		s.ask(ctx, key, at)
	}
}

func (s *Sightings) all() map[string]*site {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[string]*site, len(s.sites))
	for key, at := range s.sites {
		all[key] = at
	}
	return all
}

func (s *Sightings) wakeUp() {
	select {
	case s.wake <- struct{}{}:
	default: // it is awake
	}
}

// run writes what was seen here, and reads what others saw.
func (s *Sightings) run(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.wake:
			s.save(ctx)
		case <-tick.C:
			s.save(ctx)
			for key, at := range s.all() {
				at.asking.Lock()
				s.load(ctx, key, at)
				at.asking.Unlock()
			}
		case <-ctx.Done():
			s.save(context.WithoutCancel(ctx))
			return
		}
	}
}

// ask asks the store about a site, unless it was asked a moment ago, and says
// whether what is known may have changed. Whoever comes meanwhile waits for the
// answer.
func (s *Sightings) ask(ctx context.Context, key string, at *site) bool {
	if s.store == nil {
		return false
	}
	came := time.Now()
	at.asking.Lock()
	defer at.asking.Unlock()
	s.mu.Lock()
	asked := at.asked
	s.mu.Unlock()
	if asked.After(came) {
		return true
	}
	if time.Since(asked) < askEvery {
		return false
	}
	return s.load(ctx, key, at)
}

// load reads a site's pages, where they have changed. The site's asking is held.
func (s *Sightings) load(ctx context.Context, key string, at *site) bool {
	s.mu.Lock()
	have, away := at.revision, s.isAway()
	s.mu.Unlock()
	if away {
		return false
	}
	bound, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	pages, revision, err := s.store.Pages(bound, key, have)
	s.mu.Lock()
	defer s.mu.Unlock()
	at.asked = time.Now()
	if s.heard(ctx, err); err != nil || revision == have && revision != "" {
		return false
	}
	at.revision = revision
	for url, p := range at.pages {
		switch _, there := pages[url]; {
		case there:
		case revision == "": // the store has lost all that it knew
			p.kept, p.unsaved = nil, true
			s.wakeUp()
		case !p.unsaved:
			delete(at.pages, url)
		}
	}
	for url, kept := range pages {
		widgets, err := decode(url, kept)
		if err != nil {
			continue
		}
		p := at.pages[url]
		if p == nil {
			p = new(sighting)
			at.add(url, p)
		}
		if p.kept = kept; p.unsaved {
			p.widgets = merge(widgets, p.widgets)
		} else {
			p.widgets, p.written = widgets, time.Now()
		}
	}
	return true
}

// save writes what is not written.
func (s *Sightings) save(ctx context.Context) {
	for key, at := range s.all() {
		s.mu.Lock()
		var urls []string
		for url, p := range at.pages {
			if p.unsaved {
				urls = append(urls, url)
			}
		}
		s.mu.Unlock()
		for _, url := range urls {
			if !s.saveOne(ctx, key, at, url) {
				return
			}
		}
	}
}

// saveOne writes what a page shows, and gives way to what others saw there
// first. It returns false where the store is away.
func (s *Sightings) saveOne(ctx context.Context, key string, at *site, url string) bool {
	for {
		s.mu.Lock()
		p := at.pages[url]
		if p == nil || s.isAway() {
			defer s.mu.Unlock()
			return p == nil
		}
		if known, err := decode(url, p.kept); err == nil {
			p.widgets = merge(known, p.widgets)
		}
		old, now := p.kept, encode(p.widgets)
		s.mu.Unlock()

		bound, cancel := context.WithTimeout(ctx, storeTime)
		has, err := s.store.Swap(bound, key, url, old, now)
		cancel()

		s.mu.Lock()
		s.heard(ctx, err)
		if err == nil {
			p.kept = has
			p.unsaved = !bytes.Equal(has, encode(p.widgets)) // it may have been seen anew meanwhile
			p.written = time.Now()
		}
		again := p.unsaved
		s.mu.Unlock()
		if err != nil || !again {
			return err == nil
		}
	}
}

// isAway says whether the store is not to be asked now. It is called with mu
// held.
func (s *Sightings) isAway() bool { return time.Now().Before(s.away) }

// heard notes whether the store answered: a line when it goes, and one when it
// is back. It is called with mu held.
func (s *Sightings) heard(ctx context.Context, err error) {
	switch {
	case err == nil && !s.away.IsZero():
		s.away = time.Time{}
		s.log.Info("the store shares again which captchas pages show")
	case err != nil && ctx.Err() == nil:
		if s.away.IsZero() {
			s.log.Warn("the store does not say which captchas pages show; the proxy goes on with what it knows", "err", err)
		}
		s.away = time.Now().Add(awayTime)
	}
}
