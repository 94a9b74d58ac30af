package page

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
)

const (
	k1   = "6LeIxAcTAAAAAJcZVRqyHh71UMIEGNQ_MXjiZKhI"
	k2   = "6LdSecondKeyAAAAAJcZVRqyHh71UMIEGNQ_MXji"
	cf   = "0x4AAAAAAADnPIDROrmt1Wwj"
	api  = `<script src="https://www.google.com/recaptcha/api.js" async defer></script>`
	ent  = `<script src="https://www.google.com/recaptcha/enterprise.js"></script>`
	turn = `<script src="https://challenges.cloudflare.com/turnstile/v0/api.js" async defer></script>`
)

func TestScan(t *testing.T) {
	t.Parallel()
	login := Form{"POST", "https://shop.test/login"}
	post := func(inside string) string { return `<form method=post action=/login>` + inside + `</form>` }
	for _, tt := range []struct {
		name, doc string
		want      []Widget
	}{
		{"a checkbox in a form", api + post(`<div class="g-recaptcha" data-sitekey="`+k1+`"></div>`),
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", login}}},
		{"a checkbox in no form", api + `<div class="a g-recaptcha b" data-sitekey='` + k1 + `'></div>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", Form{}}}},
		{"an invisible one by its size", post(`<div class=g-recaptcha data-sitekey=` + k1 + ` data-size=invisible></div>`),
			[]Widget{{captcha.RecaptchaV2Invisible, k1, "", "g-recaptcha-response", login}}},
		{"an invisible one on a button", post(`<button class="g-recaptcha" data-sitekey="` + k1 + `" data-callback=go>Go</button>`),
			[]Widget{{captcha.RecaptchaV2Invisible, k1, "", "g-recaptcha-response", login}}},
		{"a score on a button", `<script src="https://www.google.com/recaptcha/api.js?render=` + k1 + `"></script>` + post(`<button class="g-recaptcha" data-sitekey="`+k1+`" data-action="login">Go</button>`),
			[]Widget{{captcha.RecaptchaV3, k1, "login", "g-recaptcha-response", login}}},
		{"a score that a script asks for", `<script src="https://www.google.com/recaptcha/api.js?render=` + k1 + `"></script>` + post(`<input type=hidden name="g-recaptcha-response">`) + `<script>grecaptcha.ready(function(){ grecaptcha.execute('` + k1 + `', {action: 'login'}).then(f) })</script>`,
			[]Widget{{captcha.RecaptchaV3, k1, "login", "g-recaptcha-response", login}}},
		{"a score whose action nobody says", `<script src="https://www.recaptcha.net/recaptcha/api.js?render=` + k1 + `"></script>`,
			[]Widget{{captcha.RecaptchaV3, k1, "", "", Form{}}}},
		{"a field for each action", `<script src="https://www.google.com/recaptcha/api.js?render=` + k1 + `"></script>` +
			`<form method=post action=/a><input name="g-recaptcha-response-data[a]"></form><form method=post action=/b><input name="g-recaptcha-response-data[b]"></form>` +
			`<script>grecaptcha.execute("` + k1 + `",{action:"b"}); grecaptcha.execute("` + k1 + `",{action:"a"})</script>`,
			[]Widget{{captcha.RecaptchaV3, k1, "b", "g-recaptcha-response-data[b]", Form{"POST", "https://shop.test/b"}}, {captcha.RecaptchaV3, k1, "a", "g-recaptcha-response-data[a]", Form{"POST", "https://shop.test/a"}}}},
		{"an Enterprise checkbox", ent + post(`<div class="g-recaptcha" data-sitekey="`+k1+`"></div>`),
			[]Widget{{captcha.RecaptchaV2Enterprise, k1, "", "g-recaptcha-response", login}}},
		{"an Enterprise score", `<script src="https://www.google.com/recaptcha/enterprise.js?render=` + k1 + `"></script><script>grecaptcha.enterprise.execute('` + k1 + `', {action: 'LOGIN'})</script>`,
			[]Widget{{captcha.RecaptchaV3Enterprise, k1, "LOGIN", "", Form{}}}},
		{"a checkbox that a script renders", `<script src="https://www.google.com/recaptcha/api.js?onload=f&render=explicit"></script><script>function f(){grecaptcha.render('box', {'sitekey' : '` + k1 + `', 'theme': g(1)})}</script>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", Form{}}}},
		{"two widgets in two forms", api + post(`<div class=g-recaptcha data-sitekey=`+k1+`></div>`) + `<form action=/b><div class=g-recaptcha data-sitekey=` + k2 + `></div></form>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", login}, {captcha.RecaptchaV2, k2, "", "g-recaptcha-response", Form{"GET", "https://shop.test/b"}}}},
		{"a checkbox beside a score", `<script src="https://www.google.com/recaptcha/api.js?render=` + k2 + `"></script>` + post(`<div class=g-recaptcha data-sitekey=`+k1+`></div>`),
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", login}, {captcha.RecaptchaV3, k2, "", "", Form{}}}},
		{"the badge's own field is no form's", api + `<textarea id=g-recaptcha-response-100000 name=g-recaptcha-response></textarea>` + post(`<div class=g-recaptcha data-sitekey=`+k1+` data-size=invisible></div>`),
			[]Widget{{captcha.RecaptchaV2Invisible, k1, "", "g-recaptcha-response", login}}},
		{"Turnstile", turn + post(`<div class="cf-turnstile" data-sitekey="`+cf+`" data-action="signup"></div>`),
			[]Widget{{captcha.Turnstile, cf, "signup", "cf-turnstile-response", login}}},
		{"Turnstile with a field of its own", turn + post(`<div class="cf-turnstile" data-sitekey="`+cf+`" data-response-field-name="ts"></div>`),
			[]Widget{{captcha.Turnstile, cf, "", "ts", login}}},
		{"Turnstile without a field", turn + post(`<div class="cf-turnstile" data-sitekey="`+cf+`" data-response-field="false"></div>`),
			[]Widget{{captcha.Turnstile, cf, "", "", login}}},
		{"Turnstile that a script renders", turn + `<script>turnstile.render('#w', {sitekey: '` + cf + `', action: 'a'})</script>`,
			[]Widget{{captcha.Turnstile, cf, "a", "cf-turnstile-response", Form{}}}},
		{"Turnstile in place of reCAPTCHA", `<script src="https://challenges.cloudflare.com/turnstile/v0/api.js?compat=recaptcha"></script>` + post(`<div class="g-recaptcha" data-sitekey="`+cf+`"></div>`),
			[]Widget{{captcha.Turnstile, cf, "", "g-recaptcha-response", login}}},
		{"a key of Turnstile's tests", post(`<div class="g-recaptcha" data-sitekey="1x00000000000000000000AA"></div>`),
			[]Widget{{captcha.Turnstile, "1x00000000000000000000AA", "", "g-recaptcha-response", login}}},
		{"a base for the form's address", `<base href="https://id.shop.test/x/">` + `<form method=POST action="login#top"><div class=g-recaptcha data-sitekey=` + k1 + `></div></form>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", Form{"POST", "https://id.shop.test/x/login"}}}},
		{"a form without an address", `<form method=post><div class=g-recaptcha data-sitekey=` + k1 + `></div>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", Form{"POST", "https://shop.test/page?q=1"}}}},
		{"a form for a script", `<form method=post action="javascript:go()"><div class=g-recaptcha data-sitekey=` + k1 + `></div>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", Form{"POST", ""}}}},
		{"a document that breaks off in a tag", post(`<div class=g-recaptcha data-sitekey=`+k1+`></div>`) + `<div class=g-recaptcha data-sitekey="`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", login}}},

		{"a comment", `<!-- <div class=g-recaptcha data-sitekey=` + k1 + `></div> -->`, nil},
		{"what somebody typed", `<textarea><div class=g-recaptcha data-sitekey=` + k1 + `></div></textarea>`, nil},
		{"escaped text", `<p>&lt;div class=g-recaptcha data-sitekey=` + k1 + `&gt;</p>`, nil},
		{"text that looks like a call", `<p>grecaptcha.execute('` + k1 + `', {action: 'x'})</p>`, nil},
		{"data that looks like a call", `<script type="application/json">"grecaptcha.execute('` + k1 + `', {action: 'x'})"</script>`, nil},
		{"a widget in another's attribute", `<div title='<div class=g-recaptcha data-sitekey=` + k1 + `>'></div>`, nil},
		{"a template", `<template><template></template><div class=g-recaptcha data-sitekey=` + k1 + `></div></template>`, nil},
		{"what is for browsers without scripts", `<noscript><form><div class=g-recaptcha data-sitekey=` + k1 + `></div></form></noscript>`, nil},
		{"what follows them", `<noscript></noscript><template></template></template></noscript><div class=g-recaptcha data-sitekey=` + k1 + `></div>`,
			[]Widget{{captcha.RecaptchaV2, k1, "", "g-recaptcha-response", Form{}}}},
		{"what stands between a frame's tags", `<iframe src=/x><div class=g-recaptcha data-sitekey=` + k1 + `></div></iframe>`, nil},
		{"a frame's own document", `<iframe srcdoc="<div class=g-recaptcha data-sitekey=` + k1 + `></div>"></iframe>`, nil},
		{"markup in a script's text", `<script>var s = "<div class=g-recaptcha data-sitekey=` + k1 + `></div>"</script>`, nil},
		{"markup in a style", `<style><div class=g-recaptcha data-sitekey=` + k1 + `></style>`, nil},
		{"a call in a script's data, beside the page's own", `<script src="https://www.google.com/recaptcha/api.js?render=` + k1 + `"></script>` +
			`<script>state = {"comment": "grecaptcha.execute('` + k2 + `', {action: 'x'})"}; grecaptcha.execute('` + k1 + `', {action: 'login'})</script>`,
			[]Widget{{captcha.RecaptchaV3, k1, "login", "", Form{}}}},
		{"a title", `<title><div class=g-recaptcha data-sitekey=` + k1 + `></title>`, nil},
		{"a widget without a key", `<div class=g-recaptcha></div>`, nil},
		{"a key that can be none", `<div class=g-recaptcha data-sitekey="{{ key }}"></div>`, nil},
		{"a key without the class", `<div data-sitekey=` + k1 + `></div>`, nil},
		{"another maker's widget", `<div class=h-captcha data-sitekey=10000000-ffff-ffff-ffff-000000000001></div>`, nil},
		{"the script alone", api + turn, nil},
		{"a script of another host", `<script src="https://evil.test/recaptcha/api.js?render=` + k1 + `"></script>`, nil},
		{"a call with a key from a variable", `<script>grecaptcha.execute(key, {action: 'x'})</script>`, nil},
		{"nothing", ``, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := Scan(strings.NewReader(tt.doc), address(t)); !slices.Equal(got, tt.want) {
				t.Errorf("got  %+v\nwant %+v", got, tt.want)
			}
		})
	}
}

func address(t testing.TB) *url.URL {
	u, err := url.Parse("https://shop.test/page?q=1")
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestScanIsBounded(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 10_000 {
		b.WriteString(`<form><div class=g-recaptcha data-sitekey=6L` + strings.Repeat("A", i%50+1) + `></div><script>grecaptcha.render(((((`)
		b.WriteString(strings.Repeat("(", 50) + `</script>`)
	}
	start := time.Now()
	if n := len(Scan(strings.NewReader(b.String()), address(t))); n != MaxWidgets {
		t.Errorf("%d widgets, want %d", n, MaxWidgets)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %v", took)
	}
}

// TestShapes reads pages written after the documented login forms of frameworks.
// The first line of each says what it shows: "none", or type, key, action and field.
func TestShapes(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.html")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			doc, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			first, _, _ := strings.Cut(string(doc), "\n")
			want := strings.TrimSuffix(strings.TrimPrefix(first, "<!-- shows: "), " -->")
			var got []string
			for _, w := range Scan(strings.NewReader(string(doc)), address(t)) {
				got = append(got, strings.Join([]string{string(w.Type), w.SiteKey, w.Action, w.Field, w.Form.Method + " " + w.Form.Action}, " | "))
			}
			if got == nil {
				got = []string{"none"}
			}
			if s := strings.Join(got, "; "); s != want {
				t.Errorf("shows %s\nwant  %s", s, want)
			}
		})
	}
}

func FuzzScan(f *testing.F) {
	f.Add(api + `<form method=post><div class=g-recaptcha data-sitekey=` + k1 + `><script>grecaptcha.execute('` + k1 + `', {action: 'a'})`)
	f.Fuzz(func(t *testing.T, doc string) {
		for _, w := range Scan(strings.NewReader(doc), address(t)) {
			key := captcha.Key{Site: "shop.test", SiteKey: w.SiteKey, Action: w.Action}
			if err := key.Check(); err != nil {
				t.Errorf("%q shows a widget whose key is none: %v", doc, err)
			}
		}
	})
}
