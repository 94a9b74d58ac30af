package login

import (
	"net/http"
	"strings"
	"testing"
)

func TestAnswersForOthers(t *testing.T) {
	t.Parallel()
	const page = "https://shop.test/login?next=/orders"
	for _, tt := range []struct {
		name             string
		status           int
		location, body   string
		whole            bool
		wantStatus       int
		wantTo, wantBody string
	}{
		{"a redirect", 302, "/account", "moved", true, 302, "/account", ""},
		{"a redirect whose body is not to be had", 303, "/account?tab=1", "", false, 303, "/account?tab=1", ""},
		{"a page", 200, "", "<h1>Hello</h1>", true, 200, "", "<h1>Hello</h1>"},
		{"no content", 204, "", "", true, 204, "", ""},
		{"a page that is too long", 200, "", strings.Repeat("x", MaxAnswer+1), true, 303, page, ""},
		{"a page that is not to be had", 200, "", "", false, 303, page, ""},
		{"an authorization code", 302, "https://shop.test/callback?code=abc&state=xyz", "", true, 303, page, ""},
		{"a ticket", 302, "/app?Ticket=ST-1", "", true, 303, page, ""},
		{"a token in the fragment", 302, "/app#access_token=abc", "", true, 303, page, ""},
		{"a one-time link", 302, "/app?login_token=abc", "", true, 303, page, ""},
		{"a session in the path", 302, "/app;jsessionid=1", "", true, 303, page, ""},
		{"no URL", 302, "http://[", "", true, 303, page, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			resp := &http.Response{StatusCode: tt.status, Header: http.Header{
				"Content-Type": {"text/html"}, "Set-Cookie": {"csrftoken=of-the-holder"}, "X-Csrf": {"of-the-holder"}, "Etag": {"x"},
			}}
			if tt.location != "" {
				resp.Header.Set("Location", tt.location)
			}
			var body []byte
			if tt.whole {
				body = []byte(tt.body)
			}
			a := NewAnswer(resp, body)
			got := a.Response(&http.Request{}, page)
			if got.StatusCode != tt.wantStatus || got.Header.Get("Location") != tt.wantTo || string(a.Body) != tt.wantBody {
				t.Errorf("%d to %q with %.40q, want %d to %q with %q", got.StatusCode, got.Header.Get("Location"), a.Body, tt.wantStatus, tt.wantTo, tt.wantBody)
			}
			for name := range got.Header {
				if name != "Location" && name != "Content-Type" && name != "Cache-Control" {
					t.Errorf("it has the field %s", name)
				}
			}
		})
	}
	if got := (&Answer{Status: 303}).Response(&http.Request{}, "").Header.Get("Location"); got != "/" {
		t.Errorf("without a page to go back to: %q, want the root", got)
	}
}
