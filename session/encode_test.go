package session

import (
	"bytes"
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
