package proxy

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/spool"
	"github.com/sessionproxy/sessionproxy/session"
)

// BenchmarkFormThatNeedsNothing is what a form of 1 KiB costs whose field is
// filled, where the site has a rule for it and where it has none: the rule's
// price is the difference.
func BenchmarkFormThatNeedsNothing(b *testing.B) {
	dir, err := spool.Open(b.TempDir(), 1<<30)
	if err != nil {
		b.Fatal(err)
	}
	p := &Proxy{spool: dir, timeouts: Timeouts{}.withDefaults()}
	rule := config.Captcha{Type: "recaptcha_v2", Method: http.MethodPost, Path: "/login", SiteKey: "k", Page: "https://shop.test/login", When: config.WhenEmpty}
	body := "g-recaptcha-response=" + strings.Repeat("x", 500) + "&a=" + strings.Repeat("y", 500)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	u := &url.URL{Scheme: "https", Host: "shop.test", Path: "/login"}
	for _, bm := range []struct {
		name  string
		rules []config.Captcha
	}{{"without a rule", nil}, {"with a rule", []config.Captcha{rule}}} {
		s := &site{Site: config.Site{Key: "shop.test"}, forms: formRules(config.Site{Key: "shop.test", Captcha: bm.rules})}
		b.Run(bm.name, func(b *testing.B) {
			buf := make([]byte, 4<<10)
			b.ReportAllocs()
			for b.Loop() {
				up := &upload{ReadCloser: io.NopCloser(strings.NewReader(body))}
				x := &exchange{Context: b.Context(), p: p, site: s, whose: session.Own, upload: up, target: target{host: "shop.test", port: "443", secure: true}}
				r := &http.Request{Method: http.MethodPost, URL: u, Header: header, Body: up, ContentLength: int64(len(body))}
				if resp := x.fillForm(r); resp != nil {
					b.Fatal("it is refused")
				}
				n := 0
				for {
					more, err := r.Body.Read(buf)
					if n += more; err != nil {
						break
					}
				}
				if n != len(body) {
					b.Fatalf("%d bytes leave", n)
				}
				x.releaseForm()
			}
		})
	}
}
