package session

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestParseSetCookieKeepsEveryByte(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, line, wantName, wantValue string }{
		{"JSON", `j={"k":"v","n":[1,2]}; Path=/`, "j", `{"k":"v","n":[1,2]}`},
		{"quotes", `q="a b"`, "q", `"a b"`},
		{"a lone quote", `q=a"b`, "q", `a"b`},
		{"a backslash", `b=a\b`, "b", `a\b`},
		{"commas", `c=a,b,c`, "c", "a,b,c"},
		{"spaces within", `s=a b`, "s", "a b"},
		{"an equals sign", `e=a=b==`, "e", "a=b=="},
		{"bytes that are no UTF-8", "u=\xff\xfe", "u", "\xff\xfe"},
		{"a name with brackets", `na[0]=1`, "na[0]", "1"},
		{"no value", `empty=`, "empty", ""},
		{"no name", `token`, "", "token"},
		{"folded lines stay one cookie", `a=1, b=2`, "a", "1, b=2"},
		{"percent signs", `p=%3D%zz`, "p", "%3D%zz"},
	} {
		c, err := ParseSetCookie(tt.line, setting(t, "https://shop.test/"), noon)
		if err != nil || c.Name != tt.wantName || c.Value != tt.wantValue {
			t.Errorf("%s: ParseSetCookie(%q) = %q, %q, %v", tt.name, tt.line, c.Name, c.Value, err)
		}
	}
}

func TestParseSetCookieRefuses(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("v", maxNameValue)
	for _, tt := range []struct {
		name, at, line string
		want           Refusal
	}{
		{"nothing", "https://shop.test/", "", RefusedEmpty},
		{"only attributes", "https://shop.test/", "; Path=/", RefusedEmpty},
		{"a line break", "https://shop.test/", "a=1\nb=2", RefusedControl},
		{"a NUL", "https://shop.test/", "a=1\x00", RefusedControl},
		{"a tab inside", "https://shop.test/", "a=1\t2", RefusedControl},
		{"a control character in an attribute nobody knows", "https://shop.test/", "a=1; foo=\x01", RefusedControl},
		{"a name and value over 4096 bytes", "https://shop.test/", "a=" + long, RefusedSize},
		{"a value that reads as a pair", "https://shop.test/", "=sid=1", RefusedAmbiguous},
		{"a nameless value that reads as a prefixed name", "https://shop.test/", "__host-sid", RefusedAmbiguous},
		{"another site", "https://shop.test/", "a=1; Domain=evil.test", RefusedDomain},
		{"a subdomain", "https://shop.test/", "a=1; Domain=www.shop.test", RefusedDomain},
		{"a public suffix", "https://shop.co.uk/", "a=1; Domain=co.uk", RefusedDomain},
		{"an escaped domain", "https://shop.test/", "a=1; Domain=sh%6fp.test", RefusedDomain},
		{"an address above the host's", "https://10.0.0.1/", "a=1; Domain=0.0.1", RefusedDomain},
		{"Secure over http", "http://shop.test/", "a=1; Secure", RefusedSecure},
		{"Secure over http on localhost too", "http://localhost/", "a=1; Secure", RefusedSecure},
		{"__Secure- without Secure", "https://shop.test/", "__Secure-a=1", RefusedPrefix},
		{"__Host- whose path is / only by default", "https://shop.test/", "__Host-a=1; Secure", RefusedPrefix},
		{"__Host- with a domain", "https://shop.test/", "__Host-a=1; Secure; Path=/; Domain=shop.test", RefusedPrefix},
		{"__HOST- is __Host-", "https://shop.test/", "__HOST-a=1; Path=/", RefusedPrefix},
		{"__Http- without HttpOnly", "https://shop.test/", "__Http-a=1; Secure", RefusedPrefix},
		{"__Host-Http- without HttpOnly", "https://shop.test/", "__Host-Http-a=1; Secure; Path=/", RefusedPrefix},
		{"SameSite=None without Secure", "https://shop.test/", "a=1; SameSite=None", RefusedSameSite},
		{"Partitioned without Secure", "https://shop.test/", "a=1; Partitioned", RefusedPartitioned},
	} {
		_, err := ParseSetCookie(tt.line, setting(t, tt.at), noon)
		if !errors.Is(err, tt.want) {
			t.Errorf("%s: %.60q set by %s: %v, want %v", tt.name, tt.line, tt.at, err, tt.want)
		}
	}
}

func TestPartitionedIsNotTakenFromForeignPages(t *testing.T) {
	t.Parallel()
	const line = "a=1; Secure; SameSite=None; Partitioned"
	s := setting(t, "https://shop.test/")
	if c, err := ParseSetCookie(line, s, noon); err != nil || !c.Partitioned {
		t.Errorf("on the site's own request: partitioned %t, %v", c.Partitioned, err)
	}
	s.CrossSite = true
	if _, err := ParseSetCookie(line, s, noon); !errors.Is(err, RefusedPartitioned) {
		t.Errorf("on a foreign page's request: %v, want %v", err, RefusedPartitioned)
	}
	if _, err := ParseSetCookie("a=1; Secure; SameSite=None", s, noon); err != nil {
		t.Errorf("not partitioned, on a foreign page's request: %v", err)
	}
}

func TestLengthsAtTheirLimits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, line, wantPath string }{
		{"4096 bytes of name and value", "a=" + strings.Repeat("v", 4095) + "; Path=/x", "/x"},
		{"1024 bytes of attribute", "a=1; Path=/" + strings.Repeat("p", 1023), "/" + strings.Repeat("p", 1023)},
		{"a longer attribute is as if it were not there", "a=1; Path=/x; Path=/" + strings.Repeat("p", 1024), "/x"},
	} {
		c, err := ParseSetCookie(tt.line, setting(t, "https://shop.test/"), noon)
		if err != nil || c.Path != tt.wantPath {
			t.Errorf("%s: path of %d bytes, %v; want %d bytes", tt.name, len(c.Path), err, len(tt.wantPath))
		}
	}
}

func TestLife(t *testing.T) {
	t.Parallel()
	const year400 = 400 * 24 * time.Hour
	for _, tt := range []struct {
		name, attributes string
		want             time.Duration // from noon; 0: a session cookie, negative: deletes
	}{
		{"none", "", 0},
		{"Max-Age", "; Max-Age=60", time.Minute},
		{"leading zeros", "; Max-Age=007", 7 * time.Second},
		{"zero deletes", "; Max-Age=0", -1},
		{"negative deletes", "; Max-Age=-1", -1},
		{"an absurd Max-Age is 400 days", "; Max-Age=99999999999999999999", year400},
		{"an absurd negative one deletes", "; Max-Age=-99999999999999999999", -1},
		{"Max-Age beats Expires", "; Max-Age=60; Expires=Thu, 01 Jan 1970 00:00:00 GMT", time.Minute},
		{"in either order", "; Expires=Thu, 01 Jan 1970 00:00:00 GMT; Max-Age=60", time.Minute},
		{"unless it is no number", "; Max-Age=soon; Expires=Tue, 01 Dec 2026 12:01:00 GMT", time.Minute},
		{"Expires", "; Expires=Tue, 01 Dec 2026 13:00:00 GMT", time.Hour},
		{"the year 9999 is 400 days", "; Expires=Fri, 31 Dec 9999 23:59:59 GMT", year400},
		{"a date that is none", "; Expires=Tue, 31 Feb 2027 00:00:00 GMT", 0},
		{"two digits of this century", "; Expires=Tue, 01-Dec-26 12:01:00 GMT", time.Minute},
		{"two digits of the last", "; Expires=Tue, 01-Dec-70 12:01:00 GMT", -1},
		{"one digit of day", "; Expires=Tue, 1 Dec 2026 12:01:00 GMT", time.Minute},
		{"asctime", "; Expires=Tue Dec  1 12:01:00 2026", time.Minute},
		{"0 is no date", "; Expires=0", 0},
		{"-1 is no date", "; Expires=-1", 0},
		{"now is over", "; Expires=Tue, 01 Dec 2026 12:00:00 GMT", -1},
	} {
		c, err := ParseSetCookie("a=1"+tt.attributes, setting(t, "https://shop.test/"), noon)
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := c.Expires.Sub(noon)
		switch {
		case c.Expires.IsZero():
			got = 0
		case c.Expired(noon):
			got = -1
		}
		if got != tt.want {
			t.Errorf("%s: life %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestRefusalsTellNoSecrets(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"sid=hunter2; Domain=evil.test", "sid=hunter2\x01", "=hunter2=1"} {
		if _, err := ParseSetCookie(line, setting(t, "https://shop.test/"), noon); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: error %q", line, err)
		}
	}
}
