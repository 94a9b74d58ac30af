package proxy

import "github.com/sessionproxy/sessionproxy/proxy/audit"

// auditUse writes a line for the first request of a worker in a session.
func (x *exchange) auditUse() {
	if !x.p.audited.add("use", x.key.Site, x.key.ID, x.id.name, x.id.worker) {
		return
	}
	x.p.audit.Write(audit.Event{
		Action: audit.SessionUsed, Outcome: audit.Done, Exchange: x.exchangeID(),
		By: x.id.name, From: x.id.from.String(), Worker: x.id.worker, Site: x.site.Name, Session: x.id.session,
	})
}

// auditRefusal writes a line where a client wanted what is not its own: the
// first of its kind from an address, since a worker repeats itself.
func (p *Proxy) auditRefusal(who *identity, from, host, id string, ref *refusal) {
	name, session := ref.of, ""
	if who != nil {
		name, session = who.name, who.session
	}
	if !ref.audit || !p.audited.add("refusal", name, session, from, host, ref.code) {
		return
	}
	e := audit.Event{Action: audit.ClientRefused, Outcome: audit.Refused, Reason: ref.code, Exchange: id, By: name, From: from, Host: host}
	if ref.login {
		e.Action = audit.ClientLogin
	}
	if who != nil {
		e.Worker, e.Session = who.worker, session
	}
	p.audit.Write(e)
}
