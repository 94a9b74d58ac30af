// Package sightings remembers which widgets the pages of sites were seen to
// show, so that a form that comes from a page can be given a token for the right
// one.
//
// A page that shows the comments of its visitors may show a sitekey of one of
// them: solves for it would be paid for, and its tokens refused. So what was seen
// first on a page stays, as long as the page still shows it, and no other sitekey
// is taken beside it.
package sightings

import (
	"slices"
	"sync"

	"github.com/sessionproxy/sessionproxy/captcha/page"
)

// maxPages bounds the pages of a site that are remembered; the ones that were
// seen longest ago go first.
const maxPages = 500

// Sightings are the widgets of pages. The zero value is empty and ready, and it
// is safe for concurrent use.
type Sightings struct {
	mu    sync.Mutex
	sites map[string]*site
}

type site struct {
	pages map[string][]page.Widget
	order []string // of the pages, the last one was seen last
}

// Note remembers what a page shows now, and returns what it counts as showing.
// A page is its URL without the query. One that shows nothing says nothing: who
// is logged in may see it without its form.
func (s *Sightings) Note(siteKey, url string, found []page.Widget) []page.Widget {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sites[siteKey]
	switch {
	case at == nil && len(found) == 0:
		return nil
	case at == nil:
		at = &site{pages: map[string][]page.Widget{}}
		if s.sites == nil {
			s.sites = map[string]*site{}
		}
		s.sites[siteKey] = at
	case len(found) == 0:
		return at.pages[url]
	}
	known := at.pages[url]
	still := slices.DeleteFunc(slices.Clone(found), func(w page.Widget) bool {
		return !slices.ContainsFunc(known, func(k page.Widget) bool { return k.SiteKey == w.SiteKey })
	})
	if len(still) > 0 {
		found = still
	}
	at.pages[url] = found
	at.order = append(slices.DeleteFunc(at.order, func(p string) bool { return p == url }), url)
	if len(at.order) > maxPages {
		delete(at.pages, at.order[0])
		at.order = at.order[1:]
	}
	return found
}

// At returns what a page was last seen to show.
func (s *Sightings) At(siteKey, url string) []page.Widget {
	s.mu.Lock()
	defer s.mu.Unlock()
	if at := s.sites[siteKey]; at != nil {
		return at.pages[url]
	}
	return nil
}

// Find returns the first widget that fits, and its page: of the pages that were
// seen last first.
func (s *Sightings) Find(siteKey string, fits func(page.Widget) bool) (w page.Widget, url string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.sites[siteKey]
	if at == nil {
		return page.Widget{}, "", false
	}
	for _, url := range slices.Backward(at.order) {
		if i := slices.IndexFunc(at.pages[url], fits); i >= 0 {
			return at.pages[url][i], url, true
		}
	}
	return page.Widget{}, "", false
}
