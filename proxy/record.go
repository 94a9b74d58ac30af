package proxy

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/session"
)

// record writes the exchange's one line, and counts it.
func (x *exchange) record() {
	end := time.Now()
	took := end.Sub(x.start)
	level, outcome := slog.LevelInfo, x.outcome()
	if outcome == trace.Failed || outcome == trace.Broken {
		level = slog.LevelWarn
	}
	if !x.handed.IsZero() {
		x.spent.Body = end.Sub(x.handed)
	}
	site := ""
	if x.site != nil {
		site = x.site.Name
	}
	x.p.metrics.exchange(x.site, x.mode, outcome, took, took-x.spent.Upstream-x.spent.Body)
	x.p.workers.seen(x.id, x.site)
	if x.ref != nil {
		x.p.auditRefusal(x.id, x.id.from.String(), x.target.host, x.exchangeID(), x.ref)
	}
	if x.ignored {
		x.p.auditRefusal(x.id, x.id.from.String(), x.target.host, x.exchangeID(), selectorIgnored)
	}
	x.leaveTrace(outcome, took)
	if !x.p.log.Enabled(x, level) {
		return
	}
	attrs := make([]slog.Attr, 0, 16)
	attrs = append(attrs,
		slog.String("id", x.exchangeID()),
		slog.String("client", x.id.name),
		slog.String("worker", x.id.worker),
		slog.String("site", site))
	if x.inUse() {
		attrs = append(attrs, slog.String("session", x.id.session))
	}
	attrs = append(attrs,
		slog.String("mode", string(x.mode)),
		slog.String("method", x.method),
		slog.String("host", x.target.host),
		slog.String("port", x.target.port),
		slog.Int("status", x.status),
		slog.String("outcome", string(outcome)),
		slog.Int64("bytes", x.relay.sent),
		slog.Int("injected", x.injected),
		slog.Int("captured", x.captured),
		slog.Duration("took", took))
	if x.exit != nil {
		attrs = append(attrs, slog.Any("upstream", x.exit.Upstream()))
	}
	if x.judged.Verdict != login.Unknown {
		attrs = append(attrs, slog.String("verdict", x.judged.String()))
	}
	if x.shared {
		attrs = append(attrs, slog.Bool("shared", true))
	}
	if x.ref != nil {
		attrs = append(attrs, slog.String("refused", x.ref.code))
	}
	if x.form != nil && len(x.form.fills) > 0 {
		attrs = append(attrs, slog.String("captcha", x.describeFills()))
	}
	if x.cors != "" {
		attrs = append(attrs, slog.String("cors", x.cors))
	}
	if x.ignored {
		attrs = append(attrs, slog.String("ignored", sessionHeader+": it names another session, and selects one on CONNECT only, or on plain http where no page can have set it"))
	}
	if x.err != nil {
		attrs = append(attrs, slog.Any("err", x.err))
	}
	// Past the Logger, which looks for the line that calls it: nobody is told.
	r := slog.NewRecord(time.Now(), level, "exchange", 0)
	r.AddAttrs(attrs...)
	_ = x.p.log.Handler().Handle(context.WithoutCancel(x), r) // a log that can't be written can't say so
}

// outcome is the metric's label: few values, none from a client.
func (x *exchange) outcome() trace.Outcome {
	switch {
	case x.ref != nil && x.ref.status == statusClientGone, x.relay.gone != nil, x.relay.broken != nil && x.Err() != nil:
		return trace.ClientGone
	case x.ref != nil:
		return x.ref.outcome()
	case x.relay.broken != nil:
		return trace.Broken
	}
	return trace.OK
}

// recordTunnel is the record of a blind tunnel.
func (p *Proxy) recordTunnel(c *connection, start time.Time, up, down int64, err error) {
	took := time.Since(start)
	outcome, level := trace.OK, slog.LevelInfo
	if err != nil {
		outcome, level = trace.Broken, slog.LevelWarn
	}
	p.metrics.exchange(nil, modeTunnel, outcome, took, 0)
	c.leaveTrace(trace.Record{Start: start, Opened: c.opened, Outcome: outcome, Bytes: down, Sent: up, Spent: trace.Spent{Total: took}, Err: err})
	attrs := []slog.Attr{
		slog.String("id", c.exchangeID()),
		slog.String("client", c.id.name),
		slog.String("worker", c.id.worker),
		slog.String("mode", string(modeTunnel)),
		slog.String("method", http.MethodConnect),
		slog.String("host", c.target.host),
		slog.String("port", c.target.port),
		slog.String("outcome", string(outcome)),
		slog.Int64("sent", up),
		slog.Int64("bytes", down),
		slog.Duration("took", took),
	}
	if c.lease != nil {
		attrs = append(attrs, slog.Any("upstream", c.lease.Exit().Upstream()))
	}
	if err != nil {
		attrs = append(attrs, slog.Any("err", err))
	}
	p.log.LogAttrs(context.Background(), level, "exchange", attrs...)
}

// recordRefusal is the record of a request that was refused at the door: the
// port's, or a tunnel's.
func (p *Proxy) recordRefusal(r *http.Request, who *identity, id string, ref *refusal) {
	outcome, level, m, host, port := ref.outcome(), slog.LevelInfo, modePlain, r.URL.Hostname(), r.URL.Port()
	if outcome == trace.Failed {
		level = slog.LevelWarn
	}
	if c, ok := r.Context().Value(connectionKey{}).(*connection); ok {
		m, who, host, port = modeH1, c.id, c.target.host, c.target.port
	} else if r.Method == http.MethodConnect {
		m = modeTunnel
	}
	client, worker := "", remoteIP(r).String()
	if who != nil {
		client, worker = who.name, who.worker
	}
	p.metrics.exchange(nil, m, outcome, 0, 0)
	p.auditRefusal(who, remoteIP(r).String(), host, id, ref)
	p.traceRefusal(r, ref, trace.Record{ID: id, Client: client, Worker: worker, Mode: string(m), Host: host, Port: port, Outcome: outcome})
	attrs := []slog.Attr{
		slog.String("id", id),
		slog.String("client", client),
		slog.String("worker", worker),
		slog.String("mode", string(m)),
		slog.String("method", r.Method),
		slog.String("host", host),
		slog.String("port", port),
		slog.Int("status", ref.status),
		slog.String("outcome", string(outcome)),
		slog.String("refused", ref.code),
	}
	if ref.cause != nil {
		attrs = append(attrs, slog.Any("err", ref.cause))
	}
	p.log.LogAttrs(r.Context(), level, "exchange", attrs...)
}

// recordHandshake is the record of a client that broke off TLS with us.
func (p *Proxy) recordHandshake(c *connection, took time.Duration, err error) {
	p.metrics.exchange(nil, modeTunnel, trace.ClientTLS, took, 0)
	facts := trace.Distrust
	if errors.Is(err, errSilent) {
		facts = trace.Silent
	}
	c.leaveTrace(trace.Record{Start: time.Now().Add(-took), Outcome: trace.ClientTLS, Spent: trace.Spent{Total: took}, Facts: facts, Err: err})
	p.log.LogAttrs(context.Background(), slog.LevelInfo, "exchange",
		slog.String("id", c.exchangeID()),
		slog.String("client", c.id.name),
		slog.String("worker", c.id.worker),
		slog.String("mode", string(modeTunnel)),
		slog.String("method", http.MethodConnect),
		slog.String("host", c.target.host),
		slog.String("port", c.target.port),
		slog.String("outcome", string(trace.ClientTLS)),
		slog.Duration("took", took),
		slog.Any("err", err))
}

// storeFailed tells of a store that failed a request. That one is away it has
// told itself, once.
func (p *Proxy) storeFailed(op string, err error) {
	p.metrics.storeErrors.WithLabelValues(op).Inc()
	level := slog.LevelWarn
	if errors.Is(err, session.ErrAway) {
		level = slog.LevelDebug
	}
	p.log.Log(context.Background(), level, "store", "op", op, "err", err)
}

// ids names exchanges: a prefix of this process, and a number.
type ids struct {
	prefix string
	last   *atomic.Uint64
}

func newIDs() ids {
	var b [4]byte
	rand.Read(b[:])
	return ids{prefix: hex.EncodeToString(b[:]) + "-", last: new(atomic.Uint64)}
}

func (i ids) next() string { return i.prefix + strconv.FormatUint(i.last.Add(1), 36) }

// engineLog takes what goproxy prints. All of it is told better elsewhere, so
// it is for debugging only.
type engineLog struct{ log *slog.Logger }

func (l engineLog) Printf(format string, v ...any) {
	if l.log.Enabled(context.Background(), slog.LevelDebug) {
		l.log.Debug("engine", "says", strings.TrimSpace(fmt.Sprintf(format, v...)))
	}
}

// serverLog takes what net/http prints: broken clients, mostly.
func serverLog(l *slog.Logger) *log.Logger {
	return slog.NewLogLogger(l.Handler().WithAttrs([]slog.Attr{slog.String("part", "http server")}), slog.LevelDebug)
}
