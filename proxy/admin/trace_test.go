package admin

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// aRecord has a bit of everything: the exchange a-1.
func aRecord(t *testing.T) *trace.Record {
	t.Helper()
	exit, err := upstream.Parse("http://user:pass@10.0.0.1:3128")
	if err != nil {
		t.Fatal(err)
	}
	c, err := session.ParseSetCookie("sid="+value, session.Setting{Host: "shop.test", Path: "/", Secure: true}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	jar, _ := new(session.Jar).Apply(session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, time.Now().UnixMicro())
	return &trace.Record{
		ID: "a-1", Start: time.Now(), Client: "crawler", Worker: "w1", Site: "shop", Session: "default", Selected: trace.ByDefault,
		Mode: "h1", Method: "POST", Host: "shop.test", Port: "443", Target: "/login?next=" + value, Status: 503, Outcome: trace.Failed,
		Key: key("shop.test/default"), Request: session.Request{Host: "shop.test", Path: "/login", Secure: true, Now: time.Now()},
		Cookie: []string{"theme=" + value}, Jar: jar, Policy: session.NewPolicy([]string{"*"}, nil, false),
		ReplyCookies: []trace.ReplyCookie{{Name: "sid", Captured: true, Why: "captured"}}, Judged: login.Judgment{Verdict: login.Out, Rule: "logged_out.status"},
		Pool: "eu", Exit: exit, Fills: []trace.Fill{{Type: "recaptcha_v2", Source: "pool", Outcome: "filled", Milliseconds: 0.2}},
		Spent: trace.Spent{Total: 2 * time.Second}, Code: "upstream_failed", Sentence: "The upstream failed.", Err: errors.New("dial: refused"),
	}
}

func TestExchangesAreListedAndFiltered(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for i, host := range []string{"shop.test", "www.shop.test", "other.test"} {
		rec := aRecord(t)
		rec.ID, rec.Host, rec.Client, rec.Outcome = fmt.Sprintf("a-%d", i+1), host, fmt.Sprintf("c%d", i+1), trace.Outcomes[i]
		r.trace.Add(rec)
	}
	for _, tt := range []struct{ query, want string }{
		{"", "a-3 a-2 a-1"},
		{"?limit=1", "a-3"},
		{"?host=*.shop.test", "a-2"},
		{"?host=SHOP.test", "a-1"},
		{"?client=c2", "a-2"},
		{"?worker=w1&site=shop&session=default&client=c3", "a-3"},
		{"?worker=w2", ""},
		{"?outcome=refused", "a-3"},
		{"?limit=0", ""},
	} {
		w := ask(r, "GET", "/api/v1/exchanges"+tt.query)
		var ids []string
		for _, e := range decode[Exchanges](t, w).Exchanges {
			ids = append(ids, e.ID)
		}
		if got := strings.Join(ids, " "); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.query, got, tt.want)
		}
		r.clean(t, w)
	}
	wantProblem(t, ask(r, "GET", "/api/v1/exchanges?limit=1001"), 400, "limit")
	wantProblem(t, ask(r, "GET", "/api/v1/exchanges?outcome=lost"), 400, "outcome")
	wantProblem(t, ask(r, "GET", "/api/v1/exchanges/a-9"), 404, "unknown_exchange")
}

func TestAnExchangeIsShownWithoutASecret(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.trace.Add(aRecord(t))
	w := ask(r, "GET", "/api/v1/exchanges/a-1")
	e := decode[trace.Exchange](t, w)
	if e.Path != "/login" || e.Lease == nil || e.Lease.Upstream != "http://10.0.0.1:3128" || len(e.Cookies) != 2 || e.Verdict != "out" {
		t.Errorf("%s", w.Body)
	}
	r.clean(t, w)
	if strings.Contains(w.Body.String(), "pass") {
		t.Errorf("the upstream's credentials are shown: %s", w.Body)
	}
}

// A stream begins where its reader says, goes on as exchanges end, and says what
// it could not keep.
func TestTraceStreams(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	server := httptest.NewServer(r)
	t.Cleanup(server.Close) // after the readers are
	add := func(n int) {
		for range n {
			r.trace.Add(aRecord(t))
		}
	}
	open := func(query string, lastID string) *bufio.Scanner {
		req, err := http.NewRequestWithContext(t.Context(), "GET", server.URL+"/api/v1/trace"+query, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = "localhost:8081"
		req.Header.Set("Authorization", "Bearer "+testToken)
		if lastID != "" {
			req.Header.Set("Last-Event-ID", lastID)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { resp.Body.Close() })
		lines := bufio.NewScanner(resp.Body)
		lines.Scan()
		if lines.Text() != ": exchanges of this proxy" {
			t.Fatalf("%s %q", resp.Status, lines.Text())
		}
		return lines
	}
	next := func(lines *bufio.Scanner) (event string) {
		for lines.Scan() && (event == "" || lines.Text() != "") {
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				var e trace.Exchange
				if err := json.Unmarshal([]byte(data), &e); err != nil {
					t.Fatalf("%q: %v", data, err)
				}
				if strings.Contains(data, value) {
					t.Errorf("a value is shown: %s", data)
				}
				if e.Number > 0 {
					data = fmt.Sprint(e.Number)
				}
				event += data
			} else if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				event += name + " "
			}
		}
		return event
	}
	add(3)
	for _, tt := range []struct{ query, lastID, want string }{
		{"?last=2", "", "exchange 2"},
		{"?last=1000&client=crawler", "", "exchange 1"},
		{"", "1", "exchange 2"},
	} {
		if got := next(open(tt.query, tt.lastID)); got != tt.want {
			t.Errorf("%q after %q: %q, want %q", tt.query, tt.lastID, got, tt.want)
		}
	}
	fresh := []*bufio.Scanner{open("", ""), open("", "3"), open("?last=0", "999")}
	add(1)
	for _, lines := range fresh {
		if got := next(lines); got != "exchange 4" {
			t.Errorf("%q, want the exchange that came", got)
		}
	}
	wantProblem(t, ask(r, "GET", "/api/v1/trace?last=x"), 400, "last")

	add(trace.Kept + 5)
	if got, want := next(open("", "4")), "lost {\"lost\":5}"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
