package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// leasing is an API before a pool "eu" of the URLs, and its log.
func leasing(t *testing.T, capacity int, urls ...string) (http.Handler, *upstream.Pool, *bytes.Buffer) {
	t.Helper()
	conf := upstream.Config{Capacity: capacity, Idle: time.Minute, Wait: 10 * time.Second}
	for _, raw := range urls {
		u, err := upstream.Parse(raw)
		if err != nil {
			t.Fatal(err)
		}
		conf.Proxies = append(conf.Proxies, u)
	}
	o := testOptions(t)
	logged := new(bytes.Buffer)
	o.Log = slog.New(slog.NewTextHandler(logged, nil))
	o.Upstreams = upstream.NewPools(upstream.Options{
		Ledger: upstream.NewMemory(upstream.LeaseTime), Log: slog.New(slog.DiscardHandler),
		Dial:   new(net.Dialer).DialContext,
		Unused: func(*upstream.Exit) {}, Failed: func(string, upstream.Reason) {}, Waited: func(string, time.Duration) {},
	})
	t.Cleanup(func() { o.Upstreams.Close(context.Background()) })
	o.Upstreams.Reload(map[string]upstream.Config{"eu": conf})
	p := o.Upstreams.Pool("eu")
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if list, err := p.List(t.Context()); err != nil || time.Now().After(end) {
			t.Fatal("the pool is not declared", err)
		} else if len(list) == len(urls) {
			return New(o), p, logged
		}
	}
}

// holding has an owner hold a lease as long as the test.
func holding(t *testing.T, p *upstream.Pool, o upstream.Owner) *upstream.Lease {
	t.Helper()
	l, err := p.Lease(t.Context(), o, new(upstream.Patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Done)
	return l
}

// fetch is ask with a JSON body, whose answer must be of type T.
func fetch[T any](t *testing.T, h http.Handler, method, path, body string) (v T) {
	t.Helper()
	w := ask(h, method, path, sending(body))
	if w.Code != http.StatusOK {
		t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
	}
	if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func sending(body string) func(*http.Request) {
	return func(r *http.Request) {
		if body != "" {
			r.Body = io.NopCloser(strings.NewReader(body))
			r.Header.Set("Content-Type", "application/json")
		}
	}
}

func urls(list []Upstream) (urls []string) {
	for _, u := range list {
		urls = append(urls, u.URL)
	}
	return urls
}

func TestUpstreamsAreListedWithoutTheirCredentials(t *testing.T) {
	t.Parallel()
	api, p, _ := leasing(t, 2, "http://ana:hunter2@10.0.0.1:3128", "http://bob:hunter2@10.0.0.1:3128")
	l := holding(t, p, upstream.Worker("crawler", "w1"))
	w := ask(api, "GET", "/api/v1/upstreams?pool=eu")
	if strings.Contains(w.Body.String(), "hunter2") || strings.Contains(w.Body.String(), "ana") {
		t.Errorf("credentials are shown: %s", w.Body)
	}
	list := fetch[Upstreams](t, api, "GET", "/api/v1/upstreams", "").Upstreams
	if len(list) != 2 || list[0].ID == list[1].ID {
		t.Fatalf("listed: %+v", list)
	}
	for _, u := range list {
		want := "free"
		if u.ID == l.Exit().Upstream().ID() {
			want = "leased"
			if len(u.Leases) != 1 || u.Leases[0].Owner != "worker:crawler/w1" {
				t.Errorf("its leases are %v", u.Leases)
			}
		}
		if u.State != want || u.Pool != "eu" || u.URL != "http://10.0.0.1:3128" || u.Capacity != 2 || u.Source != "config" {
			t.Errorf("listed as %+v, want %s", u, want)
		}
	}
}

func TestUpstreamsAreAddedAndRemoved(t *testing.T) {
	t.Parallel()
	api, _, logged := leasing(t, 1, "http://10.0.0.1:3128")
	added := fetch[Upstream](t, api, "POST", "/api/v1/upstreams/eu", `{"url": "socks5://10.0.0.2", "username": "ana:b", "password": "hunter2%"}`)
	if added.URL != "socks5://10.0.0.2:1080" || added.Source != "added" {
		t.Errorf("added as %+v", added)
	}
	fetch[Upstream](t, api, "DELETE", "/api/v1/upstreams/eu/10.0.0.1:3128", "")
	list := fetch[Upstreams](t, api, "GET", "/api/v1/upstreams", "").Upstreams
	if got := urls(list); !slices.Equal(got, []string{"socks5://10.0.0.2:1080"}) {
		t.Errorf("listed: %v", got)
	}
	fetch[Upstream](t, api, "DELETE", "/api/v1/upstreams/eu/"+added.ID, "")
	if strings.Contains(logged.String(), "hunter2") || strings.Count(logged.String(), "upstream removed") != 2 {
		t.Errorf("logged: %s", logged)
	}
}

func TestALeaseIsReleased(t *testing.T) {
	t.Parallel()
	api, p, _ := leasing(t, 1, "http://10.0.0.1:3128", "http://10.0.0.2:3128")
	owner := upstream.Worker("crawler", "w1")
	first := holding(t, p, owner)
	released := fetch[Released](t, api, "POST", "/api/v1/upstreams/eu/release", `{"owner": "worker:crawler/w1"}`)
	if len(released.Leases) != 1 {
		t.Errorf("released: %+v", released)
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		next, err := p.Lease(t.Context(), owner, new(upstream.Patience))
		if err != nil || time.Now().After(end) {
			t.Fatal("the owner keeps its upstream", err)
		}
		moved := next.Exit() != first.Exit()
		next.Done()
		if moved {
			break
		}
	}
	at := first.Exit().Upstream().Addr()
	if got := fetch[Released](t, api, "POST", "/api/v1/upstreams/eu/release", `{"upstream": "`+at+`"}`); len(got.Leases) != 1 {
		t.Errorf("released by the upstream: %+v", got)
	}
}

func TestAnUpstreamThatNobodyUsesIsChecked(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	api, p, _ := leasing(t, 1, "http://"+ln.Addr().String(), "http://127.0.0.1:1")
	if c := fetch[Checked](t, api, "POST", "/api/v1/upstreams/eu/"+ln.Addr().String()+"/check", ""); c.Result != "ok" || c.Error != "" {
		t.Errorf("the one that is there: %+v", c)
	}
	if c := fetch[Checked](t, api, "POST", "/api/v1/upstreams/eu/127.0.0.1:1/check", ""); c.Result != "failed" || !strings.Contains(c.Error, "dial") {
		t.Errorf("the one that is not: %+v", c)
	}
	holding(t, p, upstream.Client("crawler")) // the other rests
	if c := fetch[Checked](t, api, "POST", "/api/v1/upstreams/eu/"+ln.Addr().String()+"/check", ""); c.Result != "in_use" {
		t.Errorf("the one in use: %+v", c)
	}
	list := fetch[Upstreams](t, api, "GET", "/api/v1/upstreams", "").Upstreams
	if i := slices.IndexFunc(list, func(u Upstream) bool { return u.State == "resting" }); i < 0 || list[i].Reason != "check" || list[i].Rests.IsZero() {
		t.Errorf("listed: %+v", list)
	}
}

func TestWrongCallsForUpstreams(t *testing.T) {
	t.Parallel()
	api, _, _ := leasing(t, 1, "http://ana:a@10.0.0.1:3128", "http://bob:b@10.0.0.1:3128")
	for _, tt := range []struct {
		name, method, path, body string
		status                   int
		code                     string
	}{
		{"a pool that is not there", "GET", "?pool=us", "", 404, "unknown_pool"},
		{"to add to one", "POST", "/us", `{"url": "http://10.0.0.2"}`, 404, "unknown_pool"},
		{"to add no URL", "POST", "/eu", `{"url": "10.0.0.2"}`, 422, "url"},
		{"to add with a name that no header can hold", "POST", "/eu", `{"url": "http://10.0.0.2", "username": "a:b"}`, 422, "url"},
		{"to add with a field that nobody knows", "POST", "/eu", `{"addr": "10.0.0.2"}`, 400, "body"},
		{"to remove what is not there", "DELETE", "/eu/10.0.0.9:1", "", 404, "unknown_upstream"},
		{"to remove one of two of one address", "DELETE", "/eu/10.0.0.1:3128", "", 409, "ambiguous"},
		{"to check what is not there", "POST", "/eu/10.0.0.9:1/check", "", 404, "unknown_upstream"},
		{"to release nothing in particular", "POST", "/eu/release", `{}`, 422, "body"},
		{"to release what nobody holds", "POST", "/eu/release", `{"owner": "worker:a/b"}`, 404, "unknown_lease"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			wantProblem(t, ask(api, tt.method, "/api/v1/upstreams"+tt.path, sending(tt.body)), tt.status, tt.code)
		})
	}
}
