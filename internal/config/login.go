package config

import (
	"regexp"
	"time"
)

// Login says how a site's login is known, so that one client logs in for all.
type Login struct {
	Request   LoginRequest  `yaml:"request"`
	Ignore    []string      `yaml:"ignore"`     // globs of fields, beside the built-in ones
	LoggedOut Signs         `yaml:"logged_out"` // any of them
	LoggedIn  Signs         `yaml:"logged_in"`  // all that are given
	Wait      time.Duration `yaml:"wait"`       // for another's login; never 0 once loaded
	OnTimeout OnTimeout     `yaml:"on_timeout"`
	Recipe    []LoginStep   `yaml:"recipe"`
	Accounts  []Account     `yaml:"accounts"`
}

// LoginRequest is the request by which clients log in.
type LoginRequest struct {
	Method string `yaml:"method"`
	Host   string `yaml:"host"` // canonical; "" every host of the site
	Path   string `yaml:"path"` // a glob, without the query
}

// Signs tell of a reply whether it shows a logged-in session.
type Signs struct {
	Status   []int  `yaml:"status"`   // one of these
	Redirect string `yaml:"redirect"` // a glob that the resolved Location matches
	Cookie   string `yaml:"cookie"`   // a name that the reply sets, or as a sign of logged-out clients deletes
	Body     string `yaml:"body"`     // text that an HTML page holds
}

// Empty says whether there is no sign at all.
func (s Signs) Empty() bool {
	return len(s.Status) == 0 && s.Redirect == "" && s.Cookie == "" && s.Body == ""
}

// OnTimeout says what a client does that has waited for another's login.
type OnTimeout string

// The values of OnTimeout.
const (
	Proceed OnTimeout = "proceed" // it logs in itself, one at a time
	Fail    OnTimeout = "fail"    // 503
)

// LoginStep is one request of a recipe. Placeholders, {name}, stand in its
// URL, fields and values.
type LoginStep struct {
	Get     string            `yaml:"get"` // a path on https://KEY, or a URL
	Post    string            `yaml:"post"`
	Form    map[string]string `yaml:"form"`
	JSON    JSON              `yaml:"json"`
	Headers map[string]string `yaml:"headers"`
	Take    map[string]string `yaml:"take"` // name → CSS selector, header:NAME, cookie:NAME, json:PATH
}

// URL is where the step goes, and its method.
func (s LoginStep) URL() (method, to string) {
	if s.Post != "" {
		return "POST", s.Post
	}
	return "GET", s.Get
}

// JSON is any value that JSON has. The zero JSON is none.
type JSON struct{ Value any }

// Account is what a recipe logs in with, for one session.
type Account struct {
	ID       string `yaml:"id"` // of the session
	User     string `yaml:"user"`
	Password string `yaml:"password"`
	TOTP     string `yaml:"totp"` // the shared secret in base32; "" none
}

// Placeholder finds the placeholders of a text; its group is the name.
var Placeholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*)\}`)
