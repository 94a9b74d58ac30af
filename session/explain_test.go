package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestExplain(t *testing.T) {
	t.Parallel()
	const from = "https://www.shop.test/app/"
	for _, tt := range []struct {
		name, set, to string
		change        func(*Request)
		sent          bool
		why           string
	}{
		{"it goes to the host that set it", "a=1; Path=/", from, nil, true, "it is for www.shop.test alone, / and below"},
		{"and to no other", "a=1", "https://shop.test/app/", nil, false, "other host: it is for www.shop.test alone"},
		{"one for a domain goes to a sibling", "a=1; Domain=shop.test; Path=/", "https://api.shop.test/app/", nil, true, "it is for shop.test and its subdomains, / and below"},
		{"and to no other domain", "a=1; Domain=shop.test", "https://shop.example/app/", nil, false, "other host: it is for shop.test and its subdomains"},
		{"it goes below its path", "a=1; Path=/app", "https://www.shop.test/app/cart", nil, true, "it is for www.shop.test alone, /app and below"},
		{"and nowhere else", "a=1; Path=/app", "https://www.shop.test/apple", nil, false, "other path: it is for /app and below"},
		{"Secure goes over TLS only", "a=1; Secure", "http://www.shop.test/app/", nil, false, "Secure: it goes over https only"},
		{"its life is over", "a=1; Max-Age=60", from, func(r *Request) { r.Now = noon.Add(time.Hour) }, false, "expired at 2026-12-01T12:01:00Z"},
		{"a private name", "csrftoken=1", from, nil, false, "private name: it belongs to one worker, not to the session"},
		{"a name that is not shared", "only_here=1", from, nil, false, "not shared: the site's list of shared names leaves it out"},
		{"a logout", "a=1", from, func(r *Request) { r.Logout = true }, false, "the request ends the login: it leaves without the session's cookies"},
		{"Strict, on a link from elsewhere", "a=1; SameSite=Strict", from, func(r *Request) { r.Whose = CrossNavigation }, false, "SameSite=Strict: a page of another site made the request"},
		{"Lax, on a link from elsewhere", "a=1; SameSite=Lax", from, func(r *Request) { r.Whose = CrossNavigation }, true, "it is for www.shop.test alone, /app and below"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			policy := NewPolicy([]string{"a", "csrf*"}, nil, false)
			jar := new(Jar).reply(t, from, tt.set)
			r := request(t, tt.to)
			if tt.change != nil {
				tt.change(&r)
			}
			got := jar.Explain(r, policy)
			if len(got) != 1 || got[0].Cookie != &jar.Cookies()[0] || got[0].Sent != tt.sent || got[0].Why != tt.why {
				t.Errorf("%+v, want sent %t, %q", got, tt.sent, tt.why)
			}
			if header := Merge(nil, r, jar, nil, policy).Header; (header != "") != tt.sent {
				t.Errorf("Cookie %q, and the verdict is %t", header, tt.sent)
			}
		})
	}
}

// What is said to go is what goes, over the limit of the header too.
func TestExplainSaysWhatMergeSends(t *testing.T) {
	t.Parallel()
	for _, n := range []int{0, 1, 5, 60} {
		jar := new(Jar)
		for i := range n {
			path := "/"
			if i%3 == 0 {
				path = "/cart"
			}
			u := Update{Base: Latest, Cookies: mustParse(t, shop, noon, fmt.Sprintf("c%d=%s; Path=%s", i, strings.Repeat("x", 300), path))}
			if i == 7 {
				u.Writer = ByLogin
			}
			jar, _ = jar.Apply(u, at(time.Duration(i)))
		}
		for _, to := range []string{"https://shop.test/", "https://shop.test/cart", "https://other.test/"} {
			var sent []string
			left := 0
			for _, v := range jar.Explain(request(t, to), sharing) {
				switch {
				case v.Sent:
					sent = append(sent, v.Cookie.Name+"="+v.Cookie.Value)
				case v.Why == "left out: the Cookie header would be longer than 8 KiB":
					left++
				}
			}
			m := Merge(nil, request(t, to), jar, nil, sharing)
			if got := strings.Join(sent, "; "); got != m.Header || left != m.Dropped {
				t.Errorf("%d cookies to %s: %d said to go and %d left out; Merge sends %d and drops %d", n, to, len(sent), left, m.Injected, m.Dropped)
			}
			if n == 60 && strings.HasPrefix(to, "https://shop.test") && (m.Dropped == 0 || !slices.ContainsFunc(sent, func(s string) bool { return strings.HasPrefix(s, "c7=") })) {
				t.Errorf("to %s: %d dropped; want some, and never the login's", to, m.Dropped)
			}
		}
	}
}
