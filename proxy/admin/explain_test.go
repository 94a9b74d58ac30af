package admin

import (
	"net/url"
	"strings"
	"testing"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "shop.test/default", "shop.test", "sid="+value+"; Secure", "cart="+value+"; Path=/cart", "csrftoken="+value)
	for _, tt := range []struct {
		name, query, site, session string
		refused                    string
		verdicts                   string // name, a sign, the beginning of the reason
	}{
		{"the session default", "url=https://shop.test/", "shop", "default", "",
			"cart - other path; sid + it is for; csrftoken - private name"},
		{"in the clear, as a client", "url=http://shop.test/cart&client=crawler", "shop", "default", "",
			"cart + it is for; sid - Secure; csrftoken - private name"},
		{"a session without cookies", "url=https://shop.test/&session=qa1", "shop", "qa1", "", ""},
		{"a session that the client may not use", "url=https://shop.test/&client=crawler&session=qa1", "shop", "qa1", "The proxy client crawler may not use the session qa1. Select one of default with the proxy user name crawler-session-ID.", ""},
		{"a host of no site", "url=https://evil.test/", "", "default", "No site declares evil.test: its requests pass as they are.", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(r, "GET", "/api/v1/explain?"+tt.query)
			r.clean(t, w)
			got := decode[Explanation](t, w)
			if q, _ := url.ParseQuery(tt.query); got.Client != q.Get("client") || got.Site != tt.site || got.Session != tt.session {
				t.Errorf("explained %+v", got)
			}
			wants := strings.FieldsFunc(tt.verdicts, func(c rune) bool { return c == ';' })
			if len(got.Cookies) != len(wants) || got.Cookies == nil {
				t.Fatalf("verdicts %+v, want %s", got.Cookies, tt.verdicts)
			}
			for i, want := range wants {
				v := got.Cookies[i]
				sign := map[bool]string{true: "+", false: "-"}[v.Sent]
				if line := v.Name + " " + sign + " " + v.Reason; !strings.HasPrefix(line, strings.TrimSpace(want)) || v.Domain != "shop.test" || v.Path[0] != '/' {
					t.Errorf("verdict %+v, want %s", v, want)
				}
			}
			if got.Refused != tt.refused {
				t.Errorf("refused %q, want %q", got.Refused, tt.refused)
			}
		})
	}
	for _, query := range []string{"", "?url=", "?url=shop.test/cart", "?url=/cart", "?url=https://a%20b/", "?url=https://"} {
		wantProblem(t, ask(r, "GET", "/api/v1/explain"+query), 400, "url")
	}
}
