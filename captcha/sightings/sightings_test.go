package sightings

import (
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/captcha/page"
)

func shows(keys ...string) (all []page.Widget) {
	for _, k := range keys {
		all = append(all, page.Widget{SiteKey: k})
	}
	return all
}

func TestWhatAPageShowedFirstStays(t *testing.T) {
	for _, tt := range []struct {
		name      string
		seen      [][]page.Widget
		remembers []page.Widget
	}{
		{"nothing", [][]page.Widget{shows()}, nil},
		{"one widget", [][]page.Widget{shows("a")}, shows("a")},
		{"two widgets at once", [][]page.Widget{shows("a", "b")}, shows("a", "b")},
		{"a visitor's, after the page's own", [][]page.Widget{shows("a"), shows("evil", "a")}, shows("a")},
		{"another, when the old one is gone", [][]page.Widget{shows("a"), shows("b")}, shows("b")},
		{"one of two that is still there", [][]page.Widget{shows("a", "b"), shows("b", "evil")}, shows("b")},
		{"none for a while, as for who is logged in", [][]page.Widget{shows("a"), shows(), shows("evil", "a")}, shows("a")},
	} {
		var s Sightings
		for _, found := range tt.seen {
			s.Note("shop", "https://shop.test/", found)
		}
		if got := s.At("shop", "https://shop.test/"); fmt.Sprint(got) != fmt.Sprint(tt.remembers) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.remembers)
		}
		if got := s.At("other", "https://shop.test/"); got != nil {
			t.Errorf("%s: another site has %v", tt.name, got)
		}
	}
}

func TestOnlySoManyPagesAreRemembered(t *testing.T) {
	var s Sightings
	for i := range maxPages + 1 {
		s.Note("shop", fmt.Sprint(i), shows(fmt.Sprint(i)))
		s.Note("shop", "0", shows("0"))
	}
	if s.At("shop", "0") == nil || s.At("shop", "1") != nil || len(s.sites["shop"].pages) != maxPages {
		t.Errorf("%d pages, want the %d that were seen last", len(s.sites["shop"].pages), maxPages)
	}
	all := func(page.Widget) bool { return true }
	if w, url, ok := s.Find("shop", all); !ok || url != "0" || w.SiteKey != "0" {
		t.Errorf("found %v on %s, want the one that was seen last", w, url)
	}
}
