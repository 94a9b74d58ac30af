package captchaai

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Class says what an error means for whoever made the call.
type Class string

// The classes of errors.
const (
	Pending     Class = "pending"     // not solved yet: ask again
	BadKey      Class = "key"         // the key is wrong, or its account may not be used from here: stop
	Banned      Class = "banned"      // too many bad calls from this address: stop for a while
	NoThreads   Class = "no_threads"  // busy for long with no task of ours open: a matter of the plan
	Busy        Class = "busy"        // all threads are taken; nothing was queued
	TooFast     Class = "rate"        // slow down
	BadTask     Class = "task"        // the task as it stands will never be solved
	BadProxy    Class = "proxy"       // the solver cannot use the task's proxy
	Unsolvable  Class = "unsolvable"  // given up; a new task may do better
	BadID       Class = "id"          // res.php knows no such task
	ServerFault Class = "server"      // their fault, said in so many words: later
	Unreachable Class = "unreachable" // nothing was sent, or the reply to a question was none
	Unclear     Class = "unclear"     // a submission got no clear reply: the task may exist
	Deadline    Class = "deadline"    // not solved in time
)

// Error is a call that got no answer. Op and Code are safe to print.
type Error struct {
	Op         string // "submit", "result", "balance" …
	Class      Class
	Code       string        // as the service wrote it, "" where it wrote none
	Status     int           // of HTTP; 0 where there was no reply
	RetryAfter time.Duration // that the service asked for; 0: none
	Err        error         // cause, without the URL
}

// Error returns operation, code and remedy.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString("captcha service: " + e.Op + ": ")
	switch {
	case e.Code != "":
		b.WriteString(e.Code)
	case e.Err != nil:
		b.WriteString(e.Err.Error())
	case e.Status != 0:
		fmt.Fprintf(&b, "HTTP %d without an answer", e.Status)
	default:
		b.WriteString(string(e.Class))
	}
	if r := remedies[e.Code]; r != "" {
		b.WriteString(": " + r)
	} else if r := classRemedies[e.Class]; r != "" {
		b.WriteString(": " + r)
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Outcome is the class, as metrics name it.
func (e *Error) Outcome() string { return string(e.Class) }

// codes are those of the service's documents, and of the protocol's origin.
var codes = map[string]Class{
	"CAPCHA_NOT_READY":               Pending, // the protocol's own spelling
	"CAPTCHA_NOT_READY":              Pending,
	"ERROR_WRONG_USER_KEY":           BadKey,
	"ERROR_KEY_DOES_NOT_EXIST":       BadKey,
	"ERROR_IP_NOT_ALLOWED":           BadKey,
	"IP_BANNED":                      Banned,
	"ERROR_IP_BANNED":                Banned,
	"ERROR_ZERO_BALANCE":             Busy, // officially "no free thread"; elsewhere "no funds"
	"ERROR_NO_SLOT_AVAILABLE":        Busy,
	"ERROR_TOO_MUCH_REQUESTS":        TooFast,
	"MAX_USER_TURN":                  TooFast,
	"ERROR_PAGEURL":                  BadTask,
	"ERROR_GOOGLEKEY":                BadTask,
	"ERROR_WRONG_GOOGLEKEY":          BadTask,
	"ERROR_BAD_TOKEN_OR_PAGEURL":     BadTask,
	"ERROR_DOMAIN_NOT_ALLOWED":       BadTask,
	"ERROR_BAD_PARAMETERS":           BadTask,
	"ERROR_TOO_BIG_CAPTCHA_FILESIZE": BadTask,
	"ERROR_ZERO_CAPTCHA_FILESIZE":    BadTask,
	"ERROR_WRONG_FILE_EXTENSION":     BadTask,
	"ERROR_IMAGE_TYPE_NOT_SUPPORTED": BadTask,
	"ERROR_UPLOAD":                   BadTask,
	"ERROR_EMPTY_CAPTCHA":            BadTask,
	"ERROR_CAPTCHAIMAGE_BLOCKED":     BadTask,
	"ERROR_TOKEN_EXPIRED":            BadTask, // GeeTest: the challenge is too old
	"ERROR_EMPTY_ACTION":             BadTask,
	"REPORT_NOT_RECORDED":            BadTask,
	"ERROR_BAD_PROXY":                BadProxy,
	"ERROR_PROXY_CONNECTION_FAILED":  BadProxy,
	"ERROR_CAPTCHA_UNSOLVABLE":       Unsolvable,
	"ERROR_BAD_DUPLICATES":           Unsolvable,
	"ERROR_WRONG_ID_FORMAT":          BadID,
	"ERROR_WRONG_CAPTCHA_ID":         BadID,
	"ERROR_SERVER_ERROR":             ServerFault,
	"ERROR_INTERNAL_SERVER_ERROR":    ServerFault,
}

// bans are how long the numbered errors of the protocol's origin last.
var bans = map[string]time.Duration{
	"1001": 10 * time.Minute, // many NO_SLOT
	"1002": 5 * time.Minute,  // many ZERO_BALANCE
	"1003": 30 * time.Second, // many uploads
	"1004": 10 * time.Minute, // wrong key
	"1005": 5 * time.Minute,  // many polls
}

var remedies = map[string]string{
	"ERROR_WRONG_USER_KEY":       "the API key has not the right form; correct it",
	"ERROR_KEY_DOES_NOT_EXIST":   "the API key is unknown, or its account has no threads; correct the key or the plan",
	"ERROR_IP_NOT_ALLOWED":       "this address is not on the account's list; add it there",
	"ERROR_BAD_TOKEN_OR_PAGEURL": "sitekey and page do not belong together; where the widget is in a frame, name the frame's URL",
	"ERROR_PAGEURL":              "name the whole URL of the page that shows the widget",
	"ERROR_GOOGLEKEY":            "the sitekey is missing or malformed",
	"ERROR_WRONG_GOOGLEKEY":      "the sitekey is missing or malformed",
	"ERROR_DOMAIN_NOT_ALLOWED":   "the service does not solve for this page",
}

var classRemedies = map[Class]string{
	Banned:    "too many bad calls came from this address; calls stop until the ban is over",
	NoThreads: "all threads are taken though no task of this proxy is open; look at the account's plan, or at who else uses it",
	Unclear:   "the task may have been taken all the same",
}

// isCode tells a code from an answer: only the whole of it counts, since a
// token may hold such words.
var isCode = regexp.MustCompile(`^(ERROR_[A-Z0-9_]{1,64}|ERROR: ?\d{4}|IP_BANNED|CAPT?CHA_NOT_READY|MAX_USER_TURN|REPORT_NOT_RECORDED)$`)

// classOf returns the class of a code. An unknown one is permanent for its
// task: to repeat what nobody understands is to pay for it.
func classOf(code string) Class {
	if strings.HasPrefix(code, "ERROR:") {
		return Banned
	}
	if c, ok := codes[code]; ok {
		return c
	}
	return BadTask
}
