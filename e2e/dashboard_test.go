package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
	"github.com/sessionproxy/sessionproxy/proxy/admin/dashboard"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/embedded"
)

// An operator logs in, sees a session come, revokes it and sees the event. The
// page breaks its own policy nowhere, keeps nobody out, and knows which proxies
// are there.
func TestAnOperatorAtTheDashboard(t *testing.T) {
	o := newOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/set" {
			w.Header().Add("Set-Cookie", "sid=THEVALUE; Path=/; HttpOnly")
		}
		io.WriteString(w, "ok")
	}))
	dir := t.TempDir()
	text := fmt.Sprintf(`store: %s
auth:
  operators:
    - {name: ana, password: s3cretOfAna, role: operator}
    - {name: vic, password: s3cretOfVic, role: viewer}
upstreams:
  eu: {proxies: ["http://127.0.0.1:1", "http://127.0.0.1:2"]}
sites:
  - name: shop
    hosts: [shop.test]
    origin: {resolve: {shop.test: %q}}
    captcha: [{type: auto, budget: {per_hour: 20}}]
  - name: portal
    hosts: [portal.test]
    origin: {resolve: {portal.test: %q}}
    login:
      request: {path: /login}
      logged_out: {redirect: "*/login*"}
`, redistest.Single(t).URL(), o.plain, o.plain)
	config := filepath.Join(dir, "one.yaml")
	write(t, config, []byte(text))
	first := filepath.Join(dir, "state")
	one := start(t, "serve", "--config", config, "--state", first)
	config = filepath.Join(dir, "two.yaml")
	write(t, config, []byte(text+fmt.Sprintf("ca: {cert: %s, key: %s}\n", filepath.Join(first, "ca.pem"), filepath.Join(first, "ca.key"))))
	two := start(t, "serve", "--config", config, "--state", filepath.Join(dir, "state2"))

	var saw struct {
		Faults, Foreign, Wide, Axe, Viewer                            []string
		Policy, FirstTab, Skipped, Wrong, Empty, Row, File, FocusBack string
		Said, Event, Reloaded                                         string
		Proxies                                                       int
		Secret                                                        bool
	}
	out := output(t, []string{"HOME=" + t.TempDir(), "CHROMIUM=" + chromium}, "node", "dashboard.mjs",
		"http://"+one.admin+"/", "http://"+one.proxy, strconv.Itoa(two.cmd.Process.Pid), adminToken(t, first))
	if err := json.Unmarshal([]byte(out), &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for what, list := range map[string][]string{
		"errors of the page": saw.Faults, "requests to others": saw.Foreign, "wider than a phone": saw.Wide, "keeps people out": saw.Axe,
	} {
		if len(list) > 0 {
			t.Errorf("%s: %s", what, strings.Join(list, "\n"))
		}
	}
	if saw.Policy != dashboard.Policy {
		t.Errorf("policy %q", saw.Policy)
	}
	if saw.Secret {
		t.Error("the value of a cookie is in the page")
	}
	if saw.Proxies != 1 {
		t.Errorf("%d proxies when one was stopped", saw.Proxies)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"the first stop of the keyboard", saw.FirstTab, "Skip to content"},
		{"where it leads", saw.Skipped, "main"},
		{"a wrong password", saw.Wrong, "The name or the password is wrong."},
		{"no session", saw.Empty, "No session yet. A session begins when a declared site sets a cookie through the proxy."},
		{"the export", saw.File, "shop-default.txt"},
		{"the focus after a dialog", saw.FocusBack, "Revoke"},
		{"what was done", saw.Said, "Revoked the session default of shop, which held 1 cookie."},
		{"the reload", saw.Reloaded, "The configuration was read anew and is in force."},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	for _, want := range []string{"shop / default", "live", "crawler w7"} {
		if !strings.Contains(saw.Row, want) {
			t.Errorf("the session is shown as %q, want in it %q", saw.Row, want)
		}
	}
	for _, want := range []string{"done", "ana", "shop / default", "POST /api/v1/sessions/{site}/{session}/revoke"} {
		if !strings.Contains(saw.Event, want) {
			t.Errorf("the event is shown as %q, want in it %q", saw.Event, want)
		}
	}
	for _, label := range saw.Viewer {
		if !slices.Contains([]string{"Pause", "Go on", "Previous", "Next", "Why"}, label) {
			t.Errorf("a viewer is offered %q", label)
		}
	}
}

func adminToken(t *testing.T, state string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(state, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// The first page of ten thousand sessions is there in a second, as log says:
// what fails is far more than that, since the machine may be busy, and the
// binary looks for races.
func TestTheDashboardShowsManySessions(t *testing.T) {
	state := t.TempDir()
	store, err := embedded.Open(filepath.Join(state, "store.db"))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	for i := range 100 { // the store writes together what comes together
		group.Go(func() {
			for j := range 100 {
				c := session.Cookie{Name: "sid", Value: "1", Domain: "shop.test", HostOnly: true, Path: "/"}
				key := session.Key{Site: "shop.test", ID: fmt.Sprintf("s%05d", i*100+j)}
				if _, _, err := store.Apply(t.Context(), key, session.Update{Base: session.Latest, Cookies: []session.Cookie{c}}, session.Life{Idle: time.Hour}); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	i := start(t, "serve", "--share", "shop.test", "--state", state)
	var saw struct {
		First, Search int
		Total, Found  string
	}
	out := output(t, []string{"HOME=" + t.TempDir(), "CHROMIUM=" + chromium}, "node", "dashboard_many.mjs", "http://"+i.admin+"/", adminToken(t, state))
	if err := json.Unmarshal([]byte(out), &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Logf("the first page was there after %d ms, one that was searched for after %d ms", saw.First, saw.Search)
	if saw.Total != "10,000 sessions" || saw.Found != "s09999" || saw.First > 20_000 || saw.Search > 20_000 {
		t.Errorf("%+v", saw)
	}
}
