package config

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
)

const apiKey = "0123456789abcdef0123456789abcdef"

func TestWidgetsAreReadAsTasks(t *testing.T) {
	t.Parallel()
	c := read(t, "", `
sites:
  - name: shop
    hosts: [www.shop.test]
    key: shop.test
    captcha:
      - {type: recaptcha_v3_enterprise, sitekey: k1, action: login, page: "https://shop.test/login", pool: 2, budget: {per_hour: 3}}
      - {type: turnstile, sitekey: k2, page: "https://shop.test/"}
      - {type: turnstile, sitekey: k2, action: signup, page: "https://shop.test/"}
captchaai: {key: `+apiKey+`, url: "http://127.0.0.1:8080/api", threads: 7}
`)
	s := c.Sites[0]
	if want := (CaptchaAI{Key: apiKey, URL: "http://127.0.0.1:8080/api", Threads: 7}); c.CaptchaAI != want {
		t.Errorf("%+v, want %+v", c.CaptchaAI, want)
	}
	want := captcha.Task{Type: captcha.RecaptchaV3Enterprise, Site: "shop.test", SiteKey: "k1", Action: "login", Page: "https://shop.test/login"}
	if got := s.Captcha[0]; got.Task(s) != want || got.Pool != 2 || got.Budget.PerHour != 3 {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := s.Captcha[1]; got.Pool != 0 || got.Budget.PerHour != 20 {
		t.Errorf("%+v, want no pool and 20 an hour by default", got)
	}
}

func TestTheKeyIsKnownByItsVariable(t *testing.T) {
	t.Parallel()
	env := map[string]string{"CAPTCHAAI_API_KEY": apiKey}
	other := strings.Repeat("f", 32)
	for _, tt := range []struct{ name, text, want string }{
		{"where the file names none", shop, apiKey},
		{"but the file beats it", shop + "captchaai: {key: " + other + "}", other},
	} {
		c, err := load(Source{File: "shop.yaml", LookupEnv: lookup(env)}, []byte(tt.text))
		if err != nil || c.CaptchaAI.Key != tt.want {
			t.Errorf("%s: %v, %v", tt.name, c, err)
		}
	}
	_, err := load(Source{File: "shop.yaml", LookupEnv: lookup(map[string]string{"CAPTCHAAI_API_KEY": "hunter2"})}, []byte(shop))
	if err == nil || !strings.HasPrefix(err.Error(), "CAPTCHAAI_API_KEY: ") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("%v, want a fault of the variable that does not hold it", err)
	}
}

func TestARuleSaysWhichFormsAndHow(t *testing.T) {
	t.Parallel()
	c := read(t, "", `
sites:
  - name: shop
    hosts: [shop.test]
    captcha:
      - {type: auto}
      - {type: recaptcha_v2, path: "/login*", field: $.captcha, when: missing, prefetch: none, max_wait: 40s, on_failure: forward}
      - {type: turnstile, method: GET, solver: static, token: XXXX.DUMMY.TOKEN.XXXX}
      - {type: turnstile, path: /a, sitekey: k1}
      - {type: turnstile, path: /b, sitekey: k1}
`)
	rules := c.Sites[0].Captcha
	if want := (Captcha{Type: "auto", Method: "POST", When: WhenEmpty, Solver: SolverCaptchaAI, Prefetch: PrefetchPage, Budget: CaptchaBudget{20}, OnFailure: Reject}); rules[0] != want {
		t.Errorf("the defaults are %+v, want %+v", rules[0], want)
	}
	if want := (Captcha{Type: "recaptcha_v2", Method: "POST", Path: "/login*", Field: "$.captcha", When: WhenMissing, Solver: SolverCaptchaAI,
		Prefetch: PrefetchNone, Budget: CaptchaBudget{20}, MaxWait: 40 * time.Second, OnFailure: Forward}); rules[1] != want {
		t.Errorf("%+v, want %+v", rules[1], want)
	}
	if a := rules[2].Ask(c.Sites[0]); rules[2].Method != "GET" || a.Static != "XXXX.DUMMY.TOKEN.XXXX" {
		t.Errorf("%+v asks for %+v, want the constant", rules[2], a)
	}
	if w := c.Sites[0].Widgets(); len(w) != 1 || w[0].SiteKey != "k1" {
		t.Errorf("widgets %+v, want the one that is named", w)
	}
}

// A captcha takes its time, so others wait longer for such a login.
func TestALoginWithACaptchaIsWaitedForLonger(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, login, captcha string
		want                 time.Duration
	}{
		{"no captcha", "path: /login", "", 30 * time.Second},
		{"any form", "path: /login", "{type: auto}", 150 * time.Second},
		{"its form", "path: /login", "{type: recaptcha_v2, path: /login}", 150 * time.Second},
		{"its form by a glob", "path: /login", `{type: recaptcha_v2, path: "/log*"}`, 150 * time.Second},
		{"a login by a glob", `path: "/realms/*/login"`, "{type: recaptcha_v2, path: /realms/shop/login}", 150 * time.Second},
		{"another form", "path: /login", "{type: recaptcha_v2, path: /contact}", 30 * time.Second},
		{"another method", "path: /login", "{type: turnstile, method: PUT, path: /login}", 30 * time.Second},
	} {
		for wait, want := range map[string]time.Duration{"": tt.want, ", wait: auto": tt.want, ", wait: 7s": 7 * time.Second} {
			c := read(t, "", fmt.Sprintf("sites: [{name: shop, hosts: [shop.test], captcha: [%s], login: {request: {%s}, logged_out: {status: [401]}%s}}]", tt.captcha, tt.login, wait))
			if got := c.Sites[0].Login.Wait; got != want {
				t.Errorf("%s%s: %v, want %v", tt.name, wait, got, want)
			}
		}
	}
}
