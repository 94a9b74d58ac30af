package captchatest

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestATokenIsJudgedAsItsProviderDoes(t *testing.T) {
	widgets := []Widget{
		{SiteKey: "K1", Secret: "S1", Hostnames: []string{"shop.test"}, Action: "login"},
		{SiteKey: "K2", Secret: "S2", Turnstile: true},
	}
	issued := func(key, action, host string) Issued {
		return Issued{Token: "tok", SiteKey: key, Action: action, Hostname: host}
	}
	for _, tt := range []struct {
		name   string
		issued Issued
		secret string
		token  string
		age    time.Duration
		want   string // the error code; "" taken
	}{
		{"a fresh token", issued("K1", "login", "shop.test"), "S1", "tok", time.Second, ""},
		{"after 121 s", issued("K1", "login", "shop.test"), "S1", "tok", 121 * time.Second, "timeout-or-duplicate"},
		{"Turnstile after 121 s", issued("K2", "", "x.test"), "S2", "tok", 121 * time.Second, ""},
		{"Turnstile after 301 s", issued("K2", "", "x.test"), "S2", "tok", 301 * time.Second, "timeout-or-duplicate"},
		{"of another key", issued("K2", "login", "shop.test"), "S1", "tok", 0, "invalid-input-response"},
		{"of another host", issued("K1", "login", "evil.test"), "S1", "tok", 0, "invalid-input-response"},
		{"of another action", issued("K1", "home", "shop.test"), "S1", "tok", 0, "action-mismatch"},
		{"that nobody issued", issued("K1", "login", "shop.test"), "S1", "other", 0, "invalid-input-response"},
		{"empty", issued("K1", "login", "shop.test"), "S1", "", 0, "missing-input-response"},
		{"with an unknown secret", issued("K1", "login", "shop.test"), "S9", "tok", 0, "invalid-input-secret"},
		{"with no secret", issued("K1", "login", "shop.test"), "", "tok", 0, "missing-input-secret"},
		{"Google's test secret takes any", issued("", "", ""), googleTestSecret, "any", 0, ""},
		{"Cloudflare's passing secret takes the dummy", issued("", "", ""), "1x0000000000000000000000000000000AA", dummyToken, 0, ""},
		{"and no other", issued("K2", "", ""), "1x0000000000000000000000000000000AA", "tok", 0, "invalid-input-response"},
		{"its failing secret takes none", issued("", "", ""), "2x0000000000000000000000000000000AA", dummyToken, 0, "invalid-input-response"},
		{"its third secret calls it spent", issued("", "", ""), "3x0000000000000000000000000000000AA", dummyToken, 0, "timeout-or-duplicate"},
		{"a real secret refuses the dummy", issued("K2", "", ""), "S2", dummyToken, 0, "invalid-input-response"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				v := NewVerifier(widgets...)
				tt.issued.At = time.Now()
				v.Issue(tt.issued)
				time.Sleep(tt.age)
				got := v.Check(tt.secret, tt.token)
				if got.Success != (tt.want == "") || tt.want != "" && got.ErrorCodes[0] != tt.want {
					t.Fatalf("%+v, want %q", got, tt.want)
				}
				if again := v.Check(tt.secret, tt.token); got.Success && again.Success && tt.secret[0] == 'S' {
					t.Error("taken twice")
				}
			})
		})
	}
}

func TestSiteverifyByFormAndByJSON(t *testing.T) {
	for _, body := range []string{url.Values{"secret": {"S"}, "response": {"tok"}}.Encode(), `{"secret":"S","response":"tok"}`} {
		v := NewVerifier(Widget{SiteKey: "K", Secret: "S"})
		v.Issue(Issued{Token: "tok", SiteKey: "K", At: time.Now()})
		r := httptest.NewRequest(http.MethodPost, "/siteverify", strings.NewReader(body))
		r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "application/x-www-form-urlencoded"}[body[0] == '{'])
		w := httptest.NewRecorder()
		v.ServeHTTP(w, r)
		var got Verdict
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !got.Success || v.Asked() != 1 {
			t.Errorf("%s: %+v, %v", body, got, err)
		}
	}
}
