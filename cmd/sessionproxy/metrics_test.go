package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// metric is one of those that a proxy has.
type metric struct {
	kind   string // counter, gauge or histogram; "" where nothing tells yet
	labels string // with spaces between
	help   string
}

var descForm = regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "(.*)", unit: "[^"]*", constLabels: \{(.*)\}, variableLabels: \{(.*)\}\}$`)

// allMetrics are those of a proxy that has everything.
func allMetrics(t *testing.T) map[string]metric {
	t.Helper()
	server := redistest.Single(t)
	i, _, _ := guardedInstance(t, map[string]string{"sessionproxy.yaml": loopbackPorts + "store: " + server.URL() + "\n"})
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the API's come last
		resp, err := http.Get("http://" + i.ops.Addr().String() + "/readyz")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				break
			}
		}
		if time.Now().After(end) {
			t.Fatal("never ready")
		}
	}
	all := map[string]metric{}
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		i.registry.Describe(descs)
	}()
	for d := range descs {
		m := descForm.FindStringSubmatch(d.String())
		if m == nil {
			t.Fatalf("%s", d)
		}
		labels := strings.Fields(strings.ReplaceAll(m[4], ",", " "))
		for l := range strings.SplitSeq(m[3], ",") {
			if name, _, ok := strings.Cut(l, "="); ok {
				labels = append(labels, name)
			}
		}
		all[m[1]] = metric{"", strings.Join(labels, " "), m[2]}
	}
	families, err := i.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		m := all[f.GetName()]
		m.kind = strings.ToLower(f.GetType().String())
		all[f.GetName()] = m
	}
	return all
}

// The page of metrics has each that there is, and no other.
func TestTheManualHasAllMetrics(t *testing.T) {
	t.Parallel()
	all := allMetrics(t)
	page, err := os.ReadFile("../../docs/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	var exposition bytes.Buffer
	documented := map[string]bool{}
	for _, row := range regexp.MustCompile("(?m)^\\| `(sessionproxy_[a-z_]+)` \\| (\\w+) \\|(.*?)\\| (.+) \\|$").FindAllStringSubmatch(string(page), -1) {
		name, kind, labels := row[1], row[2], strings.Join(strings.Fields(strings.NewReplacer("`", "", ",", "").Replace(row[3])), " ")
		m, there := all[name]
		switch {
		case !there:
			t.Errorf("docs/metrics.md has %s, and no proxy", name)
		case documented[name]:
			t.Errorf("docs/metrics.md has %s twice", name)
		case m.labels != labels:
			t.Errorf("docs/metrics.md gives %s the labels %q, and it has %q", name, labels, m.labels)
		case m.kind != "" && m.kind != kind:
			t.Errorf("docs/metrics.md calls %s a %s, and it is a %s", name, kind, m.kind)
		}
		documented[name] = true
		expose(&exposition, name, kind, m)
	}
	for name := range all {
		if !documented[name] && !strings.HasPrefix(name, "go_") && !strings.HasPrefix(name, "process_") {
			t.Errorf("docs/metrics.md lacks %s", name)
		}
	}
	for _, prefix := range []string{"go_goroutines", "process_open_fds"} {
		if _, there := all[prefix]; !there {
			t.Errorf("there is no %s", prefix)
		}
	}
	promtool(t, exposition.Bytes(), "check", "metrics")
}

// expose writes a metric with one series as a scrape would have it.
func expose(b *bytes.Buffer, name, kind string, m metric) {
	var labels []string
	for l := range strings.FieldsSeq(m.labels) {
		labels = append(labels, l+`="x"`)
	}
	series := func(suffix string, more ...string) {
		fmt.Fprintf(b, "%s%s{%s} 1\n", name, suffix, strings.Join(append(more, labels...), ","))
	}
	fmt.Fprintf(b, "# HELP %s %s\n# TYPE %s %s\n", name, m.help, name, kind)
	if kind != "histogram" {
		series("")
		return
	}
	series("_bucket", `le="+Inf"`)
	series("_sum")
	series("_count")
}

// promtool is Prometheus's own judge of what is written for it.
func promtool(t *testing.T, stdin []byte, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "promtool", args...)
	cmd.Stdin = bytes.NewReader(stdin)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

const prometheusDir, grafanaFile = "../../deploy/prometheus/", "../../deploy/grafana/sessionproxy.json"

type alert struct {
	Alert, Expr string
	Labels      map[string]string
	Annotations map[string]string
}

func alerts(t *testing.T) []alert {
	t.Helper()
	b, err := os.ReadFile(prometheusDir + "sessionproxy.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct{ Groups []struct{ Rules []alert } }
	if err := yaml.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	var all []alert
	for _, g := range file.Groups {
		all = append(all, g.Rules...)
	}
	return all
}

// Each alert is tried, says what it is about, and has its section in the runbook.
func TestAlerts(t *testing.T) {
	t.Parallel()
	promtool(t, nil, "check", "config", prometheusDir+"prometheus.yml") // and the rules that it names
	promtool(t, nil, "test", "rules", prometheusDir+"sessionproxy.tests.yml")
	tests, err := os.ReadFile(prometheusDir + "sessionproxy.tests.yml")
	if err != nil {
		t.Fatal(err)
	}
	runbook, err := os.ReadFile("../../docs/runbook.md")
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]bool{}
	for _, a := range alerts(t) {
		declared[a.Alert] = true
		if !strings.Contains(string(tests), `ALERTS{alertname="`+a.Alert+`", alertstate="firing", severity="`+a.Labels["severity"]+`"`) {
			t.Errorf("%s is not tried", a.Alert)
		}
		if a.Annotations["summary"] == "" || a.Annotations["runbook"] == "" || !strings.HasSuffix(a.Annotations["runbook_url"], "/docs/runbook.md#"+strings.ToLower(a.Alert)) {
			t.Errorf("%s: %v", a.Alert, a.Annotations)
		}
	}
	for _, section := range regexp.MustCompile(`(?m)^### (\w+)\n\S`).FindAllStringSubmatch(string(runbook), -1) {
		if !declared[section[1]] {
			t.Errorf("docs/runbook.md has %s twice, or nothing has it", section[1])
		}
		delete(declared, section[1])
	}
	for name := range declared {
		t.Errorf("docs/runbook.md lacks %s", name)
	}
}

// What the alerts and the dashboard ask for is there, and PromQL; and each
// metric of ours is shown.
func TestWhatAlertsAndDashboardsAskFor(t *testing.T) {
	t.Parallel()
	all := allMetrics(t)
	b, err := os.ReadFile(grafanaFile)
	if err != nil {
		t.Fatal(err)
	}
	var dashboard any
	if err := json.Unmarshal(b, &dashboard); err != nil {
		t.Fatal(err)
	}
	var shown []string
	find(dashboard, func(key, text string) {
		if key == "expr" || key == "definition" {
			shown = append(shown, text)
		}
	})
	if len(shown) < 40 {
		t.Errorf("the dashboard asks %d questions", len(shown))
	}
	asked := slices.Clone(shown)
	for _, a := range alerts(t) {
		asked = append(asked, a.Expr)
	}
	unseen := maps.Clone(all)
	var rules strings.Builder
	rules.WriteString("groups: [{name: all, rules: [\n")
	for n, expr := range asked {
		for _, name := range regexp.MustCompile(`\b(sessionproxy|go|process)_[a-z_]+\b`).FindAllString(expr, -1) {
			base := name
			if _, there := all[base]; !there {
				base = regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(name, "")
			}
			if _, there := all[base]; !there {
				t.Errorf("%s is asked for, and no proxy has it: %s", name, expr)
			}
			if n < len(shown) {
				delete(unseen, base)
			}
		}
		if strings.HasPrefix(expr, "label_values(") {
			continue // Grafana's own
		}
		expr = strings.NewReplacer("$__rate_interval", "5m", "$instance", ".*", "$site", ".*").Replace(expr)
		fmt.Fprintf(&rules, "{record: 'r%d', expr: %q},\n", n, expr)
	}
	rules.WriteString("]}]\n")
	file := filepath.Join(t.TempDir(), "asked.yml")
	if err := os.WriteFile(file, []byte(rules.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, nil, "check", "rules", file)
	for name := range unseen {
		if strings.HasPrefix(name, "sessionproxy_") {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

// find calls f with each text in v, and its key.
func find(v any, f func(key, text string)) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if text, ok := value.(string); ok {
				f(key, text)
			}
			find(value, f)
		}
	case []any:
		for _, value := range v {
			find(value, f)
		}
	}
}
