package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// certificateCollector shows when the certificates end that somebody has to
// renew: of the CA that clients trust, and of the HTTPS proxy ports.
type certificateCollector struct{ i *instance }

var (
	certExpiry = prometheus.NewDesc("sessionproxy_certificate_not_after_timestamp_seconds",
		"When a certificate ends, in Unix time: the ca that clients trust, and that of each name of the HTTPS proxy ports; 0 where it is not there yet.", []string{"certificate"}, nil)
	certFailures = prometheus.NewDesc("sessionproxy_certificate_failures_total",
		"Attempts to fetch a certificate that came to nothing.", nil, nil)
)

// Describe is of [prometheus.Collector].
func (c certificateCollector) Describe(ch chan<- *prometheus.Desc) {
	ch <- certExpiry
	ch <- certFailures
}

// Collect is of [prometheus.Collector].
func (c certificateCollector) Collect(ch chan<- prometheus.Metric) {
	ch <- prometheus.MustNewConstMetric(certExpiry, prometheus.GaugeValue, float64(c.i.authority.Expires().Unix()), "ca")
	cert := c.i.cert.Load()
	if cert == nil {
		return
	}
	for _, name := range cert.names() {
		ends := 0.0
		if at := cert.expiry(name); !at.IsZero() {
			ends = float64(at.Unix())
		}
		ch <- prometheus.MustNewConstMetric(certExpiry, prometheus.GaugeValue, ends, name)
	}
	if cert.acme != nil {
		ch <- prometheus.MustNewConstMetric(certFailures, prometheus.CounterValue, float64(cert.acme.Failures()))
	}
}

// expiry is when the certificate of a name ends; zero where there is none yet.
func (c *certificate) expiry(name string) time.Time {
	if c.acme != nil {
		return c.acme.Expiry(name)
	}
	return c.file.Leaf.NotAfter
}
