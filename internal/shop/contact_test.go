package shop

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestContact(t *testing.T) {
	t.Parallel()
	plain := options
	plain.Captcha = nil
	const refused = "Please show that you are not a robot."
	for _, tt := range []struct {
		name    string
		shop    Options
		form    string
		status  int
		says    string
		without string
	}{
		{"a good token", options, "message=Hello&g-recaptcha-response=human", 303, "", ""},
		{"a bad token", options, "message=Hello&g-recaptcha-response=robot", 403, refused, ""},
		{"an empty token", options, "message=Hello&g-recaptcha-response=", 403, refused, ""},
		{"no token, and the message stays", options, "message=Hello", 403, `value="Hello"`, ""},
		{"what was typed is escaped", options, "message=%22%3E%3Cb%3E", 403, "&lt;b&gt;", "<b>"},
		{"a shop without a captcha asks for none", plain, "message=Hello", 303, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/contact", strings.NewReader(tt.form+"&csrf_token=T"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set("Cookie", "csrftoken=T")
			w := httptest.NewRecorder()
			New(tt.shop).ServeHTTP(w, r)
			body := w.Body.String()
			if w.Code != tt.status || !strings.Contains(body, tt.says) || tt.without != "" && strings.Contains(body, tt.without) {
				t.Errorf("%d, want %d with %q and not %q:\n%s", w.Code, tt.status, tt.says, tt.without, body)
			}
			if to := w.Header().Get("Location"); tt.status == http.StatusSeeOther && to != "/thanks" {
				t.Errorf("leads to %q, want /thanks", to)
			}
		})
	}
}

// TestContactNeedsItsFormsToken: a foreign page must not have captchas spent.
func TestContactNeedsItsFormsToken(t *testing.T) {
	t.Parallel()
	spent := false
	o := options
	o.Captcha = &Captcha{SiteKey: "6Lshop", Solved: func(string) bool { spent = true; return true }}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/contact", strings.NewReader("g-recaptcha-response=human"))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	New(o).ServeHTTP(w, r)
	if w.Code != http.StatusForbidden || spent {
		t.Errorf("%d, token spent: %t, want 403 and false", w.Code, spent)
	}
}

func TestAShopWithoutACaptchaShowsNone(t *testing.T) {
	t.Parallel()
	o := options
	o.Captcha = nil
	w := httptest.NewRecorder()
	New(o).ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/contact", nil))
	if body := w.Body.String(); !strings.Contains(body, "Write to us") || strings.Contains(body, "recaptcha") {
		t.Errorf("want the form without a widget:\n%s", body)
	}
}
