package admin

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/group"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// turn asks for one page after the other, and returns what each lists.
func turn[T any](t *testing.T, ask func(query string) T, read func(T) (rows []string, total int, next string)) (all []string) {
	t.Helper()
	after := ""
	for range 20 {
		rows, total, next := read(ask("&after=" + after))
		all = append(all, fmt.Sprintf("%s of %d", strings.Join(rows, " "), total))
		if next == "" {
			return all
		}
		after = next
	}
	t.Fatal("the pages have no end")
	return nil
}

func TestSessionsArePagedAndSearched(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Sites = func() []config.Site {
		return []config.Site{site(t, "shop", "shop.test", "shop.test"), site(t, "a/b", "bank.test", "bank.test")}
	}
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	var infos []session.Info
	for i, in := range []string{"shop.test/a", "shop.test/b", "shop.test/c", "bank.test/a", "old.test/a"} {
		infos = append(infos, session.Info{Key: key(in), Cookies: 1, Used: noon.Add(time.Duration(i) * time.Minute), Expires: noon.Add(time.Hour)})
	}
	o.Store = listing{infos: infos}
	o.EachUse = func(f func(session.Key, time.Time, string, string)) {
		f(key("shop.test/a"), noon.Add(time.Hour), "crawler", "Zeta-7") // later than the store was told
	}
	api := New(o)
	for _, tt := range []struct{ name, query, want string }{
		{"all at once", "", "a/b/a old.test/a shop/a shop/b shop/c of 5"},
		{"in pages", "limit=2", "a/b/a old.test/a of 5 | shop/a shop/b of 5 | shop/c of 5"},
		{"in a page that is just full", "limit=5", "a/b/a old.test/a shop/a shop/b shop/c of 5"},
		{"the last used first", "order=used&limit=3", "shop/a old.test/a a/b/a of 5 | shop/c shop/b of 5"},
		{"by a part of the site's name, in any case", "q=SHO&limit=2", "shop/a shop/b of 3 | shop/c of 3"},
		{"by the session", "q=c", "shop/a shop/c of 2"}, // of the client crawler
		{"by the worker", "q=zeta", "shop/a of 1"},
		{"of one site", "site=shop&limit=1", "shop/a of 3 | shop/b of 3 | shop/c of 3"},
		{"by what nothing has", "q=nothing", " of 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := turn(t, func(after string) Sessions {
				return decode[Sessions](t, ask(api, "GET", "/api/v1/sessions?"+tt.query+after))
			}, func(list Sessions) (rows []string, total int, next string) {
				for _, s := range list.Sessions {
					rows = append(rows, s.Site+"/"+s.Session)
				}
				return rows, list.Total, list.Next
			})
			if strings.Join(got, " | ") != tt.want {
				t.Errorf("%q, want %q", strings.Join(got, " | "), tt.want)
			}
		})
	}
	for _, query := range []string{"limit=0", "limit=1001", "limit=x", "after=%25", "order=size"} {
		name, _, _ := strings.Cut(query, "=")
		wantProblem(t, ask(api, "GET", "/api/v1/sessions?"+query), 422, name)
	}
}

// What a page shows is all that is looked at closely.
func TestAPageCostsNoMoreThanItsRows(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	var infos []session.Info
	for i := range 10_000 {
		infos = append(infos, session.Info{Key: session.Key{Site: "shop.test", ID: fmt.Sprintf("s%05d", i)}, Cookies: 1})
	}
	o.Store = listing{infos: infos}
	looked := 0
	o.LoginStatus = func(context.Context, session.Key) login.Status { looked++; return login.Status{} }
	list := decode[Sessions](t, ask(New(o), "GET", "/api/v1/sessions?limit=50&order=used"))
	if len(list.Sessions) != 50 || list.Total != 10_000 || looked != 50 {
		t.Errorf("%d of %d sessions, %d looked at", len(list.Sessions), list.Total, looked)
	}
}

func TestUpstreamsArePagedAndCounted(t *testing.T) {
	t.Parallel()
	api, pool, _ := leasing(t, 1, "http://10.0.0.1:3128", "http://10.0.0.2:3128", "http://10.0.0.3:3128")
	holding(t, pool, upstream.Worker("crawler", "w1"))
	first := decode[Upstreams](t, ask(api, "GET", "/api/v1/upstreams?limit=2"))
	if len(first.Upstreams) != 2 || first.Total != 3 || first.Next == "" {
		t.Errorf("%+v", first)
	}
	if got, want := fmt.Sprintf("%+v", first.States), "[{Pool:eu Free:2 Leased:1 Taken:0 Resting:0 Waiting:0}]"; got != want {
		t.Errorf("states %s, want %s", got, want)
	}
	second := decode[Upstreams](t, ask(api, "GET", "/api/v1/upstreams?limit=2&after="+first.Next))
	if len(second.Upstreams) != 1 || second.Upstreams[0].URL != "http://10.0.0.3:3128" || second.Next != "" {
		t.Errorf("%+v", second)
	}
	held := decode[Upstreams](t, ask(api, "GET", "/api/v1/upstreams?q=CRAWLER"))
	if held.Total != 1 || len(held.Upstreams[0].Leases) != 1 || held.States[0].Free != 2 {
		t.Errorf("%+v", held)
	}
}

func TestAReloadIsAnsweredWithItsFaults(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	read := 0
	o.Reload = func(context.Context) { read++ }
	o.Config = func() Config { return Config{Faults: []Fault{{"sp.yaml:1:1", "it is wrong", "mend it"}}} }
	api := New(o)
	got := decode[Config](t, ask(api, "POST", "/api/v1/config/reload"))
	if read != 1 || len(got.Faults) != 1 || got.Faults[0].Remedy != "mend it" {
		t.Errorf("read %d times: %+v", read, got)
	}
}

func TestLoginsSayWhyARecipeRests(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	shop, bank := site(t, "shop", "shop.test", "shop.test"), site(t, "bank", "bank.test", "bank.test")
	shop.Login = &config.Login{Recipe: []config.LoginStep{{}}, Accounts: []config.Account{{ID: "default", User: "MARKED", Password: "MARKED"}, {ID: "qa1"}}}
	bank.Login = &config.Login{}
	o.Sites = func() []config.Site { return []config.Site{shop, bank, site(t, "plain", "plain.test", "plain.test")} }
	until := time.Now().Add(24 * time.Hour)
	o.LoginStatus = func(_ context.Context, k session.Key) login.Status {
		if k.ID == "qa1" {
			return login.Status{Failed: &login.RestError{Failures: 5, Until: until, Why: "step 2: the site did not take the login"}}
		}
		return login.Status{}
	}
	w := ask(New(o), "GET", "/api/v1/logins")
	list := decode[Logins](t, w)
	if len(list.Sites) != 2 || !list.Sites[0].Recipe || list.Sites[1].Recipe || len(list.Sites[0].Accounts) != 2 {
		t.Fatalf("%+v", list)
	}
	if l := list.Sites[0].Accounts[1].Login; l.Failures != 5 || l.Error != "step 2: the site did not take the login" || !l.NextTry.Equal(until) {
		t.Errorf("%+v", l)
	}
	if strings.Contains(w.Body.String(), "MARKED") {
		t.Errorf("an account's name or password is shown: %s", w.Body)
	}
}

func TestTheOverviewIsOfAllProxies(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	got := decode[Overview](t, ask(New(o), "GET", "/api/v1/overview"))
	if len(got.Proxies) != 1 || !got.Proxies[0].Here || got.Proxies[0].Host != "here" || len(got.Points) != 120 || got.Partial {
		t.Errorf("%+v", got.Proxies)
	}
	o = testOptions(t)
	o.Group = group.Join(group.Options{Store: awayStore{}, Log: o.Log, Count: func() group.Counts { return group.Counts{} }})
	t.Cleanup(o.Group.Leave)
	if got := decode[Overview](t, ask(New(o), "GET", "/api/v1/overview")); !got.Partial || len(got.Proxies) != 1 {
		t.Errorf("without the store: %+v", got.Proxies)
	}
}

// awayStore does not answer.
type awayStore struct{ access.Store }

var errAway = errors.New("away")

func (awayStore) Get(context.Context, string) ([]byte, error)             { return nil, errAway }
func (awayStore) List(context.Context, string) (map[string][]byte, error) { return nil, errAway }

func TestAFileOfCookiesGoesInAndOut(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	const path = "/api/v1/sessions/shop/qa1/cookies/"
	const file = `# Netscape HTTP Cookie File\nshop.test\tFALSE\t/\tTRUE\t0\tsid\t` + value + `\n`
	in := decode[CookiesImported](t, ask(r, "POST", path+"import", body(`{"file": "`+file+`"}`)))
	if in.Taken != 1 || in.Cookies[0].Name != "sid" {
		t.Errorf("%+v", in)
	}
	if got, want := r.held(t, "shop.test/qa1"), "sid="+value+"@shop.test/"; got != want {
		t.Errorf("it holds %s, want %s", got, want)
	}
	out := decode[CookiesExported](t, ask(r, "POST", path+"export?format=netscape"))
	if want := "shop.test\tFALSE\t/\tTRUE\t0\tsid\t" + value; !strings.Contains(out.File, want) {
		t.Errorf("the file %q, want in it %q", out.File, want)
	}
	for query, code := range map[string]string{"format=har": "format", "format=xml": "format"} {
		wantProblem(t, ask(r, "POST", path+"export?"+query), 422, code)
	}
	for text, code := range map[string]string{
		`{"file": "no cookies"}`: "file",
		`{"file": "[]"}`:         "file",
		`{"file": "[]", "cookies": [{"name": "a", "value": "` + value + `", "domain": "shop.test", "path": "/"}]}`: "body",
	} {
		w := ask(r, "POST", path+"import", body(text))
		wantProblem(t, w, 422, code)
		r.clean(t, w)
	}
	w := ask(r, "POST", path+"import", body(`{"file": "{\"log\": {\"entries\": []}}"}`))
	wantProblem(t, w, 422, "file")
	if !strings.Contains(w.Body.String(), "Chrome leaves the cookies out") {
		t.Errorf("a HAR without its cookies: %s", w.Body)
	}
}

// Who comes late may ask for what was heard before, and no more than that.
func TestAListenerMayBeginWithTheLastEvents(t *testing.T) {
	t.Parallel()
	e := events(t, newAuthority(t))
	early, stop := e.listen(0)
	defer stop()
	for _, line := range []string{"one", "two", "three"} {
		e.hear(access.Message{Topic: topicEvent, Body: line})
		if got := <-early; got != line {
			t.Fatalf("%q came, want %q", got, line)
		}
	}
	late, stop := e.listen(2)
	defer stop()
	if got := []string{<-late, <-late}; got[0] != "two" || got[1] != "three" || len(late) != 0 {
		t.Errorf("it begins with %q, and %d more", got, len(late))
	}
	all, stop := e.listen(1 << 40)
	defer stop()
	if len(all) != 3 {
		t.Errorf("%d of 3 lines", len(all))
	}
	wantProblem(t, ask(New(testOptions(t)), "GET", "/api/v1/events?last=-1"), 422, "last")
}
