package admin

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// OpsOptions are the parts of the ops port. All are needed.
type OpsOptions struct {
	Metrics   prometheus.Gatherer
	Readiness *Readiness
	Log       *slog.Logger
}

// NewOps returns the handler of the ops listener: /metrics, /healthz and
// /readyz, for whoever asks.
func NewOps(o OpsOptions) http.Handler {
	// A broken collector hides no other. promhttp gets no log: what it would
	// tell beyond discreet is that a client left, once for each metric.
	metrics := promhttp.HandlerFor(
		prometheus.GathererFunc(discreet(o.Metrics.Gather, o.Log)),
		promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	mux := newMux([]route{
		{http.MethodGet, "/metrics", metrics.ServeHTTP},
		{http.MethodGet, "/healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") }},
		{http.MethodGet, "/readyz", o.Readiness.serve},
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		harden(w.Header())
		mux.ServeHTTP(w, r)
	})
}

var errGather = errors.New("a collector failed; the proxy's log has the cause")

// discreet keeps the cause of an error to the log: promhttp would send it to
// the client. T is []*dto.MetricFamily.
func discreet[T any](gather func() (T, error), log *slog.Logger) func() (T, error) {
	return func() (T, error) {
		metrics, err := gather()
		if err != nil {
			log.Error("gather metrics", "err", err)
			err = errGather
		}
		return metrics, err
	}
}
