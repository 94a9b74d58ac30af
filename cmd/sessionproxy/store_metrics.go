package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/session/redisstore"
	"github.com/sessionproxy/sessionproxy/session/redisstore/conn"
)

// storeSeconds is how long Redis takes for what the road waits for.
func storeSeconds(reg prometheus.Registerer) *prometheus.HistogramVec {
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "sessionproxy_store_seconds", Help: "Time of one round trip to Redis.",
		Buckets: prometheus.ExponentialBuckets(0.00005, 3, 10), // 50 µs … 1 s
	}, []string{"op"})
	reg.MustRegister(seconds)
	return seconds
}

// registerStore shows how the store is.
func registerStore(reg prometheus.Registerer, store *redisstore.Store, client *conn.Client) {
	reg.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sessionproxy_store_up", Help: "1 where Redis takes reads and writes, 0 in an outage."},
			func() float64 {
				if store.Up() {
					return 1
				}
				return 0
			}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "sessionproxy_store_waiting", Help: "Captures that wait for Redis to come back."},
			func() float64 { return float64(store.Waiting()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "sessionproxy_store_dropped_total", Help: "Captures that waited for Redis and were lost."},
			func() float64 { return float64(store.Dropped()) }),
		poolCollector{client},
	)
}

// poolCollector shows the connections to Redis.
type poolCollector struct{ client *conn.Client }

var (
	poolConns    = prometheus.NewDesc("sessionproxy_store_connections", "Connections to Redis, by state.", []string{"state"}, nil)
	poolHits     = prometheus.NewDesc("sessionproxy_store_pool_hits_total", "Times that a connection to Redis was free.", nil, nil)
	poolMisses   = prometheus.NewDesc("sessionproxy_store_pool_misses_total", "Times that none was, and one was dialled.", nil, nil)
	poolTimeouts = prometheus.NewDesc("sessionproxy_store_pool_timeouts_total", "Times that none became free in time.", nil, nil)
	poolWaits    = prometheus.NewDesc("sessionproxy_store_pool_wait_seconds_total", "Time that was waited for one.", nil, nil)
)

func (p poolCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{poolConns, poolHits, poolMisses, poolTimeouts, poolWaits} {
		ch <- d
	}
}

func (p poolCollector) Collect(ch chan<- prometheus.Metric) {
	s := p.client.PoolStats()
	ch <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(s.IdleConns), "idle")
	ch <- prometheus.MustNewConstMetric(poolConns, prometheus.GaugeValue, float64(s.TotalConns-s.IdleConns), "busy")
	ch <- prometheus.MustNewConstMetric(poolHits, prometheus.CounterValue, float64(s.Hits))
	ch <- prometheus.MustNewConstMetric(poolMisses, prometheus.CounterValue, float64(s.Misses))
	ch <- prometheus.MustNewConstMetric(poolTimeouts, prometheus.CounterValue, float64(s.Timeouts))
	ch <- prometheus.MustNewConstMetric(poolWaits, prometheus.CounterValue, float64(s.WaitDurationNs)/1e9)
}
