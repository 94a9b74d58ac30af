package session

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
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

// What a client sends itself is told beside what the jars have.
func TestExplainTellsOfTheClientsOwnCookies(t *testing.T) {
	t.Parallel()
	own := NewPolicy([]string{"*"}, nil, false)
	shared := new(Jar).reply(t, "https://shop.test/", "sid=new; Path=/").reply(t, "https://shop.test/", "admin=1; Path=/admin").reply(t, "https://shop.test/", "strict=1; Path=/; SameSite=Strict")
	private := new(Jar).reply(t, "https://shop.test/", "csrftoken=p; Path=/")
	revoked := new(Jar).reply(t, "https://shop.test/", "sid=old; Path=/").Revoke(at(time.Hour))
	cross := func(w Whose) func(*Request) { return func(r *Request) { r.Whose = w } }
	for _, tt := range []struct {
		name, client string
		jar          *Jar
		policy       *Policy
		change       func(*Request)
		cookie, from string
		sent         bool
		why          string
	}{
		{"the session's value replaces the client's", "sid=old", shared, own, nil, "sid", "client", false, "replaced: the session has its own"},
		{"and goes", "sid=old", shared, own, nil, "sid", "session", true, "it is for shop.test alone, / and below"},
		{"a name that the session lacks", "theme=dark", shared, own, nil, "theme", "client", true, "the client's own: the session has no cookie of this name"},
		{"a name that the session has elsewhere", "admin=9", shared, own, nil, "admin", "client", true, "the client's own: no cookie of the session of this name goes with this request"},
		{"the client wins", "sid=old", shared, NewPolicy([]string{"*"}, nil, true), nil, "sid", "client", true, "the client's own: the site has precedence: client"},
		{"and the session loses", "sid=old", shared, NewPolicy([]string{"*"}, nil, true), nil, "sid", "session", false, "precedence: client: the client sent its own"},
		{"a private cookie of the worker", "", shared, own, nil, "csrftoken", "worker", true, "it is for shop.test alone, / and below"},
		{"a private cookie that the client keeps", "csrftoken=c", shared, own, nil, "csrftoken", "client", true, "the client's own: it keeps this private cookie itself"},
		{"and the worker's jar does not", "csrftoken=c", shared, own, nil, "csrftoken", "worker", false, "the client keeps this private cookie itself"},
		{"a revoked name", "sid=old", revoked, own, nil, "sid", "client", false, "cut: the session was revoked, and no reply has set this name since"},
		{"a logout cuts the client's copy", "sid=old", shared, own, func(r *Request) { r.Logout = true }, "sid", "client", false, "cut: the request ends the login, and leaves without the session's cookies"},
		{"and the session's", "sid=old", shared, own, func(r *Request) { r.Logout = true }, "sid", "session", false, "the request ends the login: it leaves without the session's cookies"},
		{"a foreign page's request has no name of its own", "", shared, own, cross(Cross), "sid", "session", false, "a page of another site made the request, and its browser sent no cookie of this name"},
		{"and what its browser sent is made new", "sid=old", shared, own, cross(Cross), "sid", "session", true, "it is for shop.test alone, / and below"},
		{"Strict, which the browser let go", "strict=0", shared, own, cross(CrossNavigation), "strict", "session", true, "it is for shop.test alone, / and below"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := request(t, "https://shop.test/")
			if tt.change != nil {
				tt.change(&r)
			}
			for _, v := range Explain([]string{tt.client}, r, tt.jar, private, tt.policy) {
				if v.Cookie.Name == tt.cookie && string(v.From) == tt.from {
					if v.Sent != tt.sent || v.Why != tt.why {
						t.Errorf("sent %t, %q; want %t, %q", v.Sent, v.Why, tt.sent, tt.why)
					}
					return
				}
			}
			t.Errorf("nothing is told of %s of the %s", tt.cookie, tt.from)
		})
	}
}

// The verdicts that say sent are the header, whoever asks and whatever it sends.
func TestExplainTellsTheHeader(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		names := rapid.SampledFrom([]string{"a", "b", "csrftoken", "long", ""})
		draw := func(label string) *Jar {
			j := new(Jar)
			for i := range rapid.IntRange(0, 6).Draw(rt, label) {
				value := fmt.Sprint(rapid.IntRange(0, 2).Draw(rt, "value"))
				name := names.Draw(rt, "name")
				if name == "long" {
					value = strings.Repeat(value, 3500)
				}
				line := name + "=" + value + rapid.SampledFrom([]string{"; Path=/", "; Path=/x", "; Path=/; SameSite=Strict", "; Path=/x; SameSite=None; Secure", "; Domain=shop.test; Path=/"}).Draw(rt, "rest")
				j, _ = j.Apply(Update{Base: Latest, Cookies: mustParse(t, "https://shop.test/", noon, line)}, at(time.Duration(i)))
			}
			if rapid.IntRange(0, 5).Draw(rt, "revoked") == 0 {
				j = j.Revoke(at(time.Minute))
			}
			return j
		}
		shared, private := draw("shared"), draw("private")
		var client []string
		for range rapid.IntRange(0, 2).Draw(rt, "lines") {
			var line []string
			for range rapid.IntRange(0, 3).Draw(rt, "pairs") {
				line = append(line, rapid.SampledFrom([]string{"a=0", "a=9", "b=1", "csrftoken=2", "other=1", "0", ""}).Draw(rt, "pair"))
			}
			client = append(client, strings.Join(line, rapid.SampledFrom([]string{"; ", ";"}).Draw(rt, "separator")))
		}
		r := request(t, rapid.SampledFrom([]string{"https://shop.test/x", "https://shop.test/", "http://shop.test/x"}).Draw(rt, "to"))
		r.Whose = rapid.SampledFrom([]Whose{Own, CrossNavigation, Cross}).Draw(rt, "whose")
		r.Logout = rapid.Bool().Draw(rt, "logout")
		policy := NewPolicy([]string{"*"}, nil, rapid.Bool().Draw(rt, "client wins"))

		header := pairs([]string{Merge(client, r, shared, private, policy).Header})
		sent := 0
		for _, v := range Explain(client, r, shared, private, policy) {
			if v.Why == "" {
				rt.Errorf("%s of the %s: no word why", v.Cookie.Name, v.From)
			}
			if !v.Sent {
				continue
			}
			sent++
			if !slices.ContainsFunc(header, func(pair string) bool { return pairName(pair) == v.Cookie.Name }) {
				rt.Errorf("%s of the %s is said to go, and the header is %q", v.Cookie.Name, v.From, header)
			}
		}
		if sent != len(header) {
			rt.Errorf("%d cookies are said to go, and the header is %q", sent, header)
		}
	})
}
