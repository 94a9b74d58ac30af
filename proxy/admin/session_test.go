package admin

import (
	"errors"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

func TestSites(t *testing.T) {
	t.Parallel()
	const want = `{"sites":[{"name":"shop","hosts":["*.shop.test","shop.test"]},{"name":"the/bank","hosts":["bank.shop.test"]}]}` + "\n"
	if got := ask(newRoad(t), "GET", "/api/v1/sites").Body.String(); got != want {
		t.Errorf("body %s, want %s", got, want)
	}
	o := testOptions(t)
	o.Sites = func() []config.Site { return nil }
	if got, want := ask(New(o), "GET", "/api/v1/sites").Body.String(), `{"sites":[]}`+"\n"; got != want {
		t.Errorf("without sites: body %s, want %s", got, want)
	}
}

func TestSessionDetail(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "shop.test/qa1", "www.shop.test",
		"sid="+value+"; Path=/; Secure; HttpOnly; SameSite=Lax; Max-Age=3600",
		"lang="+value+value+"; Domain=shop.test; Path=/app", "gone="+value+"; Max-Age=0", value, "p="+value+"; Secure; SameSite=None; Partitioned")
	w := ask(r, "GET", "/api/v1/sessions/shop/qa1")
	r.clean(t, w)
	got := decode[SessionDetail](t, w)
	if got.Site != "shop" || got.Session.Session != "qa1" || got.State != Live || got.Version == 0 || got.Created.IsZero() || got.Used.IsZero() || !got.Expires.After(got.Used) {
		t.Errorf("session %+v", got)
	}
	for i := range got.Cookies {
		c := &got.Cookies[i]
		if c.Created.IsZero() || c.Version == 0 || c.Writer != "reply" {
			t.Errorf("cookie %+v", c)
		}
		if c.Name == "sid" && !c.Expires.After(time.Now()) {
			t.Errorf("it expires at %s", c.Expires)
		}
		c.Created, c.Version, c.Writer, c.Expires = time.Time{}, 0, "", time.Time{}
	}
	if want := []Cookie{
		{Name: "lang", ValueBytes: 16, Domain: "shop.test", Path: "/app"},
		{Name: "sid", ValueBytes: 8, Domain: "www.shop.test", HostOnly: true, Path: "/", Secure: true, HTTPOnly: true, SameSite: "lax"},
		{Name: "", ValueBytes: 8, Domain: "www.shop.test", HostOnly: true, Path: "/"},
		{Name: "p", ValueBytes: 8, Domain: "www.shop.test", HostOnly: true, Path: "/", Secure: true, SameSite: "none", Partitioned: true},
	}; !reflect.DeepEqual(got.Cookies, want) {
		t.Errorf("cookies %+v, want %+v", got.Cookies, want)
	}
}

// The form is a contract: scripts read it.
func TestCookieForm(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	w := httptest.NewRecorder()
	writeJSON(w, 200, "application/json", showCookie(&session.Cookie{
		Name: "sid", Value: value, Domain: "shop.test", HostOnly: true, Path: "/", Secure: true, HTTPOnly: true,
		SameSite: session.SameSiteStrict, Priority: "High", Created: at, Version: 7, Writer: session.ByOperator,
	}))
	const want = `{"name":"sid","value_bytes":8,"domain":"shop.test","host_only":true,"path":"/","secure":true,"http_only":true,` +
		`"same_site":"strict","partitioned":false,"priority":"High","created":"2026-12-01T12:00:00Z","writer":"operator","version":7}` + "\n"
	if got := w.Body.String(); got != want {
		t.Errorf("body %s, want %s", got, want)
	}
}

func TestWhatCanBeNoSession(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	r.put(t, "shop.test/default", "shop.test", "sid="+value)
	for _, tt := range []struct{ name, path, code string }{
		{"a session that holds nothing", "shop/qa1", "unknown_session"},
		{"none stands for no session", "shop/none", "unknown_session"},
		{"an ID with a space", "shop/a%20b", "unknown_session"},
		{"an ID that is too long", "shop/" + strings.Repeat("a", 65), "unknown_session"},
		{"a site that is not declared", "shp/default", "unknown_site"},
		{"a site by its key", "shop.test/default", "unknown_site"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			wantProblem(t, ask(r, "GET", "/api/v1/sessions/"+tt.path), 404, tt.code)
		})
	}
	r.clean(t)
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	r := newRoad(t)
	for _, tt := range []struct {
		name, method, path string
		in                 string
		cookies            int
		floor              bool
	}{
		{"clear forgets the cookies", "DELETE", Path("sessions", "shop", "a"), "shop.test/a", 2, false},
		{"revoke raises a floor, too", "POST", Path("sessions", "shop", "b", "revoke"), "shop.test/b", 2, true},
		{"a site whose name has a slash", "POST", Path("sessions", "the/bank", "c", "revoke"), "bank.shop.test/c", 2, true},
		{"a session whose ID is two dots", "DELETE", Path("sessions", "shop", ".."), "shop.test/..", 2, false},
		{"a site that is no longer declared", "DELETE", Path("sessions", "old.test", "d"), "old.test/d", 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r.put(t, tt.in, key(tt.in).Site, "sid="+value, "lang="+value)
			got := decode[Ended](t, ask(r, tt.method, tt.path))
			if got.Cookies != tt.cookies || !got.Found || got.Session != key(tt.in).ID {
				t.Errorf("ended %+v, want %d cookies", got, tt.cookies)
			}
			jar, err := r.store.Load(t.Context(), key(tt.in))
			if errors.Is(err, session.ErrNotFound) {
				jar, err = new(session.Jar), nil
			}
			if err != nil || len(jar.Cookies()) > 0 || (jar.Floor() > 0) != tt.floor {
				t.Errorf("left: %q, floor %d, %v", r.held(t, tt.in), jar.Floor(), err)
			}
		})
	}
	t.Run("what is not there can be revoked, since requests may be under way", func(t *testing.T) {
		if got := decode[Ended](t, ask(r, "POST", "/api/v1/sessions/shop/later/revoke")); got.Cookies != 0 || got.Found {
			t.Errorf("ended %+v", got)
		}
		if jar, err := r.store.Load(t.Context(), key("shop.test/later")); err != nil || jar.Floor() == 0 {
			t.Errorf("no floor: %v", err)
		}
	})
	for _, want := range []string{`msg="session cleared" by=token site=shop session=a cookies=2`, `msg="session revoked" by=token site=the/bank session=c cookies=2`} {
		if !strings.Contains(r.log.String(), want) {
			t.Errorf("the log lacks %s:\n%s", want, r.log.String())
		}
	}
	r.clean(t)
}
