package session

import (
	"slices"
	"strings"
	"time"
)

// Holder says who has a cookie that a request may leave with.
type Holder string

// The holders.
const (
	FromSession Holder = "session" // the shared jar
	FromWorker  Holder = "worker"  // the private one
	FromClient  Holder = "client"  // its own Cookie field
)

// Verdict says of one cookie whether it goes with a request, and why.
type Verdict struct {
	Cookie *Cookie // the jar's own; of a client's cookie the name alone is known
	From   Holder
	Sent   bool
	Why    string // in words, without the cookie's value
}

// Explain judges each cookie of the jar for a request whose client sends none
// itself: see [Explain].
func (j *Jar) Explain(r Request, p *Policy) []Verdict { return Explain(nil, r, j, nil, p) }

// Explain tells what [Merge] makes of the same arguments, cookie by cookie: the
// shared jar's in the order of a Cookie header, then the private jar's, then the
// client's own. Of a client's copy that says what a jar says the jar's verdict is
// the only one.
func Explain(client []string, r Request, shared, private *Jar, p *Policy) []Verdict {
	e := explainer{
		merger: merger{matcher: newMatcher(&r, p)},
		sends:  pairs(client),
		left:   pairs([]string{Merge(client, r, shared, private, p).Header}),
	}
	var all []Verdict
	for _, from := range []Holder{FromSession, FromWorker} {
		j := shared
		if from == FromWorker {
			j = private
		}
		if j == nil {
			continue
		}
		for i := range j.cookies {
			all = append(all, e.ofJar(&j.cookies[i], &j.sent[i], from))
		}
	}
	if shared == nil {
		shared = &emptyJar
	}
	for _, pair := range e.sends {
		if v, told := e.ofClient(pair, shared); told {
			all = append(all, v)
		}
	}
	return all
}

// explainer reads the verdicts off the header that leaves.
type explainer struct {
	merger
	sends []string // the client's pairs
	left  []string // the pairs of the header that nobody has told of yet
	told  []string // the others
}

// takes says whether the header has the pair, once for each time that it has.
func (e *explainer) takes(pair string) bool {
	i := slices.Index(e.left, pair)
	if i < 0 {
		return false
	}
	e.left = slices.Delete(e.left, i, i+1)
	e.told = append(e.told, pair)
	return true
}

func (e *explainer) ofJar(c *Cookie, s *sent, from Holder) Verdict {
	why := e.judge(s, from == FromWorker)
	v := Verdict{Cookie: c, From: from, Why: why.words(c, e.policy)}
	v.Sent = (why == goes || why == foreignPage) && e.takes(s.pair())
	sends := slices.ContainsFunc(e.sends, func(pair string) bool { return pairName(pair) == c.Name })
	switch {
	case v.Sent:
		v.Why = goes.words(c, e.policy)
	case why != goes && !(why == foreignPage && sends):
	case from == FromWorker && sends:
		v.Why = "the client keeps this private cookie itself"
	case sends && e.policy.ClientWins:
		v.Why = "precedence: client: the client sent its own"
	case sends && e.r.Whose != Own:
		v.Why = "another cookie of this name went in the place of the client's"
	case e.r.Whose == Cross:
		v.Why = "a page of another site made the request, and its browser sent no cookie of this name"
	default:
		v.Why = "left out: the Cookie header would be longer than 8 KiB"
	}
	return v
}

// ofClient is the verdict on one of the client's pairs. told is false where the
// session's own verdict tells it all.
func (e *explainer) ofClient(pair string, shared *Jar) (v Verdict, told bool) {
	name := pairName(pair)
	v = Verdict{Cookie: &Cookie{Name: strings.Clone(name)}, From: FromClient}
	_, has := shared.first[name]
	_, revoked := slices.BinarySearch(shared.revoked, name)
	v.Sent = e.takes(pair)
	switch {
	case !v.Sent && slices.Contains(e.told, pair):
		return v, false
	case v.Sent && e.policy.Private(name):
		v.Why = "the client's own: it keeps this private cookie itself"
	case v.Sent && !has:
		v.Why = "the client's own: the session has no cookie of this name"
	case v.Sent && e.policy.ClientWins:
		v.Why = "the client's own: the site has precedence: client"
	case v.Sent:
		v.Why = "the client's own: no cookie of the session of this name goes with this request"
	case revoked:
		v.Why = "cut: the session was revoked, and no reply has set this name since"
	case e.r.Logout:
		v.Why = "cut: the request ends the login, and leaves without the session's cookies"
	default:
		v.Why = "replaced: the session has its own"
	}
	return v, true
}

// pairs are the cookies of Cookie lines.
func pairs(lines []string) []string {
	var all []string
	for _, line := range lines {
		for pair := range strings.SplitSeq(line, ";") {
			if pair = trimSpace(pair); pair != "" {
				all = append(all, pair)
			}
		}
	}
	return all
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
