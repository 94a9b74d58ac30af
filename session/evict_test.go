package session

import (
	"fmt"
	"testing"
	"time"
)

// filled is a jar of n cookies of https://www.shop.test, set one after the other.
func filled(t *testing.T, n int, attributes string) *Jar {
	t.Helper()
	jar := new(Jar)
	for i := range n {
		jar, _ = jar.Apply(Update{Base: Latest, Cookies: mustParse(t, "https://www.shop.test/", noon, fmt.Sprintf("c%d=1%s", i, attributes))}, at(0))
	}
	return jar
}

func (j *Jar) holds(name string) bool {
	_, ok := j.first[name]
	return ok
}

func TestLimitOfASite(t *testing.T) {
	t.Parallel()
	jar := filled(t, maxPerSite, "; Secure")
	if len(jar.Cookies()) != maxPerSite {
		t.Fatalf("%d cookies, want %d", len(jar.Cookies()), maxPerSite)
	}

	t.Run("the least recently used goes", func(t *testing.T) {
		jar := jar.reply(t, "https://www.shop.test/", "c0=2; Secure").reply(t, "https://www.shop.test/", "new=1; Secure")
		if !jar.holds("c0") || jar.holds("c1") || !jar.holds("new") || len(jar.Cookies()) != maxPerSite {
			t.Errorf("c0 %t, c1 %t, new %t of %d cookies: want c1 gone", jar.holds("c0"), jar.holds("c1"), jar.holds("new"), len(jar.Cookies()))
		}
	})
	t.Run("subdomains and domain cookies share the limit", func(t *testing.T) {
		jar := jar.reply(t, "https://api.shop.test/", "new=1; Secure; Domain=shop.test")
		if jar.holds("c0") || !jar.holds("new") {
			t.Errorf("c0 %t, new %t: want c0 gone", jar.holds("c0"), jar.holds("new"))
		}
	})
	t.Run("another site has its own", func(t *testing.T) {
		jar := jar.reply(t, "https://shop.example/", "new=1; Secure")
		if !jar.holds("c0") || !jar.holds("new") {
			t.Errorf("c0 %t, new %t: want both", jar.holds("c0"), jar.holds("new"))
		}
	})
	t.Run("an insecure cookie pushes no secure one out", func(t *testing.T) {
		jar, got := jar.Apply(Update{Base: Latest, Cookies: mustParse(t, "http://www.shop.test/", noon, "new=1")}, at(0))
		if got[0] != Evicted || jar.holds("new") || !jar.holds("c0") {
			t.Errorf("outcome %d, new %t, c0 %t: want new evicted", got[0], jar.holds("new"), jar.holds("c0"))
		}
	})
	t.Run("expired ones go first", func(t *testing.T) {
		jar := filled(t, maxPerSite-1, "; Secure").reply(t, "https://www.shop.test/", "brief=1; Secure; Max-Age=1")
		jar, _ = jar.Apply(Update{Base: Latest, Cookies: mustParse(t, "https://www.shop.test/", noon, "new=1; Secure")}, at(time.Minute))
		if jar.holds("brief") || !jar.holds("c0") || !jar.holds("new") {
			t.Errorf("brief %t, c0 %t, new %t: want brief gone", jar.holds("brief"), jar.holds("c0"), jar.holds("new"))
		}
	})
}

func TestLimitOfAJar(t *testing.T) {
	t.Parallel()
	u := Update{Base: Latest}
	for i := range maxCookies + 1 {
		u.Cookies = append(u.Cookies, Cookie{Name: "a", Value: "1", Domain: fmt.Sprintf("shop%d.test", i), Path: "/"})
	}
	jar, outcomes := new(Jar).Apply(u, at(0))
	if len(jar.Cookies()) != maxCookies || outcomes[0] != Evicted || outcomes[1] != Changed {
		t.Errorf("%d cookies, outcomes %d, %d; want %d and the first evicted", len(jar.Cookies()), outcomes[0], outcomes[1], maxCookies)
	}
}

func TestMarksAreBounded(t *testing.T) {
	t.Parallel()
	u := Update{Base: Latest}
	for i := range maxMarks + 10 {
		u.Cookies = append(u.Cookies, mustParse(t, shop, noon, fmt.Sprintf("c%d=1", i), fmt.Sprintf("c%d=; Max-Age=0", i))...)
	}
	jar, _ := new(Jar).Apply(u, at(0))
	if len(jar.marks) != maxMarks || jar.marks[0].Name != "c10" {
		t.Errorf("%d marks from %s, want the last %d", len(jar.marks), jar.marks[0].Name, maxMarks)
	}
	if jar = filled(t, 100, "").Clear(at(0)); len(jar.marks) != 100 {
		t.Errorf("%d marks after a clear of 100 cookies", len(jar.marks))
	}
}

// Fit and a jar agree on what has no room.
func TestFit(t *testing.T) {
	var cookies []Cookie
	for i := range maxCookies / 60 {
		for n := range 100 + i*3 {
			cookies = append(cookies, Cookie{Name: fmt.Sprint(n), Value: "1", Domain: fmt.Sprintf("%d.a%d.test", n%2, i), Path: "/", HostOnly: true, Secure: n%3 == 0})
		}
	}
	jar, outcomes := new(Jar).Apply(Update{Base: Latest, Cookies: cookies}, at(0))
	kept := 0
	for i, fits := range Fit(cookies) {
		if fits {
			kept++
		}
		if fits != (outcomes[i] == Changed) {
			t.Fatalf("%s of %s: fits %t, outcome %d", cookies[i].Name, cookies[i].Domain, fits, outcomes[i])
		}
	}
	if kept != len(jar.Cookies()) || kept != maxCookies {
		t.Errorf("%d fit, the jar has %d of %d", kept, len(jar.Cookies()), len(cookies))
	}
}
