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

// BenchmarkFormThatNeedsNothing is what a rule costs a form of 1 KiB whose
// field is filled.
func BenchmarkFormThatNeedsNothing(b *testing.B) {
	dir, err := spool.Open(b.TempDir())
	if err != nil {
		b.Fatal(err)
	}
	p := &Proxy{spool: dir, timeouts: Timeouts{}.withDefaults()}
	s := &site{Site: config.Site{Key: "shop.test"}, forms: formRules(config.Site{Key: "shop.test", Captcha: []config.Captcha{
		{Type: "recaptcha_v2", Method: http.MethodPost, Path: "/login", SiteKey: "k", Page: "https://shop.test/login", When: config.WhenEmpty},
	}})}
	body := "g-recaptcha-response=" + strings.Repeat("x", 500) + "&a=" + strings.Repeat("y", 500)
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	u := &url.URL{Scheme: "https", Host: "shop.test", Path: "/login"}
	b.ReportAllocs()
	for b.Loop() {
		up := &upload{ReadCloser: io.NopCloser(strings.NewReader(body))}
		x := &exchange{Context: b.Context(), p: p, site: s, whose: session.Own, upload: up, target: target{host: "shop.test", port: "443", secure: true}}
		r := &http.Request{Method: http.MethodPost, URL: u, Header: header, Body: up, ContentLength: int64(len(body))}
		if resp := x.fillForm(r); resp != nil || len(x.form.fills) > 0 {
			b.Fatal("the form needs something")
		}
		x.releaseForm()
	}
}
