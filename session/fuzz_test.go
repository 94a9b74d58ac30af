package session

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// What is stored, written as a Set-Cookie line and read again, is the same; so
// is a Cookie header that comes back from a client.
func FuzzParseSetCookie(f *testing.F) {
	for _, line := range []string{
		"sid=1; Path=/; Secure; HttpOnly; SameSite=Lax", "a=1; Domain=shop.test; Max-Age=60", "nameless",
		"=x", "__Host-a=1; Secure; Path=/", "a=\"q\"; Expires=Wed, 02 Dec 2026 12:00:00 GMT; Priority=High",
		"a=1; SameSite=None; Secure; Partitioned", "a=1; Domain=.www.shop.test; Max-Age=-1", "\ta = b \t;\tPath\t=\t/x",
	} {
		f.Add(line)
	}
	s := Setting{Host: "www.shop.test", Path: "/app/page", Secure: true}
	f.Fuzz(func(t *testing.T, line string) {
		c, err := ParseSetCookie(line, s, noon)
		if err != nil {
			return
		}
		if err := c.Check(); err != nil {
			t.Errorf("%q: stored, though %v", line, err)
		}
		again, err := ParseSetCookie(setCookie(&c), s, noon)
		if err != nil || again != c {
			t.Errorf("%q was read as\n%+v, written as %q and then read as\n%+v, %v", line, c, setCookie(&c), again, err)
		}
		jar, _ := new(Jar).Apply(Update{Base: Latest, Cookies: []Cookie{c}}, at(0))
		r := Request{Host: c.Domain, Path: c.Path, Secure: true, Now: noon}
		header := Merge(nil, r, jar, nil, sharing).Header
		if back := Merge([]string{header}, r, jar, nil, sharing); header != "" && back.Header != header {
			t.Errorf("%q was sent as %q, and that as %q", line, header, back.Header)
		}
	})
}

// setCookie writes a line that sets c.
func setCookie(c *Cookie) string {
	var b strings.Builder
	if c.Name != "" {
		b.WriteString(c.Name + "=")
	}
	b.WriteString(c.Value + "; Path=" + c.Path)
	if !c.HostOnly {
		b.WriteString("; Domain=" + c.Domain)
	}
	for set, name := range map[*bool]string{&c.Secure: "Secure", &c.HTTPOnly: "HttpOnly", &c.Partitioned: "Partitioned"} {
		if *set {
			b.WriteString("; " + name)
		}
	}
	b.WriteString([]string{"", "; SameSite=None", "; SameSite=Lax", "; SameSite=Strict"}[c.SameSite])
	if c.Priority != "" {
		b.WriteString("; Priority=" + c.Priority)
	}
	if !c.Expires.IsZero() {
		b.WriteString("; Expires=" + c.Expires.Format(time.RFC1123))
	}
	return b.String()
}

// Whatever one site sets, no unrelated site ever receives.
func FuzzJar(f *testing.F) {
	for _, host := range []string{"www.shop.test", "shop.co.uk", "10.0.0.1", "::1", "localhost", "alice.github.io", "github.io", "shop.test.", "bücher.example", "co.uk"} {
		for _, domain := range []string{"", "shop.test", "co.uk", ".github.io", "0.0.1", "test", ".", "github.io", "xn--bcher-kva.example"} {
			f.Add(host, "sid=1; Path=/; Domain="+domain, "/")
		}
	}
	victims := []string{
		"www.shop.test", "shop.test", "evil.test", "bank.co.uk", "shop.co.uk", "co.uk", "10.0.0.1", "10.0.0.2", "0.0.1", "::1", "::2",
		"localhost", "intranet", "bob.github.io", "github.io", "alice.github.io", "shop.test.", "xn--bcher-kva.example", "test", "example.",
	}
	f.Fuzz(func(t *testing.T, host, line, path string) {
		host, ok := CanonicalHost(host)
		if !ok {
			return
		}
		c, err := ParseSetCookie(line, Setting{Host: host, Path: path, Secure: true}, noon)
		if err != nil {
			return
		}
		c.Expires = time.Time{}
		jar, _ := new(Jar).Apply(Update{Base: Latest, Cookies: []Cookie{c}}, at(0))
		for _, victim := range victims {
			got := Merge(nil, Request{Host: victim, Path: c.Path, Secure: true, Now: noon}, jar, nil, sharing).Header
			if got != "" && !SameSiteHosts(victim, host) {
				t.Errorf("%q, set by %s, goes to %s", line, host, victim)
			}
			if got != "" && c.HostOnly && victim != host {
				t.Errorf("%q, set by %s for itself alone, goes to %s", line, host, victim)
			}
		}
	})
}

// The client's cookies that no jar knows leave as they came, and nothing else
// changes their order.
func FuzzMerge(f *testing.F) {
	for _, line := range []string{"a=1; b=2", "sid=0;sid=1;a=\"x;y\"", ";;; a ;=b; sid", " lang = de ;x", "sid=1;lang=en", ""} {
		f.Add(line, uint8(0))
	}
	jar := new(Jar).reply(f, shop, "sid=1", "lang=en", "nameless")
	f.Fuzz(func(t *testing.T, line string, whose uint8) {
		r := request(t, shop)
		r.Whose = Whose(whose % 3)
		if got := Merge([]string{line}, r, nil, nil, sharing).Header; got != line {
			t.Errorf("without a jar: %q became %q", line, got)
		}
		m := Merge([]string{line}, r, jar, nil, sharing)
		others := func(header string) []string {
			var pairs []string
			for pair := range strings.SplitSeq(header, ";") {
				if pair = trimSpace(pair); pair != "" && !jar.holds(pairName(pair)) {
					pairs = append(pairs, pair)
				}
			}
			return pairs
		}
		if got, want := others(m.Header), others(line); !slices.Equal(got, want) {
			t.Errorf("%q became %q: the client's own are %q, want %q", line, m.Header, got, want)
		}
		if again := Merge([]string{m.Header}, r, jar, nil, sharing).Header; m.Header != "" && again != m.Header {
			t.Errorf("%q became %q, and that %q", line, m.Header, again)
		}
		for name, fresh := range map[string]string{"sid": "sid=1", "lang": "lang=en", "": "nameless"} {
			for pair := range strings.SplitSeq(m.Header, ";") {
				if pair = trimSpace(pair); pair != "" && pairName(pair) == name && pair != fresh {
					t.Errorf("%q became %q: stale %q", line, m.Header, pair)
				}
			}
		}
	})
}

// No bytes are a danger, and those of a jar are read as that jar.
func FuzzUnmarshalBinary(f *testing.F) {
	jar := new(Jar).reply(f, shop, "sid=1; Secure; Max-Age=60", "a=1; Domain=shop.test", "gone=1").reply(f, shop, "gone=; Max-Age=0")
	for _, j := range []*Jar{new(Jar), jar, jar.Revoke(at(0)), jar.Clear(at(0))} {
		raw, err := j.MarshalBinary()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var jar Jar
		if jar.UnmarshalBinary(raw) != nil {
			return
		}
		jar.header(t, shop)
		again, err := jar.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var back Jar
		if err := back.UnmarshalBinary(again); err != nil || !equalJars(&back, &jar) {
			t.Errorf("read, written and read again: %v\n%+v, want\n%+v", err, &back, &jar)
		}
	})
}
