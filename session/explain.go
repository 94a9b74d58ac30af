package session

import (
	"slices"
	"time"
)

// Verdict says of one cookie whether it goes with a request, and why.
type Verdict struct {
	Cookie *Cookie // the jar's own
	Sent   bool
	Why    string // in words, without the cookie's value
}

// Explain judges each cookie of a shared jar, in the order of a Cookie header,
// as [Merge] does for a client that sends none itself. A [Cross] request gets
// what is said to go only for the names that it sent.
func (j *Jar) Explain(r Request, p *Policy) []Verdict {
	m := merger{matcher: newMatcher(&r, p)}
	verdicts := make([]Verdict, len(j.cookies))
	var pieces []piece
	for i := range j.cookies {
		c, why := &j.cookies[i], m.judge(&j.sent[i], false)
		verdicts[i] = Verdict{c, why == goes, why.words(c, p)}
		if why == goes {
			pieces = append(pieces, piece{j.sent[i].pair(), c})
		}
	}
	pieces = m.fit(pieces)
	if m.dropped == 0 {
		return verdicts
	}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Sent && !slices.ContainsFunc(pieces, func(p piece) bool { return p.cookie == v.Cookie }) {
			v.Sent, v.Why = false, "left out: the Cookie header would be longer than 8 KiB"
		}
	}
	return verdicts
}

// words says why c does, or does not, go.
func (r reason) words(c *Cookie, p *Policy) string {
	host := c.Domain + " alone"
	if !c.HostOnly {
		host = c.Domain + " and its subdomains"
	}
	switch r {
	case otherHost:
		return "other host: it is for " + host
	case otherPath:
		return "other path: it is for " + c.Path + " and below"
	case needsTLS:
		return "Secure: it goes over https only"
	case expired:
		return "expired at " + c.Expires.UTC().Format(time.RFC3339)
	case notShared:
		if p.Private(c.Name) {
			return "private name: it belongs to one worker, not to the session"
		}
		return "not shared: the site's list of shared names leaves it out"
	case endsLogin:
		return "the request ends the login: it leaves without the session's cookies"
	case foreignPage:
		return "SameSite=Strict: a page of another site made the request"
	}
	return "it is for " + host + ", " + c.Path + " and below"
}
