package trace

import "time"

// Exchange is what is told of one exchange: a request and its response, or a
// tunnel.
type Exchange struct {
	Number uint64    `json:"number"` // counts the records of this proxy: the latest has the highest
	ID     string    `json:"id"`     // as in X-Exchange-Id and in the log
	Time   time.Time `json:"time"`   // when it began

	Client   string `json:"client"` // "" unnamed
	Worker   string `json:"worker"`
	Site     string `json:"site"`     // "": no site declares the host, or it was not known yet
	Session  string `json:"session"`  // "": it took part in none
	Selected string `json:"selected"` // what selected the session: port, credentials, header, default; "" none
	Version  int64  `json:"version"`  // of the session that it left with, microseconds of the store's clock; 0: it held nothing

	Mode   string `json:"mode"` // plain, h1, h2, tunnel
	Method string `json:"method"`
	Host   string `json:"host"`
	Port   string `json:"port"`
	Path   string `json:"path"` // without the query; "" of a tunnel

	Status    int     `json:"status"`     // of the answer; 0: there was none
	Outcome   Outcome `json:"outcome"`    // ok, open (a tunnel or WebSocket under way), refused, failed, broken, client_gone, client_tls
	Bytes     int64   `json:"bytes"`      // of the body, or of the tunnel, to the client
	SentBytes int64   `json:"sent_bytes"` // of a tunnel, from the client

	Whose      string          `json:"whose"`       // whose request it was: own, cross navigation, cross; "" where it took part in no session
	Cookies    []RequestCookie `json:"cookies"`     // that it left with, or might have
	SetCookies []ReplyCookie   `json:"set_cookies"` // of its reply, in order

	Verdict string `json:"verdict"` // what the reply showed of the session: in, out; "" nothing
	Rule    string `json:"rule"`    // the key of the configuration that spoke, such as logged_out.redirect

	Lease   *Exit  `json:"lease,omitempty"` // absent: it left directly, or not at all
	Captcha []Fill `json:"captcha"`
	Times   Times  `json:"milliseconds"`

	Refused *Refusal `json:"refused,omitempty"` // the proxy's own answer; absent: it gave none
	Error   string   `json:"error"`             // the cause, as in the log
	Why     []string `json:"why"`               // sentences on what is not as a reader may expect
}

// RequestCookie is a cookie that a request left with, or why it did not.
type RequestCookie struct {
	Name   string `json:"name"`
	From   string `json:"from"`             // session, worker (the private jar), client
	Domain string `json:"domain,omitempty"` // with a leading dot where subdomains get it, too; not of a client's
	Path   string `json:"path,omitempty"`   // not of a client's
	Sent   bool   `json:"sent"`
	Why    string `json:"why"` // the rule that decided

	Writer   string    `json:"writer,omitempty"`  // who gave it this value
	Set      time.Time `json:"set,omitzero"`      // when
	Replaced time.Time `json:"replaced,omitzero"` // when the session got another value, if it has since
}

// ReplyCookie is one Set-Cookie line of a reply.
type ReplyCookie struct {
	Name     string `json:"name"`
	Captured bool   `json:"captured"` // the session, or the worker's private jar, has it now
	Why      string `json:"why"`      // the rule that decided
}

// Exit is the upstream that a request left by.
type Exit struct {
	Pool     string `json:"pool"`
	Upstream string `json:"upstream"` // without credentials
	Moves    int    `json:"moves"`    // to another upstream, since one failed
}

// Fill is a field of a form that needed a token.
type Fill struct {
	Type         string  `json:"type"`
	Source       string  `json:"source"`  // pool, solved, static, test; "" none
	Outcome      string  `json:"outcome"` // filled, or why not
	Milliseconds float64 `json:"milliseconds"`
}

// Times are milliseconds. What Added holds is told apart as far as it is known.
type Times struct {
	Total    float64 `json:"total"`
	Upstream float64 `json:"upstream"` // from the last send until the head of the reply; the exit's part included
	Body     float64 `json:"body"`     // until the client had the body; of a tunnel, all
	Added    float64 `json:"added"`    // the rest: the proxy's own
	Login    float64 `json:"login"`    // of Added: the wait for a login
	Captcha  float64 `json:"captcha"`  // of Added: for tokens
	Lease    float64 `json:"lease"`    // of Added: for an upstream
	Store    float64 `json:"store"`    // of Added: for the session store
}

// Refusal is an answer of the proxy's own.
type Refusal struct {
	Code     string `json:"code"`
	Sentence string `json:"sentence"`
}
