package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"runtime/debug"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// mode is how a request came.
type mode string

const (
	modePlain  mode = "plain"  // absolute URL, outside a tunnel
	modeH1     mode = "h1"     // in an intercepted tunnel
	modeH2     mode = "h2"     // the same
	modeTunnel mode = "tunnel" // a blind tunnel
)

// exchange is one request on its way, and what becomes of it. It is also the
// request's context, so that the hooks find it.
type exchange struct {
	context.Context

	p      *Proxy
	rules  *rules
	id     *identity
	target target
	mode   mode
	site   *site // nil: a host that no site declares

	key     session.Key
	whose   session.Whose
	logout  bool
	cookie  []string     // the client's own Cookie lines
	browser bool         // the client is one: it keeps its private cookies itself
	jar     *session.Jar // that the last try left with; never nil where the session is in use
	private *session.Jar // the worker's own; nil for browsers
	logsIn  bool         // a login request, of a client that may log in
	turn    *login.Turn  // its turn; nil: it passes on its own
	http11  bool         // the client speaks HTTP/1.1 or later
	expects bool         // it waits for a 100 in HTTP/1.1
	upgrade string       // the Upgrade field of the request, then of a 101

	leased    *upstream.Lease // in use; nil where the request leaves directly, and before
	patience  upstream.Patience
	exit      *upstream.Exit // of the last lease
	forwarded bool           // it went to the exit as it is, see forwards

	judged    login.Judgment // what the reply shows of the session
	overtaken bool           // a later turn was granted: the reply to this login sets nothing
	renewed   int            // times sent again, since the session had moved on
	confirmed int            // times sent again, lest the site had erred,
	confirms  int64          // in this state of the session
	relogs    int            // times sent again, after a login of the proxy's own
	loginEnd  time.Time      // of its wait for logins; zero: it has not waited yet
	shared    bool           // answered with another's login

	upload *upload   // the request's body; nil where it has none
	form   *heldForm // the same, where it may need a captcha token; else nil
	relay  relay
	trace  httptrace.ClientTrace

	// for the record
	method        string
	uri           string    // the request's target, as it came
	start, handed time.Time // handed: the head of the response, for the relay
	sent          time.Time // to the origin, at the last try
	status        int
	ref           *refusal
	err           error // why the response broke off
	ignored       bool  // a selector of another session, which had no say where it came
	injected      int
	captured      int
	cors          string // what became of a request that may be without credentials
	xid           string

	// for the trace
	asked    session.Request     // what the Cookie header was made for
	set      []trace.ReplyCookie // of each Set-Cookie line of the response
	captchas []trace.Fill
	moved    int // to another lease
	spent    trace.Spent
	facts    trace.Facts
	opened   bool // it has been told of before its end
}

type exchangeKey struct{}

// Value makes the exchange findable in its own context.
func (x *exchange) Value(key any) any {
	if _, ok := key.(exchangeKey); ok {
		return x
	}
	return x.Context.Value(key)
}

func exchangeOf(r *http.Request) *exchange {
	x, _ := r.Context().Value(exchangeKey{}).(*exchange)
	return x
}

// exchange takes one request along the road. The engine calls back: enter
// with the request, RoundTrip to send it; what it writes goes through relay.
func (p *Proxy) exchange(w http.ResponseWriter, r *http.Request, m mode, id *identity, t target) {
	x := &exchange{
		Context: r.Context(), p: p, rules: p.rules.Load(), id: id, target: t, mode: m,
		method: r.Method, uri: r.RequestURI, http11: r.ProtoAtLeast(1, 1), start: time.Now(),
	}
	x.relay.x, x.relay.ResponseWriter = x, w
	x.expects = m != modeH2 && len(r.Header["Expect"]) > 0
	defer x.release()
	defer x.releaseForm()
	defer x.record()
	defer x.contain(w, r)
	defer x.endTurn(login.Result{Why: "it got no answer"})
	if r.ContentLength != 0 {
		x.upload = takeUpload(w, r, m)
	}
	if r.Method == http.MethodConnect {
		// The engine would open a tunnel, past scope.
		x.answer(w, r, refuse(http.StatusMethodNotAllowed, "http_request_denied", "nested_connect", "A tunnel in a tunnel is not served here."))
		return
	}
	if ref := malformed(r); ref != nil {
		x.answer(w, r, ref)
		return
	}
	if t.host == internalHost {
		x.evidence(r) // a browser's is remembered
		x.closeAfter(w.Header())
		p.welcome(&x.relay, r, id, t.secure)
		return
	}
	x.trace.Got1xxResponse = x.relay.informational
	r = r.WithContext(httptrace.WithClientTrace(x, &x.trace))
	x.outbound(r)
	p.engine.ServeHTTP(&x.relay, r)
	x.relay.finish()
}

// contain turns a panic of ours into an answer, so that a fault in one
// exchange neither ends the process nor drops the client without a word.
func (x *exchange) contain(w http.ResponseWriter, r *http.Request) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	x.err = fmt.Errorf("panic: %v", v)
	x.p.log.Error("panic", "id", x.exchangeID(), "value", v, "stack", string(debug.Stack()))
	if x.relay.wrote {
		panic(http.ErrAbortHandler)
	}
	ref := refuse(http.StatusInternalServerError, "proxy_internal_error", "internal", "The proxy failed on this request; its log says more.")
	ref.cause = x.err
	x.answer(w, r, ref)
}

// answer ends the exchange with an answer of our own, past the engine.
func (x *exchange) answer(w http.ResponseWriter, r *http.Request, ref *refusal) {
	x.ref, x.status = ref, ref.status
	x.closeAfter(w.Header())
	ref.write(w, r, x.exchangeID())
}

// enter is the way before the request is sent: it returns an answer of our
// own, or nil.
func (x *exchange) enter(r *http.Request) *http.Response {
	if ref := x.scope(r); ref != nil {
		return x.refuse(r, ref)
	}
	if x.inUse() {
		x.p.uses.note(x.key, x.id, x.start)
	}
	if resp := x.enterLogin(r); resp != nil {
		return resp
	}
	return x.fillForm(r)
}

// refuse ends the exchange with an answer of our own.
func (x *exchange) refuse(r *http.Request, ref *refusal) *http.Response {
	x.ref = ref
	return ref.response(r, x.exchangeID())
}

func (x *exchange) exchangeID() string {
	if x.xid == "" {
		x.xid = x.p.ids.next()
	}
	return x.xid
}

// outbound makes the client's request one that can be sent: it names the
// target that was verified, and no field that is meant for this hop.
func (x *exchange) outbound(r *http.Request) {
	r.URL.Scheme, r.URL.Host = x.target.scheme(), x.target.authority()
	keepPath(r)
	r.Close = false // the client's wish for its own connection
	if x.upload == nil {
		r.Body = http.NoBody
	} else if r.Method == http.MethodGet || r.Method == http.MethodHead || r.Method == http.MethodDelete {
		// Some origins look for no body here, and take it for the next
		// request (RFC 9110 section 9.3.1). The answer to that must find no
		// other client waiting on the connection.
		r.Close = true
	}
	x.cookie = r.Header["Cookie"]
	x.upgrade = upgradeOf(r.Header)
	stripHopByHop(r.Header)
	stripProxy(r.Header)
	if names, ok := r.Header[sessionHeader]; ok {
		delete(r.Header, sessionHeader)
		x.ignored = names[0] != x.id.session
	}
	_ = cleanTrailer(r.Trailer) // names that were announced; their values come with the body's end
	if _, ok := r.Header["User-Agent"]; !ok {
		r.Header["User-Agent"] = noUserAgent
	}
}

// noUserAgent keeps the Transport from adding its own.
var noUserAgent = []string{""}

// keepPath sends the path as it came where net/url would write it anew: a
// signed URL must not change by a byte.
func keepPath(r *http.Request) {
	raw, _, _ := strings.Cut(r.RequestURI, "?")
	if _, rest, absolute := strings.Cut(raw, "://"); absolute && raw[0] != '/' {
		slash := strings.IndexByte(rest, '/')
		if slash < 0 {
			if r.Method == http.MethodOptions { // RFC 9112 section 3.2.4
				r.URL.Path = "*"
			}
			return
		}
		raw = rest[slash:]
	}
	// URL.RequestURI puts the scheme before an opaque part with two slashes.
	if raw != "" && raw[0] == '/' && !strings.HasPrefix(raw, "//") && raw != r.URL.EscapedPath() {
		r.URL.Opaque = raw
	}
}
