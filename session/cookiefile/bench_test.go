package cookiefile

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sessionproxy/sessionproxy/session"
)

// BenchmarkRead10000 reads ten thousand cookies.
func BenchmarkRead10000(b *testing.B) {
	var cookies []session.Cookie
	for i := range 10_000 {
		cookies = append(cookies, but(ends, secure, func(c *session.Cookie) { c.Name = fmt.Sprint("c", i) }))
	}
	for _, format := range []Format{Netscape, Playwright} {
		b.Run(string(format), func(b *testing.B) {
			var text bytes.Buffer
			if _, err := Write(&text, format, cookies); err != nil {
				b.Fatal(err)
			}
			b.SetBytes(int64(text.Len()))
			for b.Loop() {
				if f, err := Read(bytes.NewReader(text.Bytes()), ""); err != nil || len(f.Cookies) != len(cookies) {
					b.Fatal(err)
				}
			}
		})
	}
}
