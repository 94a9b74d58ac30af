package session

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// manyCookies is a jar of n cookies that all go to https://www.shop.test/cart/1.
func manyCookies(tb testing.TB, n int) *Jar {
	jar := new(Jar)
	for i := range n {
		jar = jar.reply(tb, "https://www.shop.test/cart/",
			fmt.Sprintf("cookie_%d=%s; Domain=shop.test; Path=/; Secure; HttpOnly; Max-Age=3600", i, strings.Repeat("v", 24)))
	}
	return jar
}

func benchmarkMerge(b *testing.B, n int, client []string) {
	jar := manyCookies(b, n)
	r := request(b, "https://www.shop.test/cart/1")
	b.ReportAllocs()
	for b.Loop() {
		if m := Merge(client, r, jar, nil, sharing); m.Injected != n {
			b.Fatalf("injected %d cookies, want %d", m.Injected, n)
		}
	}
}

func BenchmarkMerge5(b *testing.B)   { benchmarkMerge(b, 5, nil) }
func BenchmarkMerge100(b *testing.B) { benchmarkMerge(b, 100, nil) }

// A browser that already holds what the jar holds, among its own.
func BenchmarkMergeUnchanged5(b *testing.B) {
	jar := manyCookies(b, 5)
	r := request(b, "https://www.shop.test/cart/1")
	benchmarkMerge(b, 5, []string{"theme=dark; " + Merge(nil, r, jar, nil, sharing).Header + "; lang=en"})
}

// A scraper with stale copies of all of them.
func BenchmarkMergeReplace100(b *testing.B) {
	var stale []string
	for i := range 100 {
		stale = append(stale, fmt.Sprintf("cookie_%d=stale", i))
	}
	benchmarkMerge(b, 100, []string{strings.Join(stale, "; ")})
}

func BenchmarkParseSetCookie(b *testing.B) {
	const line = "sid=0123456789abcdef0123456789abcdef; Domain=shop.test; Path=/; Expires=Wed, 02 Dec 2026 12:00:00 GMT; HttpOnly; Secure; SameSite=Lax"
	s := setting(b, "https://www.shop.test/login")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseSetCookie(line, s, noon); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkApplyUnchanged(b *testing.B) {
	jar := manyCookies(b, 20)
	u := Update{Base: jar.Version(), Cookies: mustParse(b, "https://www.shop.test/", noon.Add(time.Minute),
		"cookie_7="+strings.Repeat("v", 24)+"; Domain=shop.test; Path=/; Secure; HttpOnly; Max-Age=3600")}
	b.ReportAllocs()
	for b.Loop() {
		if next, _ := jar.Apply(u, at(time.Minute)); next != jar {
			b.Fatal("changed")
		}
	}
}

func BenchmarkApplyChanged(b *testing.B) {
	jar := manyCookies(b, 20)
	u := Update{Base: jar.Version(), Cookies: mustParse(b, "https://www.shop.test/", noon, "cookie_7=new; Domain=shop.test; Path=/; Secure")}
	b.ReportAllocs()
	for b.Loop() {
		if next, _ := jar.Apply(u, at(0)); next == jar {
			b.Fatal("unchanged")
		}
	}
}

func BenchmarkUnmarshal20(b *testing.B) {
	raw, err := manyCookies(b, 20).MarshalBinary()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := new(Jar).UnmarshalBinary(raw); err != nil {
			b.Fatal(err)
		}
	}
}
