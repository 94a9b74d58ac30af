package cookiefile

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// har is an archive of exchanges at noon of 2030-01-01.
func har(entries ...string) string {
	return `{"log":{"version":"1.2","creator":{"name":"x"},"pages":[],"entries":[` + strings.Join(entries, ",\n") + `]}}`
}

// exchange is one with https://HOST/cart/1. request and response are members
// of the two, beside the URL.
func exchange(host, request, response string) string {
	return fmt.Sprintf(`{"startedDateTime":"2030-01-01T12:00:00.000+01:00","request":{"method":"GET","url":"https://%s/cart/1"%s},"response":{"status":200,"content":{"text":"{}"}%s},"time":1}`, host, request, response)
}

func setCookie(lines ...string) string {
	var b strings.Builder
	for i, line := range lines {
		if i > 0 {
			b.WriteString(",")
		}
		fmt.Fprintf(&b, `{"name":"set-cookie","value":%q}`, line)
	}
	return `,"headers":[{"name":"Content-Type","value":"text/html"},` + b.String() + `]`
}

func TestReadHAR(t *testing.T) {
	inCart := func(c *session.Cookie) { c.Path = "/cart" }
	for _, tt := range []struct {
		name, text string
		want       []session.Cookie
	}{
		{"a Set-Cookie line, its life from when it came", har(exchange("shop.test", "", setCookie("sid=1; Max-Age=60; Secure; HttpOnly; SameSite=Lax; Domain=shop.test"))),
			[]session.Cookie{but(inCart, secure, httpOnly, lax, forDomain, func(c *session.Cookie) { c.Expires = time.Date(2030, 1, 1, 11, 1, 0, 0, time.UTC) })}},
		{"lines that a browser joined", har(exchange("shop.test", "", setCookie("sid=1; Path=/\nsid=1; Path=/cart"))), []session.Cookie{host, but(inCart)}},
		{"lines beat the list beside them", har(exchange("shop.test", "", setCookie("sid=1; Path=/; Secure")+`,"cookies":[{"name":"sid","value":"2"}]`)), []session.Cookie{but(secure)}},
		{"a list without lines", har(exchange("shop.test", "", `,"headers":[],"cookies":[{"name":"sid","value":"1","path":"/","domain":".shop.test","expires":"2030-01-01T00:00:00.000Z","httpOnly":true,"secure":true,"sameSite":"Lax"}]`)),
			[]session.Cookie{}}, // it was over at noon
		{"one with an end that is no time", har(exchange("shop.test", "", `,"cookies":[{"name":"sid","value":"1","path":"/","domain":"shop.test","expires":"Session"}]`)), []session.Cookie{host}},
		{"what a request sent", har(exchange("shop.test", `,"cookies":[{"name":"sid","value":"1"}]`, "")), []session.Cookie{but(secure)}},
		{"what stands in its header alone", har(exchange("shop.test", `,"cookies":[],"headers":[{"name":"cookie","value":"sid=1; =1;  a=b=c"}]`, "")),
			[]session.Cookie{but(secure), but(secure, nameless), but(secure, func(c *session.Cookie) { c.Name, c.Value = "a", "b=c" })}},
		{"what was set before is not taken again", har(exchange("shop.test", "", setCookie("sid=1; Domain=shop.test; Path=/")), exchange("www.shop.test", `,"cookies":[{"name":"sid","value":"1"}]`, "")), []session.Cookie{but(forDomain)}},
		{"the last one holds", har(exchange("shop.test", `,"cookies":[{"name":"sid","value":"0"}]`, setCookie("sid=2; Path=/")), exchange("shop.test", "", setCookie("a=1; Path=/", "sid=1; Path=/"))),
			[]session.Cookie{host, but(func(c *session.Cookie) { c.Name = "a" })}},
		{"a deletion holds, too", har(exchange("shop.test", "", setCookie("sid=1; Path=/")), exchange("shop.test", "", setCookie("sid=; Path=/; Max-Age=0")), exchange("shop.test", `,"cookies":[{"name":"sid","value":"1"}]`, "")), []session.Cookie{}},
		{"a cookie of all subdomains takes the place of what a request told of it", har(exchange("www.shop.test", `,"cookies":[{"name":"sid","value":"0"}]`, ""), exchange("shop.test", "", setCookie("sid=1; Domain=shop.test; Path=/"))), []session.Cookie{but(forDomain)}},
		{"and so does its deletion", har(exchange("shop.test", `,"cookies":[{"name":"sid","value":"0"}]`, setCookie("sid=; Domain=shop.test; Path=/; Max-Age=0"))), []session.Cookie{}},
		{"but not that of another host", har(exchange("shop.test", `,"cookies":[{"name":"sid","value":"1"}]`, ""), exchange("www.shop.test", "", setCookie("sid=; Path=/; Max-Age=0"))), []session.Cookie{but(secure)}},
		{"a cookie in the partition of a foreign page", har(exchange("shop.test", `,"headers":[{"name":"sec-fetch-site","value":"cross-site"}]`, setCookie("a=1; Secure; Partitioned", "sid=1; Path=/"))), []session.Cookie{host}},
		{"lines that no browser takes", har(exchange("shop.test", "", setCookie("sid=1; Domain=evil.test", "a=1; SameSite=None", "sid=1; Path=/"))), []session.Cookie{host}},
		{"a year of two digits", har(exchange("shop.test", "", setCookie("sid=1; Path=/; Expires=Tuesday, 01-Jan-30 12:00:00 GMT"))),
			[]session.Cookie{but(func(c *session.Cookie) { c.Expires = day.Add(12 * time.Hour) })}},
		{"a date that is none makes a session cookie", har(exchange("shop.test", "", setCookie("sid=1; Path=/; Expires=0"))), []session.Cookie{host}},
		{"a line with a control character is left out alone", har(exchange("shop.test", "", strings.ReplaceAll(setCookie("a=CTL; Path=/", "sid=1; Path=/"), "CTL", `\u0001`))), []session.Cookie{host}},
		{"URLs without a host", har(`{"request":{"url":"data:text/plain,x","cookies":[{"name":"a","value":"1"}]}}`, `{"request":{"url":"::"}}`, exchange("shop.test", "", setCookie("sid=1; Path=/"))), []session.Cookie{host}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f, err := Read(strings.NewReader(tt.text), "")
			if err != nil {
				t.Fatal(err)
			}
			for i := range f.Cookies { // the time of a line is the jar's to give
				f.Cookies[i].Created, f.Cookies[i].Used = time.Time{}, time.Time{}
				f.Cookies[i].Expires = utc(f.Cookies[i].Expires)
			}
			if f.Format != HAR || !slices.Equal(f.Cookies, tt.want) {
				t.Errorf("%s\n%+v\nwant\n%+v", f.Format, f.Cookies, tt.want)
			}
		})
	}
}

func utc(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

func TestHARRemarks(t *testing.T) {
	text := har(exchange("shop.test", "", setCookie("a=THEVALUE; Domain=evil.test", strings.Repeat("b", 80)+"=THEVALUE; SameSite=None")))
	f, err := Read(strings.NewReader(text), "")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Left out, since no browser takes such a Set-Cookie line: a, " + strings.Repeat("b", 64) + "…."; !slices.Equal(f.Remarks, []string{want}) {
		t.Errorf("%q, want %q", f.Remarks, want)
	}
}

func TestHARWithoutItsCookies(t *testing.T) {
	f, err := Read(strings.NewReader(har(exchange("shop.test", "", ""))), "")
	if err != nil {
		t.Fatal(err)
	}
	if want := "Chrome leaves the cookies out of a HAR that is exported without sensitive data: export it with them."; !slices.Equal(f.Remarks, []string{want}) {
		t.Errorf("%q, want %q", f.Remarks, want)
	}
}

func TestHARFaults(t *testing.T) {
	for _, tt := range []struct{ name, text, want string }{
		{"an entry of another form", "{\"log\":{\"entries\":[\n {\"request\": {\"url\": 1}}]}}", "2:22: request.url: a number stands where a string belongs"},
		{"no entries", `{"log":{"entries":{}}}`, "1:20: this is to be an array"},
		{"half of it", "{\"log\":{\"entries\":[\n {\"request\": {", "2:15: the file ends in the middle"},
	} {
		if _, err := Read(strings.NewReader(tt.text), ""); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.name, err, tt.want)
		}
	}
}

// A HAR is read exchange by exchange: what has been read of it is let go.
func TestALargeHARIsStreamed(t *testing.T) {
	const entries, body = 64, 128 << 10
	entry := strings.Replace(exchange("shop.test", "", setCookie("sid=1; Path=/")), `"text":"{}"`, `"text":"`+strings.Repeat("x", body)+`"`, 1)
	inUse := func() uint64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	parts := []io.Reader{strings.NewReader(`{"log":{"entries":[`)}
	before, most := inUse(), uint64(0)
	for i := range entries {
		if i > 0 {
			parts = append(parts, strings.NewReader(","))
		}
		parts = append(parts, strings.NewReader(entry), readerFunc(func([]byte) (int, error) {
			most = max(most, inUse())
			return 0, io.EOF
		}))
	}
	parts = append(parts, strings.NewReader(`]}}`))
	if f, err := Read(io.MultiReader(parts...), ""); err != nil || len(f.Cookies) != 1 {
		t.Fatalf("%+v, %v", f, err)
	}
	if most > before+entries*body/2 {
		t.Errorf("%d KiB in memory while %d KiB were read", (most-before)>>10, entries*body>>10)
	}
}

// readerFunc is called when its turn comes.
type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(b []byte) (int, error) { return f(b) }
