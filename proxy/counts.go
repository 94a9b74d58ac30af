package proxy

import (
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/sessionproxy/sessionproxy/proxy/group"
)

// recently is how long a worker counts as there after its last request.
const recently = 5 * time.Minute

// Counts are what the metrics say of this proxy since it began, and the bounds
// of the times in Added, in seconds.
func (p *Proxy) Counts() (c group.Counts, bounds []float64) {
	m := p.metrics
	each(m.exchanges, func(d *dto.Metric) {
		n := uint64(d.GetCounter().GetValue())
		c.Exchanges += n
		switch label(d, "outcome") {
		case "failed", "broken":
			c.Failed += n
		case "refused":
			c.Refused += n
		}
	})
	each(m.logins, func(d *dto.Metric) {
		n := uint64(d.GetCounter().GetValue())
		switch label(d, "outcome") {
		case "in", "recipe_in":
			c.Logins += n
		case "out", "recipe_failed":
			c.LoginsLost += n
		}
	})
	each(m.fills, func(d *dto.Metric) {
		if n := uint64(d.GetCounter().GetValue()); label(d, "outcome") == "filled" {
			c.Fills += n
		} else {
			c.FillsFailed += n
		}
	})
	each(m.overhead, func(d *dto.Metric) {
		h := d.GetHistogram()
		if bounds == nil {
			for _, b := range h.GetBucket() {
				bounds = append(bounds, b.GetUpperBound())
			}
			c.Added = make([]uint64, len(bounds)+1)
		}
		below := uint64(0)
		for i, b := range h.GetBucket() {
			c.Added[i] += b.GetCumulativeCount() - below
			below = b.GetCumulativeCount()
		}
		c.Added[len(bounds)] += h.GetSampleCount() - below
	})
	since := time.Now().Add(-recently)
	// The last that was seen comes first.
	all := p.Workers()
	c.Workers = len(all)
	if i := slices.IndexFunc(all, func(w Worker) bool { return w.Last.Before(since) }); i >= 0 {
		c.Workers = i
	}
	return c, bounds
}

// each reads all metrics of a collector.
func each(from prometheus.Collector, read func(*dto.Metric)) {
	metrics := make(chan prometheus.Metric)
	go func() {
		defer close(metrics)
		from.Collect(metrics)
	}()
	for m := range metrics {
		var d dto.Metric
		if m.Write(&d) == nil { // else it was made wrong, and /metrics says so
			read(&d)
		}
	}
}

func label(d *dto.Metric, name string) string {
	for _, l := range d.GetLabel() {
		if l.GetName() == name {
			return l.GetValue()
		}
	}
	return ""
}
