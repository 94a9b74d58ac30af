package proxy

import (
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// Trace is the log of the last exchanges.
func (p *Proxy) Trace() *trace.Log { return p.traced }

// lap adds to what was spent the time since start.
func lap(spent *time.Duration, start time.Time) { *spent += time.Since(start) }

// leaveTrace has the trace point at what the exchange was made of. Nothing is
// worked out here: most exchanges nobody asks about.
func (x *exchange) leaveTrace(outcome trace.Outcome, took time.Duration) {
	r := trace.Record{
		ID: x.exchangeID(), Start: x.start, Opened: x.opened && outcome != trace.Open,
		Client: x.id.name, Worker: x.id.worker,
		Mode: string(x.mode), Method: x.method, Host: x.target.host, Port: x.target.port, Target: x.uri,
		Status: x.status, Outcome: outcome, Bytes: x.relay.sent,
		ReplyCookies: x.set, Judged: x.judged, Moves: x.moved, Fills: x.captchas, CORS: x.cors,
		Spent: x.spent, Facts: x.facts, Err: x.err,
	}
	r.Spent.Total = took
	switch {
	case x.inUse():
		r.Site, r.Session, r.Selected, r.Key = x.site.Name, x.id.session, x.id.by, x.key
		if x.jar != nil {
			r.Request, r.Cookie, r.Jar, r.Private, r.Policy = x.asked, x.cookie, x.jar, x.private, x.site.policy
		}
	case x.site != nil:
		r.Site, r.Selected = x.site.Name, x.id.by
		r.Facts |= trace.NoSession
	case x.ref == nil && x.target.host != internalHost:
		r.Facts |= trace.Undeclared
	}
	for _, f := range [...]struct {
		is   bool
		fact trace.Facts
	}{
		{x.ignored, trace.Ignored}, {x.site != nil && !x.site.Cookies.Inject, trace.NoInjection}, {x.logout, trace.Logout},
		{x.renewed > 0, trace.Renewed},
		{x.shared, trace.Shared}, {x.overtaken, trace.Overtaken}, {x.logsIn, trace.LoginRequest},
	} {
		if f.is {
			r.Facts |= f.fact
		}
	}
	if x.exit != nil {
		r.Pool, r.Exit = x.rules.route(x.site).pool.Name(), x.exit.Upstream()
	}
	if x.ref != nil {
		r.Code, r.Sentence = x.ref.code, x.ref.public
	}
	x.p.traced.Add(&r)
}

// leaveTrace is the trace of a CONNECT that became no exchange.
func (c *connection) leaveTrace(r trace.Record) {
	r.ID, r.Mode, r.Method = c.exchangeID(), trace.Tunnel, http.MethodConnect
	r.Client, r.Worker, r.Host, r.Port = c.id.name, c.id.worker, c.target.host, c.target.port
	r.Spent.Body = r.Spent.Total
	if s := c.p.rules.Load().site(c.target.host, c.target.port); s != nil {
		r.Site = s.Name
	}
	switch {
	case r.Facts != 0:
	case r.Site == "":
		r.Facts = trace.Undeclared
	default:
		r.Facts = trace.Foreign
	}
	if c.lease != nil {
		r.Pool, r.Exit = c.lease.Pool(), c.lease.Exit().Upstream()
	}
	if c.ref != nil {
		r.Code, r.Sentence, r.Outcome = c.ref.code, c.ref.public, c.ref.outcome()
	}
	c.p.traced.Add(&r)
}

func (c *connection) exchangeID() string {
	if c.xid == "" {
		c.xid = c.p.ids.next()
	}
	return c.xid
}

// traceRefusal is the trace of a request that was refused at the door.
func (p *Proxy) traceRefusal(r *http.Request, ref *refusal, t trace.Record) {
	t.Method, t.Status, t.Code, t.Sentence, t.Err = r.Method, ref.status, ref.code, ref.public, ref.cause
	if r.Method != http.MethodConnect {
		t.Target = r.RequestURI
	}
	if s := p.rules.Load().site(t.Host, t.Port); s != nil {
		t.Site = s.Name
	}
	t.Start = time.Now()
	p.traced.Add(&t)
}
