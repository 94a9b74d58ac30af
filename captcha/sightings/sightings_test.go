package sightings

import (
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/page"
)

const home = "https://shop.test/"

func shows(keys ...string) (all []page.Widget) {
	for _, k := range keys {
		all = append(all, page.Widget{Type: captcha.RecaptchaV2, SiteKey: k})
	}
	return all
}

func newAlone(t *testing.T) *Sightings {
	s := New(nil, nil)
	t.Cleanup(s.Close)
	return s
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
		s := newAlone(t)
		for _, found := range tt.seen {
			s.Note("shop", home, found)
		}
		if got := s.At(t.Context(), "shop", home); fmt.Sprint(got) != fmt.Sprint(tt.remembers) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.remembers)
		}
		if got := s.At(t.Context(), "other", home); got != nil {
			t.Errorf("%s: another site has %v", tt.name, got)
		}
	}
}

func TestOnlySoManyPagesAreRemembered(t *testing.T) {
	s := newAlone(t)
	for i := range MaxPages + 1 {
		s.Note("shop", fmt.Sprint(i), shows(fmt.Sprint(i)))
		s.Note("shop", "0", shows("0"))
	}
	if s.At(t.Context(), "shop", "0") == nil || s.At(t.Context(), "shop", "1") != nil || len(s.All("shop")) != MaxPages {
		t.Errorf("%d pages, want the %d that were seen last", len(s.All("shop")), MaxPages)
	}
	all := func(page.Widget) bool { return true }
	if w, url, ok := s.Find(t.Context(), "shop", all); !ok || url != "0" || w.SiteKey != "0" {
		t.Errorf("found %v on %s, want the one that was seen last", w, url)
	}
}
