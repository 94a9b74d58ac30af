package captchaai

import (
	"strings"
	"testing"
)

// Whatever a service writes, a reply is either an error's code or an answer,
// and no answer reads as a code.
func FuzzReply(f *testing.F) {
	for _, s := range []string{
		"", "OK|77", "OK|abc|ERROR_x-def", "OK|", "CAPCHA_NOT_READY", "ERROR: 1001", "ERROR_ZERO_BALANCE", "<html>", "12.5",
		`{"status":1,"request":77}`, `{"status":1,"request":"tok"}`, `{"status":0,"request":"CAPCHA_NOT_READY"}`, `{"status":1,"request":"OK|t"}`,
		`{"status":1,"request":{"geetest_challenge":"a"}}`, `{"status":1,"request":"{\"challenge\":\"a\"}"}`, `{"threads":5}`, `{"status":1`, "\xef\xbb\xbfOK|1",
		"OK|cf_clearance=a;user_agent=b; c", "OK|challenge:a,validate:b,seccode:c",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := parseReply(body)
		if err != nil {
			if r.code != "" || r.text != "" {
				t.Errorf("an error and %+v of %q", r, body)
			}
			return
		}
		if isCode.MatchString(r.text) && r.code == "" && !strings.Contains(string(body), "OK|") {
			t.Errorf("the code %q of %q is an answer", r.text, body)
		}
		if r.code != "" {
			classOf(r.code)
			return
		}
		for method := range needed {
			if res, ok := resultOf(method, r); ok && res.Text == "" {
				t.Errorf("%s: an answer without text of %q", method, body)
			}
		}
		count(r.all["threads"])
	})
}
