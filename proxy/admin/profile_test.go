package admin

import (
	"bytes"
	"net/http"
	"runtime/pprof"
	"strings"
	"testing"
)

// Profiles are for operators, on the admin port alone, and written down.
func TestProfiles(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	ana, vic := g.login(t, "ana", anaPassword), g.login(t, "vic", "s3cretOfVic")
	for _, name := range profiles {
		path := "/debug/pprof/" + name
		if name == "profile" || name == "trace" {
			path += "?seconds=1" // no less, where 30 are the default
		}
		wantProblem(t, ask(g, "GET", path, noToken), 401, "token")
		wantProblem(t, ask(g, "GET", path, bearerOf(vic.AccessToken)), 403, "role")
		w := ask(g, "GET", path, bearerOf(ana.AccessToken))
		gzipped := bytes.HasPrefix(w.Body.Bytes(), []byte("\x1f\x8b"))
		if w.Code != 200 || !gzipped && !strings.HasPrefix(w.Body.String(), "go 1.") {
			t.Errorf("%s: %d %.40q", name, w.Code, w.Body)
		}
		g.wantLine(t, `"call":"GET /debug/pprof/{profile}"`, `"by":"ana"`, `"outcome":"done"`, `"target":"`+name+`"`)
	}
	g.wantLine(t, `"call":"GET /debug/pprof/{profile}"`, `"by":"vic"`, `"reason":"role"`)
	wantProblem(t, ask(g, "GET", "/debug/pprof/cmdline"), 404, "unknown_profile")
	for _, p := range pprof.Profiles() {
		if w := ask(g, "GET", "/debug/pprof/"+p.Name()); w.Code != 200 {
			t.Errorf("the runtime has a profile %s, which is not given out: %d", p.Name(), w.Code)
		}
	}
	if w := ask(NewOps(OpsOptions{Metrics: g.metrics, Readiness: new(Readiness), Log: nil}), "GET", "/debug/pprof/heap"); w.Code != http.StatusNotFound {
		t.Errorf("the ops port, which may be public: %d", w.Code)
	}
}
