package captchaai

import (
	"bytes"
	"errors"
	"maps"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
)

func TestEachWidgetIsSubmittedAsItsKind(t *testing.T) {
	task := func(kind captcha.Type) captcha.Task {
		return captcha.Task{Type: kind, Site: "shop.test", SiteKey: siteKey, Page: page, Action: "login"}
	}
	for _, tt := range []struct {
		task captcha.Task
		want string
	}{
		{task(captcha.RecaptchaV2), ""},
		{task(captcha.RecaptchaV2Invisible), "invisible=1"},
		{task(captcha.RecaptchaV3), "action=login&min_score=0.3&version=v3"},
		{task(captcha.RecaptchaV2Enterprise), "enterprise=1"},
		{task(captcha.RecaptchaV2InvisibleEnterprise), "enterprise=1&invisible=1"},
		{task(captcha.RecaptchaV3Enterprise), "action=login&enterprise=1&min_score=0.3&version=v3"},
	} {
		r := requestFor(tt.task)
		if r.Method != "userrecaptcha" || r.Params.Get("googlekey") != siteKey || r.Params.Get("pageurl") != page {
			t.Errorf("%s: %s %v", tt.task.Type, r.Method, r.Params)
		}
		r.Params.Del("googlekey")
		r.Params.Del("pageurl")
		if got := r.Params.Encode(); got != tt.want {
			t.Errorf("%s: flags %q, want %q", tt.task.Type, got, tt.want)
		}
	}
	r := requestFor(task(captcha.Turnstile))
	if want := "action=login&pageurl=" + url.QueryEscape(page) + "&sitekey=" + siteKey; r.Method != "turnstile" || r.Params.Encode() != want {
		t.Errorf("Turnstile: %s %s, want %s", r.Method, r.Params.Encode(), want)
	}
	full := Recaptcha{SiteKey: siteKey, Page: page, DataS: "s", Cookies: "a:b", UserAgent: "ua", Proxy: Proxy{"HTTP", "u:p@10.0.0.1:3128"}}.Request()
	for name, want := range map[string]string{"data-s": "s", "cookies": "a:b", "userAgent": "ua", "proxy": "u:p@10.0.0.1:3128", "proxytype": "HTTP"} {
		if got := full.Params.Get(name); got != want {
			t.Errorf("%s=%q, want %q", name, got, want)
		}
	}
}

var png = append([]byte("\x89PNG\r\n\x1a\n"), make([]byte, 2000)...)

// What the service would refuse is refused here: each refusal there counts.
func TestABadRequestIsNeverSent(t *testing.T) {
	with := func(pairs ...string) url.Values {
		v := url.Values{"googlekey": {siteKey}, "sitekey": {siteKey}, "pageurl": {page}}
		for i := 0; i < len(pairs); i += 2 {
			v.Set(pairs[i], pairs[i+1])
		}
		return v
	}
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		for _, tt := range []struct {
			name, says string
			r          Request
		}{
			{"an unknown method", "not known", Request{Method: "hcaptcha", Params: with()}},
			{"no page", "needs pageurl", Request{Method: Turnstile, Params: with("pageurl", "")}},
			{"no sitekey", "needs googlekey", Request{Method: UserRecaptcha, Params: with("googlekey", "")}},
			{"a page without a scheme", "whole URL", Request{Method: Turnstile, Params: with("pageurl", "shop.test/login")}},
			{"v3 without an action", "action", Request{Method: UserRecaptcha, Params: with("version", "v3")}},
			{"the caller's own key", "client's own", Request{Method: Turnstile, Params: with("key", "x")}},
			{"a proxy without its type", "go together", Request{Method: Turnstile, Params: with("proxy", "10.0.0.1:1")}},
			{"a challenge by SOCKS", "HTTP, HTTPS", Request{Method: CloudflareChallenge, Params: with("proxy", "10.0.0.1:1", "proxytype", "SOCKS5")}},
			{"a challenge without a proxy", "needs proxy", Request{Method: CloudflareChallenge, Params: with()}},
			{"a small image", "1024 to", Request{Method: Post, File: &File{"a.png", png[:100]}}},
			{"no image", "needs a file", Request{Method: Post}},
			{"an image too many", "takes no file", Request{Method: Turnstile, Params: with(), File: &File{"a.png", png}}},
		} {
			_, err := b.client.Submit(b.Context(), tt.r)
			if e, _ := errors.AsType[*Error](err); e == nil || e.Class != BadTask || !strings.Contains(err.Error(), tt.says) {
				b.Errorf("%s: %v, want it to say %q", tt.name, err, tt.says)
			}
		}
		for _, task := range []captcha.Task{
			{Type: "hcaptcha", Site: "s", SiteKey: siteKey, Page: page},
			{Type: captcha.RecaptchaV3, Site: "s", SiteKey: siteKey, Page: page},
			{Type: captcha.Turnstile, Site: "s", SiteKey: "{}", Page: page},
			{Type: captcha.Turnstile, Site: "s", SiteKey: siteKey, Page: "https://u:p@shop.test/"},
		} {
			if _, err := b.client.Solve(b.Context(), task, b.slots.open); err == nil {
				b.Errorf("%+v was solved", task)
			}
		}
		if b.calls("") != 0 || b.slots.opened != 0 {
			b.Errorf("%d calls and %d slots, want none", b.calls(""), b.slots.opened)
		}
	})
}

// Every method, in every form that it travels in and is answered in.
func TestEachMethodAndShapeOfAnswer(t *testing.T) {
	geetest := map[string]string{"geetest_challenge": "ch", "geetest_validate": "tok", "geetest_seccode": "tok|jordan"}
	clearance := map[string]string{"cf_clearance": "tok"}
	gt := url.Values{"gt": {"g"}, "challenge": {"ch"}, "pageurl": {page}}
	cf := url.Values{"pageurl": {page}, "proxy": {"10.0.0.1:3128"}, "proxytype": {"HTTP"}, "userAgent": {"UA (X11; Linux)"}}
	for _, tt := range []struct {
		name     string
		r        Request
		switches captchatest.Switches
		text     string
		fields   map[string]string
		agent    string
	}{
		{"GeeTest as an object", Request{Method: GeeTest, Params: gt}, captchatest.Switches{}, "*", geetest, ""},
		{"GeeTest as a string", Request{Method: GeeTest, Params: gt}, captchatest.Switches{GeeTest: captchatest.Text}, "*", geetest, ""},
		{"GeeTest as comma text", Request{Method: GeeTest, Params: gt}, captchatest.Switches{GeeTest: captchatest.Pairs}, "*", geetest, ""},
		{"GeeTest v4", Request{Method: GeeTestV4, Params: url.Values{"captcha_id": {"c"}, "pageurl": {page}}}, captchatest.Switches{GeeTestV4: true}, "*",
			map[string]string{"captcha_id": "c", "lot_number": "lot70000000", "pass_token": "tok", "gen_time": "1", "captcha_output": "out"}, ""},
		{"a challenge as an object", Request{Method: CloudflareChallenge, Params: cf}, captchatest.Switches{}, "*", clearance, "UA (X11; Linux)"},
		{"a challenge as a string", Request{Method: CloudflareChallenge, Params: cf}, captchatest.Switches{Cloudflare: captchatest.Text}, "tok", clearance, "UA (X11; Linux)"},
		{"a challenge as pairs", Request{Method: CloudflareChallenge, Params: cf}, captchatest.Switches{Cloudflare: captchatest.Pairs}, "*", clearance, "UA (X11; Linux)"},
		{"Lemin", Request{Method: Lemin, Params: url.Values{"captcha_id": {"c"}, "div_id": {"d"}, "pageurl": {page}}}, captchatest.Switches{}, "*",
			map[string]string{"answer": "tok", "challenge_uuid": "uuid-70000000"}, ""},
		{"CaptchaFox", Request{Method: CaptchaFox, Params: url.Values{"sitekey": {"k"}, "pageurl": {page}, "proxy": {"10.0.0.1:1"}, "proxytype": {"HTTP"}}}, captchatest.Switches{}, "tok", nil, "Mozilla/5.0 (X11; Linux x86_64; captchatest)"},
		{"Friendly Captcha", Request{Method: FriendlyCaptcha, Params: url.Values{"sitekey": {"k"}, "pageurl": {page}}}, captchatest.Switches{}, "tok", nil, ""},
		{"an image in a part", Request{Method: Post, File: &File{"a.png", png}}, captchatest.Switches{}, "tok", nil, ""},
		{"an image of the old size", Request{Method: Post, File: &File{"a.png", png}}, captchatest.Switches{OldImageLimits: true}, "tok", nil, ""},
		{"BLS", Request{Method: BLS, Params: url.Values{"body": {"aGVsbG8="}}}, captchatest.Switches{}, "1,3,5", nil, ""},
	} {
		for _, plain := range []bool{false, true} {
			for _, form := range []Form{Mixed, Body, Query} {
				if plain && (tt.r.Method == CaptchaFox || tt.switches.Cloudflare == captchatest.Text) {
					continue // the plain form has no room for the User-Agent beside the token
				}
				onFakeClock(t, captchatest.Options{Outcome: func(captchatest.Task) captchatest.Outcome {
					return captchatest.Outcome{After: time.Second, Token: "tok"}
				}, Switches: func() captchatest.Switches { s := tt.switches; s.AlwaysPlain = plain; return s }()}, func(b *bench) {
					b.client.form = form
					res, err := b.client.Do(b.Context(), tt.r, b.slots.open)
					if err != nil {
						b.Fatalf("%s, plain %v, form %v: %v", tt.name, plain, form, err)
					}
					if tt.text != "*" && res.Text != tt.text || !maps.Equal(res.Fields, tt.fields) || res.UserAgent != tt.agent {
						b.Errorf("%s, plain %v, form %v: %+v, want %+v of %q", tt.name, plain, form, res, tt.fields, tt.agent)
					}
					if f := tt.r.File; f != nil && !bytes.Equal(b.service.Tasks()[0].Image, f.Content) {
						b.Errorf("%s: the image came otherwise", tt.name)
					}
				})
			}
		}
	}
}

func TestAnImageIsReadInOneCall(t *testing.T) {
	onFakeClock(t, captchatest.Options{}, func(b *bench) {
		res, err := b.client.ReadImage(b.Context(), Request{Method: Post, File: &File{"a.png", png}})
		if err != nil || res.Text == "" || b.calls("") != 1 {
			b.Errorf("%+v, %v after %d calls", res, err, b.calls(""))
		}
		if _, err := b.client.ReadImage(b.Context(), requestFor(v2)); err == nil {
			b.Error("a widget was read as an image")
		}
	})
}

func TestAccountAndReports(t *testing.T) {
	onFakeClock(t, captchatest.Options{Threads: 7}, func(b *bench) {
		b.service.SetForeign(3)
		id, err := b.client.Submit(b.Context(), requestFor(v2))
		if err != nil {
			b.Fatal(err)
		}
		if n, err := b.client.ThreadsInfo(b.Context()); err != nil || n != (Threads{Total: 7, Working: 4, Free: 3}) {
			b.Errorf("threads %+v, %v; want 7, 4 and 3", n, err)
		}
		if err := errors.Join(b.client.ReportGood(b.Context(), id), b.client.ReportBad(b.Context(), id)); err != nil {
			b.Error(err)
		}
		if err := b.client.ReportBad(b.Context(), "12"); err == nil {
			b.Error("a report of an unknown task was recorded")
		}
		b.service.Fail("/res.php", captchatest.Fault{Body: `{"status":1,"request":"12.50"}`}, captchatest.Fault{Body: "3"}, captchatest.Fault{Body: "NaN"},
			captchatest.Fault{Body: `{"threads":"4","working_threads":"1"}`}, captchatest.Fault{Body: `{"status":1,"request":{"threads":4,"free_threads":3}}`}, captchatest.Fault{Body: `{"status":1}`})
		for _, want := range []float64{12.5, 3} {
			if got, err := b.client.Balance(b.Context()); err != nil || got != want {
				b.Errorf("balance %v, %v; want %v", got, err, want)
			}
		}
		if _, err := b.client.Balance(b.Context()); err == nil {
			b.Error("NaN is a balance")
		}
		for range 2 {
			if n, err := b.client.ThreadsInfo(b.Context()); err != nil || n.Total != 4 || n.Free != 3 {
				b.Errorf("threads %+v, %v; want 4 and 3 free", n, err)
			}
		}
		if _, err := b.client.ThreadsInfo(b.Context()); err == nil {
			b.Error("a reply without threads told their number")
		}
	})
}
