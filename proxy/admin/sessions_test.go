package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// mark is in every name and value of the cookies that the tests store.
const mark = "MARKED"

// newStore has the sessions shop.test/default, shop.test/qa1 and old.test/default.
func newStore(t *testing.T) session.Store {
	t.Helper()
	store, err := embedded.Open(filepath.Join(t.TempDir(), "sessions.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	for _, key := range []session.Key{
		{Site: "shop.test", ID: "qa1"},
		{Site: "shop.test", ID: session.DefaultID},
		{Site: "shop.test", ID: session.DefaultID, Worker: "w1"},
		{Site: "old.test", ID: session.DefaultID},
	} {
		c, err := session.ParseSetCookie("sid_"+mark+"="+mark+"; Secure; Path=/",
			session.Setting{Host: key.Site, Path: "/", Secure: true}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := store.Apply(t.Context(), key, session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, session.Life{}); err != nil {
			t.Fatal(err)
		}
	}
	return store
}

func TestSessions(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	o.Store = newStore(t)
	o.Sites = func() []config.Site {
		return []config.Site{site(t, "shop", "shop.test", "shop.test"), site(t, "empty", "empty.test", "empty.test")}
	}
	api := New(o)
	for _, tt := range []struct {
		name, query string
		want        []string // site/session
	}{
		{"all, undeclared ones by their key", "", []string{"old.test/default", "shop/default", "shop/qa1"}},
		{"of one site", "?site=shop", []string{"shop/default", "shop/qa1"}},
		{"of one ID", "?session=default", []string{"old.test/default", "shop/default"}},
		{"of one site and ID", "?site=shop&session=qa1", []string{"shop/qa1"}},
		{"of a site that has none", "?site=empty", []string{}},
		{"of one that is no longer declared, by its key", "?site=old.test", []string{"old.test/default"}},
		{"of no site in particular", "?site=", []string{"old.test/default", "shop/default", "shop/qa1"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(api, "GET", "/api/v1/sessions"+tt.query)
			if w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			var body Sessions
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil {
				t.Fatal(err)
			}
			if body.Sessions == nil {
				t.Error("an empty list is null")
			}
			got := []string{}
			for _, s := range body.Sessions {
				got = append(got, s.Site+"/"+s.Session)
				if s.Cookies != 1 || s.Version == 0 || s.Created.IsZero() || s.Used.IsZero() || !s.Expires.After(s.Used) {
					t.Errorf("session %+v", s)
				}
			}
			if !reflect.DeepEqual(got, tt.want) {
				t.Errorf("sessions %v, want %v", got, tt.want)
			}
		})
	}
}

// The form is a contract: scripts read it.
func TestSessionsForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 13, 0, 0, 0, time.FixedZone("CET", 3600))
	o := testOptions(t)
	o.Store = listing{infos: []session.Info{{
		Key: session.Key{Site: "shop.test", ID: "qa1"}, Cookies: 3, Version: 1764590400000000,
		Created: at, Used: at.Add(time.Minute), Expires: at.Add(time.Hour),
	}}}
	o.EachUse = func(f func(session.Key, time.Time, string, string)) {
		f(session.Key{Site: "shop.test", ID: "qa1"}, at.Add(2*time.Minute).UTC(), "crawler", "w1")
	}
	const want = `{"sessions":[{"site":"shop","session":"qa1","state":"live","cookies":3,"version":1764590400000000,` +
		`"created":"2026-12-01T12:00:00Z","used":"2026-12-01T12:01:00Z","expires":"2026-12-01T13:00:00Z",` +
		`"last_use":{"at":"2026-12-01T12:02:00Z","client":"crawler","worker":"w1"},"login":{"verdict":"unknown"}}],"total":1}` + "\n"
	if got := ask(New(o), "GET", "/api/v1/sessions").Body.String(); got != want {
		t.Errorf("body %s, want %s", got, want)
	}
}

// A session that clients use is listed whether it holds cookies or not.
func TestSessionsThatHoldNothing(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "shop.test/live", "shop.test", "sid="+value)
	r.put(t, "shop.test/cleared", "shop.test", "sid="+value)
	r.put(t, "shop.test/over", "shop.test", "sid="+value)
	r.put(t, "shop.test/unused", "shop.test", "sid="+value)
	o := testOptions(t)
	o.Store, o.Revoke = r.store, r.store.Revoke
	o.EachUse = func(f func(session.Key, time.Time, string, string)) {
		for _, id := range []string{"live", "cleared", "over", "new"} {
			f(session.Key{Site: "shop.test", ID: id}, time.Now(), "crawler", "w1")
		}
		f(session.Key{Site: "bank.test", ID: "new"}, time.Now(), "crawler", "w1")
	}
	api := New(o)
	ask(api, "DELETE", "/api/v1/sessions/shop/cleared")
	ask(api, "POST", "/api/v1/sessions/shop/over/revoke")
	ask(api, "POST", "/api/v1/sessions/shop/unused/revoke")
	var got []string
	for _, s := range decode[Sessions](t, ask(api, "GET", "/api/v1/sessions?site=shop")).Sessions {
		if s.LastUse == nil || s.LastUse.Client != "crawler" || s.Revoked.IsZero() != (s.State != Revoked) || s.Created.IsZero() != (s.State != Live) {
			t.Errorf("%+v", s)
		}
		got = append(got, s.Session+" "+string(s.State))
	}
	if want := "cleared empty, live live, new empty, over revoked"; strings.Join(got, ", ") != want {
		t.Errorf("%s, want %s", strings.Join(got, ", "), want)
	}
	for id, want := range map[string]SessionState{"live": Live, "cleared": Empty, "over": Revoked, "new": Empty, "unused": Revoked} {
		if got := decode[SessionDetail](t, ask(api, "GET", "/api/v1/sessions/shop/"+id)); got.State != want || (len(got.Cookies) > 0) != (want == Live) {
			t.Errorf("%s: %+v, want %s", id, got, want)
		}
	}
}

func TestSessionsFollowAReload(t *testing.T) {
	t.Parallel()
	sites := []config.Site{site(t, "shop", "shop.test", "shop.test")}
	o := testOptions(t)
	o.Store = newStore(t)
	o.Sites = func() []config.Site { return sites }
	api := New(o)
	wantProblem(t, ask(api, "GET", "/api/v1/sessions?site=old"), 404, "unknown_site")
	sites = []config.Site{site(t, "old", "old.test", "old.test")}
	if w := ask(api, "GET", "/api/v1/sessions?site=old"); w.Code != 200 || !strings.Contains(w.Body.String(), `"site":"old","session":"default"`) {
		t.Errorf("after the reload: %d %s", w.Code, w.Body)
	}
}

func TestUnknownSiteNamesTheDeclared(t *testing.T) {
	t.Parallel()
	o := testOptions(t)
	for _, tt := range []struct {
		sites []config.Site
		want  string
	}{
		{nil, `No site has the name \"shp\". Declared: none.`},
		{[]config.Site{{Name: "bank"}, {Name: "shop"}}, `No site has the name \"shp\". Declared: \"bank\", \"shop\".`},
	} {
		o.Sites, o.Metrics = func() []config.Site { return tt.sites }, prometheus.NewRegistry()
		w := ask(New(o), "GET", "/api/v1/sessions?site=shp")
		wantProblem(t, w, 404, "unknown_site")
		if !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("body %s, want %s in it", w.Body, tt.want)
		}
	}
}

// The client reads that the store is down, the log reads why.
func TestStoreDown(t *testing.T) {
	t.Parallel()
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name   string
		ctx    context.Context
		logged bool
	}{
		{"for a client", t.Context(), true},
		{"for a client that left", gone, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			o := testOptions(t)
			o.Store = listing{err: errors.New("dial tcp 10.0.0.4:6379: i/o timeout")}
			o.Log = slog.New(slog.NewTextHandler(&log, nil))
			w := ask(New(o), "GET", "/api/v1/sessions", func(r *http.Request) { *r = *r.WithContext(tt.ctx) })
			wantProblem(t, w, 503, "store_unavailable")
			if strings.Contains(w.Body.String(), "10.0.0.4") {
				t.Errorf("the client reads the cause: %s", w.Body)
			}
			if got := strings.Contains(log.String(), "10.0.0.4"); got != tt.logged {
				t.Errorf("cause logged: %t, want %t: %s", got, tt.logged, &log)
			}
		})
	}
}

func TestNoAnswerShowsACookie(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	o := testOptions(t)
	o.Store = newStore(t)
	o.Log = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	api := New(o)
	for _, path := range []string{"/", "/ca.pem", "/proxy.pac", "/api/v1/version", "/api/v1/sessions", "/api/v1/sessions?site=shop", "/api/v1/sessions?site=nope"} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			w := ask(api, method, path)
			if strings.Contains(w.Body.String(), mark) {
				t.Errorf("%s %s shows a cookie: %s", method, path, w.Body)
			}
		}
	}
	if strings.Contains(log.String(), mark) || strings.Contains(log.String(), testToken) {
		t.Errorf("the log holds a secret: %s", &log)
	}
}
