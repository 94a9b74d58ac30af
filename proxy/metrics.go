package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// metrics are the proxy's own. Labels are bounded: a site's name, never a
// host, a client's value or a cookie's name.
type metrics struct {
	exchanges        *prometheus.CounterVec
	seconds          *prometheus.HistogramVec
	overhead         *prometheus.HistogramVec
	injected         *prometheus.CounterVec
	captured         *prometheus.CounterVec
	refused          *prometheus.CounterVec
	logins           *prometheus.CounterVec
	storeErrors      *prometheus.CounterVec
	leaseWait        prometheus.Histogram
	upstreamFailures *prometheus.CounterVec
	egress           *prometheus.CounterVec
	fills            *prometheus.CounterVec
	authFailures     *prometheus.CounterVec
	none             *siteCounts // of exchanges outside any site
}

// siteCounts are the metrics of one site, looked up once.
type siteCounts struct {
	name     string
	seconds  prometheus.Observer
	overhead prometheus.Observer
	injected prometheus.Counter
	m        *metrics
}

func newMetrics(reg prometheus.Registerer) *metrics {
	buckets := prometheus.ExponentialBuckets(0.0001, 4, 10) // 100 µs … 26 s
	m := &metrics{
		exchanges: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_exchanges_total", Help: "Requests served, and tunnels that ended."}, []string{"site", "mode", "outcome"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sessionproxy_exchange_seconds", Help: "Time from a request's head to the end of its response.", Buckets: buckets}, []string{"site"}),
		overhead: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "sessionproxy_overhead_seconds", Help: "The proxy's own part of that: without the wait for the origin's response head, and without the body's way to the client.", Buckets: buckets}, []string{"site"}),
		injected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_cookies_injected_total", Help: "Cookies of sessions that requests left with."}, []string{"site"}),
		captured: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_cookies_captured_total", Help: "Set-Cookie lines that belong to sessions, by what became of them."}, []string{"site", "kind"}),
		refused: RefusedCookies(reg),
		logins: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_logins_total", Help: "Login requests by what came of them (in, out, unknown; shared: answered with another's; waited: in vain), and the proxy's own (recipe_in, recipe_failed)."}, []string{"site", "outcome"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_store_errors_total", Help: "Calls of the session store that failed."}, []string{"op"}),
		leaseWait: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "sessionproxy_lease_wait_seconds", Help: "Waits for a lease, of requests whose owner had none.", Buckets: buckets}),
		upstreamFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_upstream_failures_total", Help: "Failures at upstreams, by reason."}, []string{"pool", "reason"}),
		egress: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_egress_total", Help: "Connections that the egress rules did not let pass, by kind of address, or only reported."}, []string{"kind", "outcome"}),
		fills: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_captcha_fills_total", Help: "Fields of forms that needed a captcha token, by where it came from and what came of it (filled, or why not)."}, []string{"site", "type", "source", "outcome"}),
		authFailures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "sessionproxy_auth_failures_total", Help: "Credentials of clients that were refused, by reason."}, []string{"reason"}),
	}
	reg.MustRegister(m.exchanges, m.seconds, m.overhead, m.injected, m.captured, m.logins, m.storeErrors,
		m.leaseWait, m.upstreamFailures, m.egress, m.authFailures, m.fills)
	m.none = m.site("")
	return m
}

// RefusedCookies is the registry's one counter of cookies that were refused, by
// reason. The store counts there what it refuses of workers.
func RefusedCookies(reg prometheus.Registerer) *prometheus.CounterVec {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sessionproxy_cookies_refused_total", Help: "Cookies that were not stored, as no browser would either, or not sent for the size of the header, by reason."}, []string{"reason"})
	err := reg.Register(refused)
	if there, ok := errors.AsType[prometheus.AlreadyRegisteredError](err); ok {
		return there.ExistingCollector.(*prometheus.CounterVec) //nolint:errorlint // it is no error
	}
	return refused
}

func (m *metrics) site(name string) *siteCounts {
	return &siteCounts{
		name: name, m: m,
		seconds:  m.seconds.WithLabelValues(name),
		overhead: m.overhead.WithLabelValues(name),
		injected: m.injected.WithLabelValues(name),
	}
}

func (m *metrics) exchange(s *site, mo mode, outcome trace.Outcome, took, overhead time.Duration) {
	c := m.none
	if s != nil {
		c = s.counts
	}
	m.exchanges.WithLabelValues(c.name, string(mo), string(outcome)).Inc()
	if mo != modeTunnel {
		c.seconds.Observe(took.Seconds())
		c.overhead.Observe(overhead.Seconds())
	}
}

// login counts a login request, or a recipe.
func (c *siteCounts) login(outcome string) { c.m.logins.WithLabelValues(c.name, outcome).Inc() }

// capture counts what became of a session's Set-Cookie line.
func (c *siteCounts) capture(o session.Outcome, deletes bool) {
	kind := "set"
	switch {
	case o == session.Unchanged:
		kind = "unchanged"
	case o == session.Late:
		kind = "late"
	case o == session.Revoked:
		kind = "revoked"
	case o == session.Guarded:
		kind = "guarded"
	case o == session.Evicted:
		kind = "evicted"
	case deletes:
		kind = "deleted"
	}
	c.m.captured.WithLabelValues(c.name, kind).Inc()
}

// refuse counts a line that is no cookie.
func (m *metrics) refuse(err error) {
	var reason session.Refusal
	if errors.As(err, &reason) {
		m.refused.WithLabelValues(string(reason)).Inc()
	}
}

// leaseCollector counts leases when it is asked.
type leaseCollector struct{ pools *upstream.Pools }

var leasesDesc = prometheus.NewDesc("sessionproxy_leases",
	"Leases that this proxy holds, requests that wait for one, and places of all proxies that are free, or would be but that their upstream rests.",
	[]string{"pool", "state"}, nil)

// Describe is part of [prometheus.Collector].
func (leaseCollector) Describe(to chan<- *prometheus.Desc) { to <- leasesDesc }

// Collect is part of [prometheus.Collector].
func (c leaseCollector) Collect(to chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for _, p := range c.pools.All() {
		gauge := func(state string, n int) {
			to <- prometheus.MustNewConstMetric(leasesDesc, prometheus.GaugeValue, float64(n), p.Name(), state)
		}
		u, err := p.Usage(ctx)
		gauge("held", u.Held)
		gauge("waiting", u.Waiting)
		if err == nil { // else nobody knows
			gauge("free", u.Free)
			gauge("resting", u.Resting)
		}
	}
}

// fill counts a field of a form that needed a captcha token.
func (c *siteCounts) fill(kind, source, outcome string) {
	c.m.fills.WithLabelValues(c.name, kind, source, outcome).Inc()
}
