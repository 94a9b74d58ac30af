package cookiefile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

// Whatever a file holds, reading it ends in cookies or in a fault with a place
// inside it; and what was read and a jar would take comes back from every
// format that holds it.
func FuzzRead(f *testing.F) {
	for _, format := range Formats() {
		var b bytes.Buffer
		if _, err := Write(&b, format, full()); err == nil {
			f.Add(b.Bytes())
		}
	}
	f.Add([]byte(har(exchange("shop.test", `,"cookies":[{"name":"sid","value":"1"}]`, setCookie("sid=1; Max-Age=60; Domain=shop.test", "a=1")))))
	f.Add([]byte("#HttpOnly_.shop.test\tTRUE\t/\tTRUE\t0\tsid\r\n# x\r\n"))
	f.Add([]byte(`{"result":{"cookies":[{"name":"a","url":"https://[::1]/","expires":"2030-01-31T12:00:00Z","partitionKey":"https://[::1]"}]},"origins":[{"localStorage":[{}]}]}`))
	f.Add([]byte("[{\"name\":\"\xff"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := Read(bytes.NewReader(text), "")
		if err != nil {
			e, ok := errors.AsType[*Error](err)
			if !ok || e.Line < 1 || e.Line > bytes.Count(text, []byte("\n"))+1 || e.Column < 1 || e.Column > len(text)+1 {
				t.Fatalf("%v", err)
			}
			return
		}
		var taken []session.Cookie
		for _, c := range file.Cookies {
			if c.Check() == nil && isText(&c) && !strings.ContainsAny(c.Path, "\t\n") {
				c.Created, c.Used, c.Priority = c.Expires, c.Expires, priorityOf(c.Priority)
				taken = append(taken, c)
			}
		}
		for _, format := range []Format{Netscape, Puppeteer} {
			var b bytes.Buffer
			if _, err := Write(&b, format, taken); err != nil {
				t.Fatal(err)
			}
			if len(taken) == 0 {
				continue
			}
			again, err := Read(bytes.NewReader(b.Bytes()), format)
			if err != nil {
				t.Fatalf("%s: %v\n%q", format, err, b.Bytes())
			}
			want := slices.Clone(taken)
			for i := range want {
				want[i].Created, want[i].Used = again.Cookies[i].Created, again.Cookies[i].Used
				if format == Netscape {
					want[i].SameSite, want[i].Partitioned, want[i].Priority = 0, false, ""
				}
				if got := again.Cookies[i].Expires; got.Unix() == want[i].Expires.Unix() {
					want[i].Expires = got // fractions, and zones
				}
			}
			if !slices.Equal(again.Cookies, want) {
				t.Errorf("%s: %q\nread as\n%+v\nwant\n%+v", format, b.Bytes(), again.Cookies, want)
			}
		}
	})
}
