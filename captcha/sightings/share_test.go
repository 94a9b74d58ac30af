package sightings

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/page"
)

// shelf is a store in memory, that can be away. It counts its calls.
type shelf struct {
	mu           sync.Mutex
	pages        map[string][]byte
	revision     int
	away         bool
	asked, swaps int
}

var errAway = errors.New("away")

func (s *shelf) Pages(_ context.Context, _, have string) (map[string][]byte, string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked++
	switch revision := fmt.Sprint(s.revision); {
	case s.away:
		return nil, "", errAway
	case len(s.pages) == 0:
		return nil, "", nil
	case revision == have:
		return nil, revision, nil
	default:
		all := map[string][]byte{}
		for url, p := range s.pages {
			all[url] = p
		}
		return all, revision, nil
	}
}

func (s *shelf) Swap(_ context.Context, _, url string, old, now []byte) ([]byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.swaps++
	if s.away {
		return nil, errAway
	}
	if has := s.pages[url]; !bytes.Equal(has, old) {
		return has, nil
	}
	s.revision++
	if s.pages == nil {
		s.pages = map[string][]byte{}
	}
	s.pages[url] = now
	return now, nil
}

func (s *shelf) set(away bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.away = away
}

func (s *shelf) empty() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pages = nil
}

func (s *shelf) calls() (asked, swaps int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked, s.swaps
}

func follow(t *testing.T, store Store, log *slog.Logger) *Sightings {
	s := New(store, log)
	t.Cleanup(s.Close)
	s.Follow(t.Context(), []string{"shop"})
	return s
}

func wantShown(t *testing.T, who string, s *Sightings, keys ...string) {
	t.Helper()
	if got := s.At(t.Context(), "shop", home); fmt.Sprint(got) != fmt.Sprint(shows(keys...)) {
		t.Errorf("%s knows %v, want %v", who, got, keys)
	}
}

func TestWhatOneProxySawServesTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(shelf)
		a, b := follow(t, store, nil), follow(t, store, nil)
		time.Sleep(askEvery)
		wantShown(t, "b", b)
		a.Note("shop", home, shows("k"))
		synctest.Wait()
		time.Sleep(askEvery)
		wantShown(t, "b, which asks", b, "k")
		// What changes is known a moment later, though nobody asks.
		a.Note("shop", home, shows("new"))
		time.Sleep(lookEvery)
		synctest.Wait()
		wantShown(t, "b", b, "new")
		wantShown(t, "one that starts", follow(t, store, nil), "new")
		if w, url, ok := b.Find(t.Context(), "shop", func(w page.Widget) bool { return w.SiteKey == "new" }); !ok || url != home || w.Type != captcha.RecaptchaV2 {
			t.Errorf("%v at %s", w, url)
		}
	})
}

func TestNobodyPlantsAKeyWherePagesHaveOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(shelf)
		a, b := follow(t, store, nil), follow(t, store, nil)
		a.Note("shop", home, shows("k"))
		b.Note("shop", home, shows("evil", "k")) // which has not heard of it
		time.Sleep(lookEvery)
		synctest.Wait()
		wantShown(t, "a", a, "k")
		wantShown(t, "b", b, "k")
		// Nor by what was seen while the store was away.
		c := New(store, nil)
		t.Cleanup(c.Close)
		store.set(true)
		c.Follow(t.Context(), []string{"shop"})
		c.Note("shop", home, shows("evil", "k"))
		wantShown(t, "c, alone", c, "evil", "k")
		store.set(false)
		time.Sleep(2*awayTime + lookEvery)
		synctest.Wait()
		for who, s := range map[string]*Sightings{"a": a, "b": b, "c": c} {
			wantShown(t, who, s, "k")
		}
	})
}

// A store that is away costs a form nothing, and what is known goes on. The log
// has a line when it goes, and one when it is back.
func TestAStoreThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(shelf)
		var log bytes.Buffer
		a := follow(t, store, slog.New(slog.NewTextHandler(&log, nil)))
		a.Note("shop", home, shows("k"))
		synctest.Wait()
		store.set(true)
		time.Sleep(lookEvery)
		synctest.Wait()
		before, _ := store.calls()
		for range 1000 {
			wantShown(t, "a", a, "k")
			a.At(t.Context(), "shop", "https://shop.test/other")
		}
		if after, _ := store.calls(); after != before {
			t.Errorf("the store, which is away, was asked %d times", after-before)
		}
		time.Sleep(time.Minute)
		a.Note("shop", "https://shop.test/new", shows("n"))
		store.set(false)
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		b := follow(t, store, nil)
		if got := b.At(t.Context(), "shop", "https://shop.test/new"); len(got) != 1 {
			t.Errorf("what was seen meanwhile is not shared: %v", got)
		}
		if n := strings.Count(log.String(), "\n"); n != 2 || strings.Count(log.String(), "shares again") != 1 {
			t.Errorf("the log has %d lines:\n%s", n, &log)
		}
	})
}

func TestAStoreThatLostAllIsToldAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(shelf)
		a := follow(t, store, nil)
		a.Note("shop", home, shows("k"))
		synctest.Wait()
		store.empty()
		time.Sleep(2 * lookEvery)
		synctest.Wait()
		wantShown(t, "b", follow(t, store, nil), "k")
	})
}

// Forms that come from pages without a widget, of which there may be thousands,
// don't ask the store each time; nor does a page that shows what it did.
func TestTheStoreIsRarelyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := new(shelf)
		a := follow(t, store, nil)
		for range 1000 {
			a.At(t.Context(), "shop", "https://shop.test/plain")
			a.Note("shop", home, shows("k"))
			time.Sleep(time.Millisecond)
		}
		if asked, swaps := store.calls(); asked > 6 || swaps != 1 {
			t.Errorf("in a second it was asked %d times and told %d times", asked, swaps)
		}
		time.Sleep(refreshEvery)
		a.Note("shop", home, shows("k"))
		synctest.Wait()
		if _, swaps := store.calls(); swaps != 2 {
			t.Errorf("a page that is seen again was written %d times, want it once an hour", swaps)
		}
	})
}

func TestOnlyWhatAProxyCanHaveSeenIsRead(t *testing.T) {
	good := encode([]page.Widget{{Type: captcha.RecaptchaV3, SiteKey: "k", Action: "login", Field: "f", Form: page.Form{Method: "POST", Action: home}}})
	if got, err := decode(home, good); err != nil || got[0].Form.Action != home || got[0].Action != "login" {
		t.Errorf("%+v, %v", got, err)
	}
	for _, tt := range []struct{ url, text string }{
		{home, ""}, {home, "null"}, {home, "[]"}, {home, "{}"}, {home, `[{"type":"recaptcha_v2"}]`}, {home, `[{"type":"hcaptcha","sitekey":"k"}]`},
		{home, `[{"type":"turnstile","sitekey":"}{"}]`}, {home, `[{"type":"turnstile","sitekey":"k","field":"$.["}]`},
		{"login", string(good)}, {home + "?q", string(good)}, {"https://u:p@shop.test/", string(good)},
	} {
		if got, err := decode(tt.url, []byte(tt.text)); err == nil {
			t.Errorf("%s %s is read as %+v", tt.url, tt.text, got)
		}
	}
}
