package main

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// registerMetrics shows what is the process's own. Its parts have registered
// theirs.
func (i *instance) registerMetrics() {
	i.reloadOK = prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "sessionproxy_config_last_reload_success", Help: "1 where the configuration in force is the last one that was read."})
	i.reloaded(true)
	i.registry.MustRegister(i.reloadOK,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sessionproxy_build_info", Help: "1, for the version of this program.", ConstLabels: prometheus.Labels{"version": versionString()}},
			func() float64 { return 1 }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sessionproxy_leaf_certificates_total", Help: "Certificates signed for intercepted hosts."},
			func() float64 { return float64(i.authority.Signed()) }),
		certificateCollector{i},
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}
