package admin

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// sid is a cookie that the site shop takes, with changes.
func sid(change ...func(*CookieValue)) CookieValue {
	c := CookieValue{Name: "sid", Value: value, Domain: "shop.test", HostOnly: true, Path: "/"}
	for _, f := range change {
		f(&c)
	}
	return c
}

func named(name string) func(*CookieValue) {
	return func(c *CookieValue) { c.Name = Bytes(name) }
}

func at(domain string) func(*CookieValue) {
	return func(c *CookieValue) { c.Domain = domain }
}

func ofAll(c *CookieValue) { c.HostOnly = false }

// imports posts an import to the session qa1 of shop.
func imports(t *testing.T, r *road, body ImportCookies) CookiesImported {
	t.Helper()
	return decode[CookiesImported](t, post(t, r, body))
}

func post(t *testing.T, r *road, v any) *httptest.ResponseRecorder {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return ask(r, "POST", "/api/v1/sessions/shop/qa1/cookies/import", body(string(b)))
}

func TestImportJudgesEachCookie(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name         string
		cookie       CookieValue
		code, reason string // of a refusal
	}{
		{"a host cookie", sid(), "", ""},
		{"a domain cookie", sid(ofAll), "", ""},
		{"one of a subdomain", sid(at("www.shop.test"), ofAll), "", ""},
		{"a host in capitals", sid(at("WWW.shop.TEST")), "", ""},
		{"one without a name", sid(named("")), "", ""},
		{"one without a value", sid(func(c *CookieValue) { c.Value = "" }), "", ""},
		{"one that ends in an hour", sid(func(c *CookieValue) { c.Expires = time.Now().Add(time.Hour) }), "", ""},
		{"one that has ended", sid(func(c *CookieValue) { c.Expires = time.Unix(1, 0) }), "expired", "its life was over at 1970-01-01T00:00:01Z"},
		{"one of a foreign host", sid(at("evil.test")), "foreign_host", "its domain reaches no host of the site"},
		{"one of another site's host", sid(at("bank.shop.test")), "foreign_host", "its domain reaches no host of the site"},
		{"one of all hosts of a public suffix", sid(at("test"), ofAll), "cookie_domain", "everybody"},
		{"one of no host", sid(at("a b")), "cookie_domain", "no host"},
		{"a private name that is known", sid(named("csrftoken")), "private_name", "belongs to one worker"},
		{"the site's own private name", sid(named("mine")), "private_name", "belongs to one worker"},
		{"a control character", sid(func(c *CookieValue) { c.Value = "a\x00" }), "cookie_control", "control character"},
		{"too long a value", sid(func(c *CookieValue) { c.Value = Bytes(strings.Repeat("x", 5000)) }), "cookie_size", "4096"},
		{"a broken promise", sid(named("__Host-sid")), "cookie_prefix", "promises"},
		{"SameSite=None without Secure", sid(func(c *CookieValue) { c.SameSite = SameSite(session.SameSiteNone) }), "cookie_samesite", "wants Secure"},
		{"Partitioned without Secure", sid(func(c *CookieValue) { c.Partitioned = true }), "cookie_partitioned", "wants Secure"},
		{"no path", sid(func(c *CookieValue) { c.Path = "" }), "cookie_path", "slash"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t)
			for _, dry := range []bool{true, false} {
				w := post(t, r, ImportCookies{Cookies: []CookieValue{tt.cookie}, DryRun: dry})
				got := decode[CookiesImported](t, w)
				c := got.Cookies[0]
				if c.Code != tt.code || !strings.Contains(c.Reason, tt.reason) || (c.Result == Refused) != (tt.code != "") ||
					got.Refused+got.Taken != 1 || (got.Refused == 1) != (tt.code != "") || got.DryRun != dry {
					t.Errorf("dry run %t: %+v; want code %q, %q", dry, got, tt.code, tt.reason)
				}
				if holds := r.held(t, "shop.test/qa1") != session.ErrNotFound.Error(); holds != (tt.code == "" && !dry) {
					t.Errorf("dry run %t: the session holds %s", dry, r.held(t, "shop.test/qa1"))
				}
				r.clean(t, w)
			}
		})
	}
}

func TestImportMergesOrReplaces(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		replace bool
		cookies []CookieValue
		held    string
		removed string
		results []Result
	}{
		{"merged", false, []CookieValue{sid(), sid(named("old"), func(c *CookieValue) { c.Value = "1" })}, "old=1@shop.test/; kept=1@shop.test/; sid=THEVALUE@shop.test/", "", []Result{Set, Unchanged}},
		{"in the place of all", true, []CookieValue{sid(), sid(named("old"), func(c *CookieValue) { c.Value = "1" })}, "old=1@shop.test/; sid=THEVALUE@shop.test/", "kept", []Result{Set, Unchanged}},
		{"a name twice: the last one", false, []CookieValue{sid(named("old")), sid(named("old"), func(c *CookieValue) { c.Value = "2" })}, "old=2@shop.test/; kept=1@shop.test/", "", []Result{Refused, Set}},
		{"nothing that is taken replaces nothing", true, []CookieValue{sid(at("evil.test"))}, "old=1@shop.test/; kept=1@shop.test/", "", []Result{Refused}},
		{"no cookies at all neither", true, nil, "old=1@shop.test/; kept=1@shop.test/", "", nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRoad(t)
			one := func(c *CookieValue) { c.Value = "1" }
			imports(t, r, ImportCookies{Cookies: []CookieValue{sid(named("old"), one), sid(named("kept"), one)}})
			first := imports(t, r, ImportCookies{Cookies: tt.cookies, Replace: tt.replace, DryRun: true})
			if got := r.held(t, "shop.test/qa1"); got != "old=1@shop.test/; kept=1@shop.test/" {
				t.Fatalf("a dry run left %s", got)
			}
			got := imports(t, r, ImportCookies{Cookies: tt.cookies, Replace: tt.replace})
			first.DryRun = false
			for i := range first.Removed { // ages differ by nothing else
				first.Removed[i].Version = got.Removed[i].Version
			}
			if !reflect.DeepEqual(first, got) {
				t.Errorf("a dry run said\n%+v\nthen came\n%+v", first, got)
			}
			if held := r.held(t, "shop.test/qa1"); held != tt.held {
				t.Errorf("it holds %s, want %s", held, tt.held)
			}
			var results []Result
			for _, c := range got.Cookies {
				results = append(results, c.Result)
			}
			var removed []string
			for _, c := range got.Removed {
				removed = append(removed, c.Name)
			}
			if !reflect.DeepEqual(results, tt.results) || strings.Join(removed, " ") != tt.removed {
				t.Errorf("%v, removed %v; want %v, %s", results, removed, tt.results, tt.removed)
			}
		})
	}
}

// What was imported is as good as a login: no late reply takes it away.
func TestImportStandsAgainstALateReply(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "shop.test/qa1", "shop.test", "sid=1")
	before, err := r.store.Load(t.Context(), key("shop.test/qa1"))
	if err != nil {
		t.Fatal(err)
	}
	imports(t, r, ImportCookies{Cookies: []CookieValue{sid()}})
	late := before.Cookies()[0]
	_, outcomes, err := r.store.Apply(t.Context(), key("shop.test/qa1"), session.Update{Base: before.Version(), Cookies: []session.Cookie{late}}, session.Life{})
	if err != nil || outcomes[0] != session.Late {
		t.Errorf("outcomes %v, %v; want late", outcomes, err)
	}
}

func TestImportSaysWhatWasPushedOut(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "shop.test/qa1", "shop.test", "old=1")
	var many []CookieValue
	for i := range 181 {
		many = append(many, sid(named(fmt.Sprintf("c%d", i))))
	}
	got := imports(t, r, ImportCookies{Cookies: many})
	if got.Taken != 180 || got.Refused != 1 || got.Cookies[0].Code != "too_many" || len(got.Removed) != 1 || got.Removed[0].Name != "old" {
		t.Errorf("taken %d, refused %d, the first %+v, removed %+v; want the first without room, and old pushed out", got.Taken, got.Refused, got.Cookies[0], got.Removed)
	}
}

func TestImportIsReadStrictly(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for _, tt := range []struct {
		name, path string
		change     []func(*http.Request)
		status     int
		code       string
	}{
		{"no JSON", "shop/qa1", []func(*http.Request){body("sid=" + value)}, 400, "body"},
		{"a field that nobody knows", "shop/qa1", []func(*http.Request){body(`{"cookies": [{"name": "a", "Value": "` + value + `", "x": 1}]}`)}, 400, "body"},
		{"a SameSite that is none", "shop/qa1", []func(*http.Request){body(`{"cookies": [{"name": "a", "same_site": "` + value + `"}]}`)}, 400, "body"},
		{"a form", "shop/qa1", []func(*http.Request){body("a=1"), with("Content-Type", "application/x-www-form-urlencoded")}, 415, "content_type"},
		{"more than 32 MiB", "shop/qa1", []func(*http.Request){body(strings.Repeat(" ", maxImport+1))}, 413, "body_size"},
		{"more than 100000 cookies", "shop/qa1", []func(*http.Request){body(`{"cookies": [` + strings.Repeat("{},", maxImported) + `{}]}`)}, 413, "too_many"},
		{"an unknown site", "shp/qa1", []func(*http.Request){body("{}")}, 404, "unknown_site"},
		{"the session none", "shop/none", []func(*http.Request){body("{}")}, 404, "unknown_session"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := ask(r, "POST", "/api/v1/sessions/"+tt.path+"/cookies/import", tt.change...)
			wantProblem(t, w, tt.status, tt.code)
			r.clean(t, w)
		})
	}
}

// What is exported can be imported as it is, whatever bytes it is made of.
func TestExportIsAnImport(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	lines := []string{"sid=\xff\x80; Secure; HttpOnly; SameSite=None; Partitioned; Priority=High; Max-Age=60", "nameless", "empty=; Path=/caf\xe9", "k=1; Domain=shop.test; SameSite=Lax"}
	r.put(t, "shop.test/qa1", "shop.test", lines...)
	w := ask(r, "POST", "/api/v1/sessions/shop/qa1/cookies/export")
	exported := decode[CookiesExported](t, w)
	if len(exported.Cookies) != len(lines) {
		t.Fatalf("exported %s", w.Body)
	}
	if want := `msg="cookies revealed" by=token site=shop session=qa1 count=4`; !strings.Contains(r.log.String(), want) {
		t.Errorf("the log lacks %s:\n%s", want, &r.log)
	}
	before, err := r.store.Load(t.Context(), key("shop.test/qa1"))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(ImportCookies{Cookies: exported.Cookies})
	if err != nil {
		t.Fatal(err)
	}
	got := decode[CookiesImported](t, ask(r, "POST", "/api/v1/sessions/shop/qa2/cookies/import", body(string(b))))
	if got.Taken != len(lines) {
		t.Fatalf("%+v", got)
	}
	after, err := r.store.Load(t.Context(), key("shop.test/qa2"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range before.Cookies() {
		have, want := after.Cookies()[i], before.Cookies()[i]
		have.Created, have.Used, have.Version, have.Writer, have.Login = want.Created, want.Used, want.Version, want.Writer, want.Login
		if have != want {
			t.Errorf("%+v came back as %+v", want, have)
		}
	}
	wantProblem(t, ask(r, "POST", "/api/v1/sessions/shop/none-there/cookies/export"), 404, "unknown_session")
	wantProblem(t, ask(r, "GET", "/api/v1/sessions/shop/qa1/cookies/export"), 405, "method_not_allowed")
}
