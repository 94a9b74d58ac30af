package admin

import (
	"context"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
)

// call is one request of the API: who makes it, and what the audit log will
// say of it. It is also what the answer is written to.
type call struct {
	http.ResponseWriter
	id     string
	from   netip.Addr
	who    access.Operator // zero until he is known
	status int
	code   string // of the problem that is the answer
	action audit.Action
	target string
	worth  bool // it is written down whatever its method
}

type callKey struct{}

// callOf finds the call that a request is.
func callOf(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func newCall(w http.ResponseWriter, r *http.Request) (*call, *http.Request) {
	c := &call{ResponseWriter: w, id: audit.NewID(), action: audit.API}
	if a, err := netip.ParseAddrPort(r.RemoteAddr); err == nil {
		c.from = a.Addr().Unmap()
	}
	return c, r.WithContext(context.WithValue(r.Context(), callKey{}, c))
}

// WriteHeader notes the status.
func (c *call) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

// Unwrap is for [http.ResponseController].
func (c *call) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// newRefusals counts, where the audit log keeps to a few lines a second.
func newRefusals(reg prometheus.Registerer) *prometheus.CounterVec {
	refusals := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "sessionproxy_admin_refusals_total", Help: "Calls of the API that were answered with an error, by its code."}, []string{"code"})
	reg.MustRegister(refusals)
	return refusals
}

// writeDown writes the line of a call that changes or reveals something, or was
// refused. Whoever calls without any proof is not worth one.
func (s *server) writeDown(c *call, r *http.Request) {
	if c.code != "" {
		s.refusals.WithLabelValues(c.code).Inc()
	}
	reads := r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodOptions
	if reads && !c.worth {
		return
	}
	e := audit.Event{
		Action: c.action, Outcome: audit.Done, Reason: c.code, Exchange: c.id, By: c.who.Name, From: c.from.String(),
		Site: r.PathValue("site"), Session: r.PathValue("session"), Call: r.Method, Target: c.target,
	}
	if r.Pattern != "" && r.Pattern != "/" { // "/" is what no route is
		e.Call += " " + r.Pattern
	}
	switch {
	case c.status >= 500:
		e.Outcome = audit.Failed
	case c.status >= 400:
		e.Outcome = audit.Refused
	}
	if c.who.Name == "" && e.Outcome == audit.Refused && !s.strangers.allow() {
		return
	}
	s.audit.Write(e)
}

// strangers bounds the lines that people without any right can cause, since a
// page can send as many requests as it likes.
type strangers struct {
	mu     sync.Mutex // guards what follows
	second int64
	n      int
}

const strangersPerSecond = 20

func (s *strangers) allow() bool {
	now := time.Now().Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now != s.second {
		s.second, s.n = now, 0
	}
	s.n++
	return s.n <= strangersPerSecond
}
