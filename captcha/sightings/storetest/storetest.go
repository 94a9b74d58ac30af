// Package storetest is the contract of sightings.Store as one suite of tests,
// which each store runs on itself.
package storetest

import (
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/captcha/sightings"
)

// Run runs the suite. The harness makes an empty store for each case.
func Run(t *testing.T, open func(t *testing.T) sightings.Store) {
	for _, c := range []struct {
		name string
		f    func(t *testing.T, s sightings.Store)
	}{
		{"a store that is new has none", isEmpty},
		{"a page is there, of its site alone", isThere},
		{"who comes second is told what is there", second},
		{"a page that is seen again stays, the oldest makes room", full},
		{"two who come at once see one page", atOnce},
	} {
		t.Run(c.name, func(t *testing.T) { c.f(t, open(t)) })
	}
}

const login = "https://shop.test/login"

func swap(t *testing.T, s sightings.Store, site, url, old, now string) string {
	t.Helper()
	has, err := s.Swap(t.Context(), site, url, bytesOf(old), []byte(now))
	if err != nil {
		t.Fatal(err)
	}
	return string(has)
}

func bytesOf(s string) []byte {
	if s == "" {
		return nil
	}
	return []byte(s)
}

func pages(t *testing.T, s sightings.Store, site, have string) (map[string][]byte, string) {
	t.Helper()
	got, revision, err := s.Pages(t.Context(), site, have)
	if err != nil {
		t.Fatal(err)
	}
	return got, revision
}

func isEmpty(t *testing.T, s sightings.Store) {
	for range 2 {
		if got, revision := pages(t, s, "shop.test", ""); len(got) > 0 || revision != "" {
			t.Errorf("%q at revision %q", got, revision)
		}
	}
}

func isThere(t *testing.T, s sightings.Store) {
	if has := swap(t, s, "shop.test", login, "", "a"); has != "a" {
		t.Errorf("it has %q", has)
	}
	swap(t, s, "[::1]:8443", login, "", "b")
	swap(t, s, "shop.test", "https://shop.test/é?", "", "c\x00")
	got, revision := pages(t, s, "shop.test", "")
	if len(got) != 2 || string(got[login]) != "a" || string(got["https://shop.test/é?"]) != "c\x00" || revision == "" {
		t.Errorf("%q at revision %q", got, revision)
	}
	if got, again := pages(t, s, "shop.test", revision); len(got) > 0 || again != revision {
		t.Errorf("%q at revision %q, which was known: %q", got, again, revision)
	}
	if got, _ := pages(t, s, "[::1]:8443", ""); len(got) != 1 {
		t.Errorf("another site has %q", got)
	}
}

func second(t *testing.T, s sightings.Store) {
	swap(t, s, "shop.test", login, "", "a")
	if has := swap(t, s, "shop.test", login, "", "evil"); has != "a" {
		t.Errorf("it has %q", has)
	}
	if has := swap(t, s, "shop.test", login, "a", "b"); has != "b" {
		t.Errorf("it has %q", has)
	}
	if has := swap(t, s, "shop.test", login, "a", "c"); has != "b" {
		t.Errorf("it has %q", has)
	}
	if has := swap(t, s, "shop.test", "https://shop.test/none", "a", "c"); has != "" {
		t.Errorf("a page that was forgotten is %q", has)
	}
	if got, _ := pages(t, s, "shop.test", ""); len(got) != 1 || string(got[login]) != "b" {
		t.Errorf("%q", got)
	}
}

func full(t *testing.T, s sightings.Store) {
	for i := range sightings.MaxPages + 2 {
		swap(t, s, "shop.test", fmt.Sprint("https://shop.test/", i), "", "x")
	}
	got, _ := pages(t, s, "shop.test", "")
	if len(got) != sightings.MaxPages {
		t.Errorf("%d pages, want %d", len(got), sightings.MaxPages)
	}
	if got[fmt.Sprint("https://shop.test/", sightings.MaxPages+1)] == nil {
		t.Error("the last one made room")
	}
}

func atOnce(t *testing.T, s sightings.Store) {
	const many = 8
	has := make(chan string, many)
	for i := range many {
		go func() {
			b, err := s.Swap(t.Context(), "shop.test", login, nil, fmt.Append(nil, i))
			if err != nil {
				t.Error(err)
			}
			has <- string(b)
		}()
	}
	first := <-has
	for range many - 1 {
		if next := <-has; next != first {
			t.Errorf("one is told of %q, another of %q", first, next)
		}
	}
}
