// Package audit writes down who did what: one line of JSON an act. It holds
// names, never a value: no cookie's, no password, no token.
//
// What is worth a line, its callers know.
package audit

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// Event is one act. Its JSON form is what other programs read, so fields are
// added to it and never renamed.
type Event struct {
	Time     time.Time `json:"time"`
	Action   Action    `json:"action"`
	Outcome  Outcome   `json:"outcome"`
	Reason   string    `json:"reason,omitempty"`   // the code of a refusal or failure
	Exchange string    `json:"exchange,omitempty"` // as in the log and in X-Exchange-Id
	By       string    `json:"by,omitempty"`       // name of the client or operator; "token" for the admin token; "" not known
	From     string    `json:"from,omitempty"`     // its address
	Worker   string    `json:"worker,omitempty"`
	Site     string    `json:"site,omitempty"`
	Session  string    `json:"session,omitempty"`
	Host     string    `json:"host,omitempty"`   // that a client asked for
	Call     string    `json:"call,omitempty"`   // of the API: its method and the pattern of its path
	Target   string    `json:"target,omitempty"` // what it was done to: an operator, a client, the ID of a device or token, a sitekey
	Captcha  *Captcha  `json:"captcha,omitempty"`
}

// Captcha is what is to be known of a solve, or of a field of a form.
type Captcha struct {
	Type     string  `json:"type"`
	For      string  `json:"for"`              // form, prefetch or stock
	Page     string  `json:"page,omitempty"`   // of a fill: the path of the page that shows the widget
	Source   string  `json:"source,omitempty"` // of a fill: pool, prefetch, solved, test or static
	Seconds  float64 `json:"seconds"`
	ThisHour int     `json:"this_hour,omitempty"` // of a solve: solves of the site's budget
}

// Action is what was done, or tried.
type Action string

// The actions.
const (
	SessionUsed   Action = "session_used"   // a worker's first request in a session
	ClientRefused Action = "client_refused" // a client asked for what is not its own
	ClientLogin   Action = "client_login"   // a client's credentials, where they were wrong
	API           Action = "api"            // a call that changes or reveals something, or was refused
	OperatorLogin Action = "operator_login" // an operator's password
	CaptchaSolve  Action = "captcha_solve"  // a captcha was solved, or was not: each may be paid for
	CaptchaFill   Action = "captcha_fill"   // a field of a form needed a token, and got it or did not
	TokenReuse    Action = "token_reuse"    // a refresh token came a second time: it was stolen
)

// Reuse is the reason of a TokenReuse.
const Reuse = "reuse"

// Outcome is how it ended.
type Outcome string

// The outcomes.
const (
	Done    Outcome = "done"
	Refused Outcome = "refused"
	Failed  Outcome = "failed" // by a fault of ours
)

// NewID returns an exchange id for acts that are no exchange of the proxy.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
