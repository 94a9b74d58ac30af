package session

import (
	"bytes"
	"errors"
	"slices"
	"testing"
	"time"
)

func TestJarsComeBackFromBytes(t *testing.T) {
	t.Parallel()
	full := new(Jar).
		reply(t, "https://www.shop.test/app/", "sid=\xff\"quoted\"; Domain=shop.test; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=60; Priority=High",
			"nameless; Path=/", "empty=", "part=1; Secure; SameSite=None; Partitioned", "gone=1", "exp=1; Expires=Fri, 31 Dec 9999 23:59:59 GMT").
		reply(t, "https://www.shop.test/app/", "gone=; Max-Age=0")
	revoked := full.Revoke(at(time.Hour))
	for name, jar := range map[string]*Jar{
		"empty":     {},
		"full":      full,
		"revoked":   revoked,
		"refilled":  revoked.reply(t, "https://www.shop.test/", "sid=2"),
		"cleared":   full.Clear(at(time.Hour)),
		"renewed":   full.reply(t, "https://www.shop.test/app/", "empty=2").reply(t, "https://www.shop.test/app/", "empty=3", "exp=2"),
		"long path": full.reply(t, "https://www.shop.test/a/b/c/d", "deep=1"),
	} {
		raw, err := jar.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		back := new(Jar)
		if err := back.UnmarshalBinary(raw); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !equalJars(jar, back) {
			t.Errorf("%s: came back as\n%+v, want\n%+v", name, back, jar)
		}
		if got, want := back.header(t, "https://www.shop.test/app/x"), jar.header(t, "https://www.shop.test/app/x"); got != want {
			t.Errorf("%s: sends %q, want %q", name, got, want)
		}
		for n := range raw {
			if err := new(Jar).UnmarshalBinary(raw[:n]); err == nil {
				t.Errorf("%s: the first %d of %d bytes are taken for a jar", name, n, len(raw))
			}
		}
		if err := new(Jar).UnmarshalBinary(append(bytes.Clone(raw), 0)); err == nil {
			t.Errorf("%s: a byte too many is not noticed", name)
		}
	}
}

func TestJarsComeBackFromTheirParts(t *testing.T) {
	t.Parallel()
	jar := new(Jar).
		reply(t, "https://www.shop.test/app/", "sid=\xff\"quoted\"; Domain=shop.test; Path=/; Secure; SameSite=Lax; Max-Age=60; Priority=High", "nameless; Path=/", "gone=1").
		Revoke(at(time.Minute)).
		reply(t, "https://www.shop.test/app/", "sid=2", "lang=en; Path=/", "gone=1").
		reply(t, "https://www.shop.test/app/", "gone=; Max-Age=0")
	parts := jar.Parts()
	back := Parts{Version: parts.Version, Floor: parts.Floor, Created: parts.Created, Revoked: slices.Clone(parts.Revoked)}
	for _, c := range slices.Backward(parts.Cookies) {
		raw, err := c.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var again Cookie
		if err := again.UnmarshalBinary(raw); err != nil {
			t.Fatal(err)
		}
		for n := range raw {
			if err := new(Cookie).UnmarshalBinary(raw[:n]); err == nil {
				t.Errorf("the first %d of %d bytes are taken for a cookie", n, len(raw))
			}
		}
		back.Cookies = append(back.Cookies, again)
	}
	for _, m := range parts.Marks {
		raw, err := m.MarshalBinary()
		if err != nil {
			t.Fatal(err)
		}
		var again Mark
		if err := again.UnmarshalBinary(raw); err != nil {
			t.Fatal(err)
		}
		for n := range raw {
			if err := new(Mark).UnmarshalBinary(raw[:n]); err == nil {
				t.Errorf("the first %d of %d bytes are taken for a mark", n, len(raw))
			}
		}
		back.Marks = append(back.Marks, again)
	}
	got, err := NewJar(back)
	if err != nil {
		t.Fatal(err)
	}
	if !equalJars(got, jar) {
		t.Errorf("came back as\n%+v, want\n%+v", got, jar)
	}
	back.Cookies[0].Value = "A\r\nB"
	if _, err := NewJar(back); !errors.Is(err, RefusedControl) {
		t.Errorf("a line break in a value: %v, want %v", err, RefusedControl)
	}
}

func TestGarbageLeavesTheJarAsItWas(t *testing.T) {
	t.Parallel()
	jar := new(Jar).reply(t, shop, "sid=1")
	raw, err := jar.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	raw[0]++ // the format of another day
	if err := jar.UnmarshalBinary(raw); err == nil || jar.header(t, shop) != "sid=1" {
		t.Errorf("error %v, jar sends %q", err, jar.header(t, shop))
	}
	hostile := bytes.Replace(mustMarshal(t, new(Jar).reply(t, shop, "sid=AAAA")), []byte("AAAA"), []byte("A\r\nB"), 1)
	if err := new(Jar).UnmarshalBinary(hostile); err == nil {
		t.Error("a line break in a value is not noticed")
	}
}

func mustMarshal(t *testing.T, jar *Jar) []byte {
	t.Helper()
	raw, err := jar.MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
