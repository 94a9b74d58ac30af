package admin

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

func TestOps(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	up := prometheus.NewGauge(prometheus.GaugeOpts{Name: "sessionproxy_store_up", Help: "x"})
	reg.MustRegister(up)
	var ready Readiness
	ready.Set(Ready)
	ops := NewOps(OpsOptions{Metrics: reg, Readiness: &ready, Log: slog.New(slog.DiscardHandler)})
	for _, tt := range []struct {
		name, method, path string
		status             int
		body               string // part of it
	}{
		{"metrics", "GET", "/metrics", 200, "sessionproxy_store_up 0\n"},
		{"metrics by HEAD", "HEAD", "/metrics", 200, ""},
		{"health", "GET", "/healthz", 200, "ok"},
		{"health by HEAD", "HEAD", "/healthz", 200, ""},
		{"readiness", "GET", "/readyz", 200, "ready"},
		{"readiness by HEAD", "HEAD", "/readyz", 200, ""},
		{"a path that is none", "GET", "/", 404, `"code":"not_found"`},
		{"a path of the API", "GET", "/api/v1/sessions", 404, `"code":"not_found"`},
		{"a file of the API", "GET", "/ca.pem", 404, `"code":"not_found"`},
		{"a profile", "GET", "/debug/pprof/", 404, `"code":"not_found"`},
		{"a write", "POST", "/metrics", 405, "Use GET, HEAD."},
		{"a write to nowhere", "POST", "/", 404, `"code":"not_found"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := httptest.NewRecorder()
			ops.ServeHTTP(w, httptest.NewRequest(tt.method, tt.path, nil)) // for example.com: any Host will do
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%s %s: %d %q, want %d and %q", tt.method, tt.path, w.Code, w.Body, tt.status, tt.body)
			}
			wantHardened(t, w.Header())
		})
	}
}

func TestReadiness(t *testing.T) {
	t.Parallel()
	ready := new(Readiness)
	ops := NewOps(OpsOptions{Metrics: prometheus.NewRegistry(), Readiness: ready, Log: slog.New(slog.DiscardHandler)})
	check := func(status int, body string) {
		t.Helper()
		for path, want := range map[string]struct {
			status int
			body   string
		}{"/readyz": {status, body}, "/healthz": {200, "ok"}} {
			w := httptest.NewRecorder()
			ops.ServeHTTP(w, httptest.NewRequest("GET", path, nil))
			if w.Code != want.status || w.Body.String() != want.body {
				t.Errorf("%s: %d %q, want %d %q", path, w.Code, w.Body, want.status, want.body)
			}
		}
	}
	check(503, "starting")
	ready.Set(Ready)
	check(200, "ready")
	var up atomic.Bool
	for _, required := range []bool{false, true} {
		up.Store(true)
		ready.Need(up.Load, required)
		check(200, "ready")
		up.Store(false)
		status := 200
		if required {
			status = 503
		}
		check(status, "degraded")
	}
	ready.Set(Draining)
	check(503, "draining")
}

// broken is a collector that fails and says something of the inside.
type broken struct{}

var brokenDesc = prometheus.NewDesc("broken", "x", nil, nil)

func (broken) Describe(ch chan<- *prometheus.Desc) { ch <- brokenDesc }
func (broken) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.NewInvalidMetric(brokenDesc, errors.New("dial tcp 10.0.0.4:6379: i/o timeout"))
}

func TestBrokenCollector(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		others bool
		status int
		body   string
	}{
		{"hides no other", true, 200, "whole 0\n"},
		{"alone is an error", false, 500, "the proxy's log has the cause"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			reg := prometheus.NewRegistry()
			reg.MustRegister(broken{})
			if tt.others {
				reg.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "whole", Help: "x"}))
			}
			var log bytes.Buffer
			ops := NewOps(OpsOptions{Metrics: reg, Readiness: new(Readiness), Log: slog.New(slog.NewTextHandler(&log, nil))})
			w := httptest.NewRecorder()
			ops.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.body) {
				t.Errorf("%d %s, want %d and %q", w.Code, w.Body, tt.status, tt.body)
			}
			if strings.Contains(w.Body.String(), "10.0.0.4") {
				t.Errorf("anyone reads the cause: %s", w.Body)
			}
			if !strings.Contains(log.String(), "10.0.0.4") {
				t.Errorf("the log lacks the cause: %q", &log)
			}
		})
	}
}
