package proxy_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/world"
)

// count sums a metric over all series that have the labels: names and values
// in turn.
func count(t *testing.T, p *world.Proxy, metric string, labels ...string) (sum float64) {
	t.Helper()
	families, err := p.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			var have []string
			for _, l := range m.GetLabel() {
				have = append(have, l.GetName()+"="+l.GetValue())
			}
			fits := true
			for i := 0; i < len(labels); i += 2 {
				fits = fits && slices.Contains(have, labels[i]+"="+labels[i+1])
			}
			if fits {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func TestWhatIsCounted(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login})
	addr := world.Serve(t, echo)
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		w.Get(t, via, set("sid=a1; Path=/", "lang=de; Path=/", "old=; Max-Age=0; Path=/", "bad=1; Domain=evil.test"))
		w.Get(t, via, "/")
		world.Do(t, w.Client(via), world.Request(t, "TRACE", via.URL("/"), nil))
	})
	c := w.Connect(t, addr)
	c.CloseWrite()
	c.WantEnd()
	w.WantRecord(t, "exchange", "mode", "tunnel")
	for _, tt := range []struct {
		metric string
		labels []string
		want   float64
	}{
		{"sessionproxy_exchanges_total", []string{"site", "shop", "outcome", "ok"}, 10},
		{"sessionproxy_exchanges_total", []string{"site", "shop", "mode", "h1", "outcome", "ok"}, 4},
		{"sessionproxy_exchanges_total", []string{"site", "shop", "mode", "h2", "outcome", "refused"}, 2},
		{"sessionproxy_exchanges_total", []string{"mode", "tunnel", "outcome", "ok"}, 1},
		{"sessionproxy_exchange_seconds", []string{"site", "shop"}, 15},
		{"sessionproxy_overhead_seconds", []string{"site", "shop"}, 15},
		{"sessionproxy_cookies_injected_total", []string{"site", "shop"}, 18}, // all but the first request took two
		{"sessionproxy_cookies_captured_total", []string{"site", "shop", "kind", "set"}, 2},
		{"sessionproxy_cookies_refused_total", []string{"reason", "domain"}, 5},
		{"sessionproxy_store_errors_total", nil, 0},
	} {
		// A record, and the counting with it, may come after the answer.
		world.Eventually(t, fmt.Sprintf("%s%v is %v, and not %v", tt.metric, tt.labels, tt.want, count(t, w.Proxy, tt.metric, tt.labels...)), func() bool {
			return count(t, w.Proxy, tt.metric, tt.labels...) == tt.want
		})
	}
}

// Labels are bounded: nobody outside can make a series.
func TestNoLabelComesFromAClient(t *testing.T) {
	t.Parallel()
	const marker = "zmarker"
	w := world.New(t, world.Options{Handler: login})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		user := world.User{Name: marker + "-worker-" + marker + "-session-" + marker}
		w.GetAs(t, via, user, set(marker+"="+marker, "x=1; Domain="+marker+".test"), "User-Agent", marker, "Cookie", marker)
		world.Do(t, w.ClientAs(via, user), world.Request(t, strings.ToUpper(marker), via.URLOf(marker+".shop.test", "/"+marker), nil))
	})
	families, err := w.Metrics.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if s := strings.ToLower(f.String()); strings.Contains(s, marker) {
			t.Errorf("a client's value is in %s", s)
		}
	}
}
