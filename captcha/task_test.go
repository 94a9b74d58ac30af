package captcha

import (
	"strings"
	"testing"
)

func TestATaskIsCheckedBeforeItIsPaidFor(t *testing.T) {
	good := Task{Type: RecaptchaV3, Site: "shop.test", SiteKey: "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", Action: "login", Page: "https://shop.test/login"}
	for _, tt := range []struct {
		name   string
		change func(*Task)
		says   string // "": fine
	}{
		{"as it stands", func(*Task) {}, ""},
		{"an action with a slash", func(t *Task) { t.Action = "shop/login" }, ""},
		{"a type that nobody solves", func(t *Task) { t.Type = "hcaptcha" }, "not solved"},
		{"v3 without an action", func(t *Task) { t.Action = "" }, "needs the action"},
		{"v2 without an action", func(t *Task) { t.Type, t.Action = RecaptchaV2, "" }, ""},
		{"no sitekey", func(t *Task) { t.SiteKey = "" }, "sitekey"},
		{"a sitekey that reaches into another slot", func(t *Task) { t.SiteKey = "a}b{c" }, "sitekey"},
		{"a sitekey that holds the separator", func(t *Task) { t.SiteKey = "a:b" }, "sitekey"},
		{"a long sitekey", func(t *Task) { t.SiteKey = strings.Repeat("a", 101) }, "sitekey"},
		{"an action of another kind", func(t *Task) { t.Action = "log in" }, "action"},
		{"a site that holds a brace", func(t *Task) { t.Site = "{x}" }, "site key"},
		{"no page", func(t *Task) { t.Page = "" }, "whole URL"},
		{"a page that is a path", func(t *Task) { t.Page = "/login" }, "whole URL"},
		{"a page with credentials", func(t *Task) { t.Page = "https://u:p@shop.test/" }, "credentials"},
		{"a script for a page", func(t *Task) { t.Page = "javascript:alert(1)" }, "whole URL"},
	} {
		task := good
		tt.change(&task)
		switch err := task.Check(); {
		case tt.says == "" && err != nil:
			t.Errorf("%s: %v", tt.name, err)
		case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
			t.Errorf("%s: %v, want it to say %q", tt.name, err, tt.says)
		}
	}
}

func TestAKeyHasAnActionWhereItsTypeHasOne(t *testing.T) {
	for kind, want := range map[Type]string{RecaptchaV2: "", RecaptchaV2Invisible: "", RecaptchaV2Enterprise: "", RecaptchaV3: "a", RecaptchaV3Enterprise: "a", Turnstile: "a"} {
		if got := (Task{Type: kind, Action: "a"}).Key().Action; got != want {
			t.Errorf("%s: action %q, want %q", kind, got, want)
		}
	}
	k := Key{"shop.test", "6LeIxBcTAAAAAJcZVRqyHh71UMIEGNQ-MXjiZKh1", "login"}
	if got, want := k.String(), "shop.test:6LeIxB…ZKh1:login"; got != want {
		t.Errorf("a key prints as %q, want %q", got, want)
	}
}

func TestATokenThatIsNone(t *testing.T) {
	for name, token := range map[string]string{"nothing": "", "two lines": "a\nb", "a space": "a b", "not ASCII": "caf\u00e9", "NUL": "a\x00", "megabytes": strings.Repeat("a", MaxToken+1)} {
		if CheckToken(token) == nil {
			t.Errorf("%s was taken for a token", name)
		}
	}
	for _, token := range []string{"03AFcWeA-_x", "XXXX.DUMMY.TOKEN.XXXX", "abc|ERROR_x-def"} {
		if err := CheckToken(token); err != nil {
			t.Errorf("%s: %v", token, err)
		}
	}
}
