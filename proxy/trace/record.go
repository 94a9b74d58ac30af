package trace

import (
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// Outcome says how an exchange ended.
type Outcome string

// The outcomes. They are labels of a metric, too, but for Open.
const (
	OK         Outcome = "ok"
	Open       Outcome = "open"        // a tunnel, or a WebSocket, that has not ended
	Refused    Outcome = "refused"     // the proxy decided against it
	Failed     Outcome = "failed"      // the proxy answered that something broke
	Broken     Outcome = "broken"      // the response, or the tunnel, broke off
	ClientGone Outcome = "client_gone" // the client left first
	ClientTLS  Outcome = "client_tls"  // the client broke off TLS with the proxy
)

// Outcomes are all of them.
var Outcomes = []Outcome{OK, Open, Refused, Failed, Broken, ClientGone, ClientTLS}

// Selector says what selected a session.
type Selector string

// The selectors.
const (
	ByPort        Selector = "port"        // pinned to it
	ByCredentials Selector = "credentials" // the proxy user name
	ByHeader      Selector = "header"      // X-Proxy-Session
	ByDefault     Selector = "default"     // nothing did
)

// Facts are what becomes a sentence.
type Facts uint32

// The facts.
const (
	Undeclared   Facts = 1 << iota // no site declares the host
	Foreign                        // a tunnel to a declared host that carries neither TLS nor HTTP
	NoSession                      // the client selected the session none
	Ignored                        // X-Proxy-Session where it has no say
	NoInjection                    // cookies.inject is false
	Logout                         // the request is on protect_logout
	StoreFailed                    // the store could not tell the session's cookies
	Renewed                        // sent again, since the session had moved on
	Confirmed                      // sent again, lest the site had erred
	Relogged                       // sent again, after a login of the proxy's own
	Shared                         // answered with another's login
	Overtaken                      // a later login was granted
	LoginRequest                   // the request is the site's login
	Distrust                       // the client gave TLS with the proxy up
	Silent                         // a tunnel in which the client said nothing
	Forgotten                      // what the Cookie header was made of is no longer kept
)

// Record is what an exchange leaves behind. It points at what the exchange held,
// and must not be changed once it is in a Log.
type Record struct {
	ID     string
	Start  time.Time
	Opened bool // a record of the opening went before

	Client, Worker, Site, Session string
	Selected                      Selector

	Mode, Method, Host, Port string
	Target                   string // the request's, as it came: its query is told nobody

	Status      int
	Outcome     Outcome
	Bytes, Sent int64

	// What the Cookie header was made of, where there is a session.
	Key          session.Key
	Request      session.Request
	Cookie       []string // the client's own lines
	Jar, Private *session.Jar
	Policy       *session.Policy

	ReplyCookies []ReplyCookie
	Judged       login.Judgment

	Pool  string // "": it left directly
	Exit  upstream.Upstream
	Moves int

	Fills []Fill
	Spent Spent
	Facts Facts
	CORS  string // what became of a request that may be without credentials

	Code, Sentence string // of a refusal
	Err            error

	number uint64
	held   int // bytes, see Log.held
}

// Spent is where the time of an exchange went.
type Spent struct {
	Total, Upstream, Body, Login, Captcha, Lease, Store time.Duration
}

// Tunnel is the mode of one.
const Tunnel = "tunnel"

// The longest texts of a client's, or of a site's, that are kept.
const (
	maxTarget = 2048
	maxName   = 128
)

// clip bounds the texts that the record holds.
func (r *Record) clip() {
	r.Method, r.Host, r.Target = clip(r.Method, maxName), clip(r.Host, 255), clip(r.Target, maxTarget)
	for i := range r.ReplyCookies {
		r.ReplyCookies[i].Name = strings.Clone(clip(r.ReplyCookies[i].Name, maxName)) // without its line
	}
}

func clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.Clone(s[:n]) + "…"
}

// holds is how many bytes the record keeps from being freed, where before holds
// nothing of it.
func (r *Record) holds(before *Record) int {
	n := 0
	for _, line := range r.Cookie {
		n += len(line)
	}
	if r.Jar != before.Jar {
		n += r.Jar.Size()
	}
	if r.Private != before.Private {
		n += r.Private.Size()
	}
	return n
}

// release lets go of what the record holds.
func (r *Record) release() {
	if r.Jar != nil {
		r.Facts |= Forgotten
	}
	r.Jar, r.Private, r.Cookie, r.held = nil, nil, nil, 0
}
