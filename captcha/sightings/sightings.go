// Package sightings remembers which widgets the pages of sites were seen to
// show, so that a form that comes from a page can be given a token for the right
// one.
//
// A page that shows the comments of its visitors may show a sitekey of one of
// them: solves for it would be paid for, and its tokens refused. So what was seen
// first on a page stays, as long as the page still shows it, and no other sitekey
// is taken beside it.
//
// What is remembered is in memory, where requests find it. A [Store] shares it
// with other proxies and keeps it for the next start: package redisstore is
// that of many machines, filestore that of one, and storetest their contract.
package sightings

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha/page"
)

// Sightings are the widgets of pages. It is safe for concurrent use. Make it
// with New.
type Sightings struct {
	store Store // nil: nobody shares it
	log   *slog.Logger
	wake  chan struct{}
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu    sync.Mutex // guards what follows, and each site
	sites map[string]*site
	away  time.Time // until when the store is taken to be away; zero: it is there
}

// site is what is known of one site.
type site struct {
	pages    map[string]*sighting // by URL without the query
	revision string               // of the store that they are from
	asked    time.Time            // when the store was asked last
	asking   sync.Mutex           // held while it is; taken before the Sightings' mu
}

// sighting is what one page shows.
type sighting struct {
	widgets []page.Widget
	seen    time.Time // here; zero where others saw it
	kept    []byte    // as the store has it; nil: it has not
	written time.Time
	unsaved bool
}

// refreshEvery is how often a page that shows what it did is written anew, so
// that it is not forgotten.
const refreshEvery = time.Hour

// Note remembers what a page shows now, and returns what it counts as showing.
// A page is its URL without the query. One that shows nothing says nothing: who
// is logged in may see it without its form.
func (s *Sightings) Note(siteKey, url string, found []page.Widget) []page.Widget {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sites[siteKey]
	if len(found) == 0 {
		if at == nil || at.pages[url] == nil {
			return nil
		}
		return at.pages[url].widgets
	}
	if at == nil {
		at = &site{pages: map[string]*sighting{}}
		s.sites[siteKey] = at
	}
	p := at.pages[url]
	if p == nil {
		p = new(sighting)
		at.add(url, p)
	}
	now := time.Now()
	widgets := merge(p.widgets, found)
	if s.store != nil && (!slices.Equal(widgets, p.widgets) || now.Sub(p.written) > refreshEvery) {
		p.unsaved = true
		s.wakeUp()
	}
	p.widgets, p.seen = widgets, now
	return widgets
}

// merge is what a page counts as showing that was known to show the one, and
// now shows the other.
func merge(known, found []page.Widget) []page.Widget {
	still := slices.DeleteFunc(slices.Clone(found), func(w page.Widget) bool {
		return !slices.ContainsFunc(known, func(k page.Widget) bool { return k.SiteKey == w.SiteKey })
	})
	if len(still) > 0 {
		return still
	}
	return found
}

// add remembers one more page. The one that was seen longest ago makes room.
func (at *site) add(url string, p *sighting) {
	if len(at.pages) >= MaxPages {
		first := ""
		for u, p := range at.pages {
			if first == "" || older(u, p, first, at.pages[first]) < 0 {
				first = u
			}
		}
		delete(at.pages, first)
	}
	at.pages[url] = p
}

// older compares two pages by when they were seen.
func older(aURL string, a *sighting, bURL string, b *sighting) int {
	return cmp.Or(a.seen.Compare(b.seen), strings.Compare(bURL, aURL))
}

// At returns what a page was last seen to show. Where it is not known here the
// store may be asked, which it is rarely, and within ctx.
func (s *Sightings) At(ctx context.Context, siteKey, url string) (widgets []page.Widget) {
	s.find(ctx, siteKey, func(at *site) bool {
		if p := at.pages[url]; p != nil {
			widgets = p.widgets
		}
		return widgets != nil
	})
	return widgets
}

// Find returns the first widget that fits, and its page: of the pages that were
// seen last first. The store may be asked, as by At.
func (s *Sightings) Find(ctx context.Context, siteKey string, fits func(page.Widget) bool) (w page.Widget, url string, ok bool) {
	s.find(ctx, siteKey, func(at *site) bool {
		for u, p := range at.pages {
			if i := slices.IndexFunc(p.widgets, fits); i >= 0 && (!ok || older(url, at.pages[url], u, p) < 0) {
				w, url, ok = p.widgets[i], u, true
			}
		}
		return ok
	})
	return w, url, ok
}

// find looks at what is known of a site, and once more where the store knows
// more.
func (s *Sightings) find(ctx context.Context, siteKey string, look func(*site) bool) {
	s.mu.Lock()
	at := s.sites[siteKey]
	found := at != nil && look(at)
	s.mu.Unlock()
	if found || at == nil || !s.ask(ctx, siteKey, at) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	look(at)
}

// Page is what one page shows.
type Page struct {
	URL     string // without the query
	Widgets []page.Widget
}

// All returns all that is known of a site, by URL.
func (s *Sightings) All(siteKey string) []Page {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sites[siteKey]
	if at == nil {
		return nil
	}
	all := make([]Page, 0, len(at.pages))
	for url, p := range at.pages {
		all = append(all, Page{url, p.widgets})
	}
	slices.SortFunc(all, func(a, b Page) int { return strings.Compare(a.URL, b.URL) })
	return all
}
