// Package config holds what the operator decides: the YAML file, the
// environment and the flags, read strictly into one struct that nobody changes
// afterwards. All faults come at once, each with its place and its remedy.
//
// It knows names, forms and defaults. What a setting does is its user's part.
package config

import (
	"net/netip"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/session"
)

// Config is the whole of a sessionproxy's settings. Paths in it are absolute,
// or relative to the working directory.
type Config struct {
	Listen     []Listen   `yaml:"listen"`
	Admin      string     `yaml:"admin"`
	Ops        string     `yaml:"ops"`
	State      string     `yaml:"state"`
	Spool      Spool      `yaml:"spool"`
	Store      Store      `yaml:"store"`
	CA         CA         `yaml:"ca"`
	Undeclared Undeclared `yaml:"undeclared"`
	Egress     Egress     `yaml:"egress"`
	Upstream   string     `yaml:"upstream"` // name of the pool that requests leave by; [Direct]: none
	TLS        TLS        `yaml:"tls"`
	Audit      Audit      `yaml:"audit"`
	Auth       AdminAuth  `yaml:"auth"`
	Clients    []Client   `yaml:"clients"`
	Sites      []Site     `yaml:"sites"`
	CaptchaAI  CaptchaAI  `yaml:"captchaai"`

	Upstreams map[string]Pool `yaml:"upstreams"` // by name
}

// Listen is one proxy port.
type Listen struct {
	Addr      string         `yaml:"addr"`
	Auth      Auth           `yaml:"auth"`       // never empty after Load
	Client    string         `yaml:"client"`     // pinned identity: this port never asks
	Session   string         `yaml:"session"`    // pinned session
	From      []netip.Prefix `yaml:"from"`       // who may use the port; empty: anyone who reaches it
	TLS       bool           `yaml:"tls"`        // an HTTPS proxy
	PlainAuth bool           `yaml:"plain_auth"` // credentials in clear off loopback, on a private network
}

// Auth says whether a port asks for credentials.
type Auth string

// The values of Auth.
const (
	AuthNone Auth = "none" // asks nobody; takes a name when one is sent
	AuthAsk  Auth = "ask"  // 407 until credentials come
)

// Spool bounds what forms that wait for captcha tokens take of the disk.
type Spool struct {
	MaxMiB int `yaml:"max_mib"`
}

// CA is the authority that signs the leaves. Without files one is made in the state directory.
type CA struct {
	Cert      string `yaml:"cert"`
	Key       string `yaml:"key"`
	Constrain bool   `yaml:"constrain"` // name constraints: the declared hosts only
}

// Undeclared says what becomes of hosts of no site.
type Undeclared string

// The values of Undeclared.
const (
	Tunnel Undeclared = "tunnel"
	Refuse Undeclared = "refuse"
)

// Egress says where the proxy may connect to for its clients.
type Egress struct {
	Allow []string   `yaml:"allow"`
	Deny  []string   `yaml:"deny"`
	Mode  EgressMode `yaml:"mode"` // never empty after Load

	Allowed []Destination `yaml:"-"` // Allow, parsed
	Denied  []Destination `yaml:"-"` // Deny, parsed
}

// EgressMode says what becomes of a connection to an address that is not
// public.
type EgressMode string

// The values of EgressMode.
const (
	EgressOpen    EgressMode = "open"    // it is made, but for what Deny names
	EgressReport  EgressMode = "report"  // it is made, logged and counted, with what Deny names too
	EgressEnforce EgressMode = "enforce" // it is refused
)

// TLS is the certificate of listeners with tls: true.
type TLS struct {
	Cert string `yaml:"cert"`
	Key  string `yaml:"key"`

	// By ACME (RFC 8555), in place of files.
	Domains []string `yaml:"domains"` // A-labels
	Email   string   `yaml:"email"`
	ACME    string   `yaml:"acme"`    // URL of the directory
	ACMECA  string   `yaml:"acme_ca"` // PEM file, to verify the directory's server
	HTTP    string   `yaml:"http"`    // where the http-01 challenge is answered
}

// Audit is where the audit log goes.
type Audit struct {
	To string `yaml:"to"` // AuditStdout, or a file
}

// AuditStdout is the standard output.
const AuditStdout = "stdout"

// AdminAuth says who may use the admin API beside whoever holds the admin
// token, and what signs the tokens of operators and clients.
type AdminAuth struct {
	Keys      []string   `yaml:"keys"` // PEM files, the first of which signs; none: made, and kept in the store
	Operators []Operator `yaml:"operators"`
}

// Operator is one of them.
type Operator struct {
	Name     string `yaml:"name"`
	Password string `yaml:"password"` // or a hash of it
	Role     Role   `yaml:"role"`
}

// Role says what an operator may do.
type Role string

// The values of Role.
const (
	RoleOperator Role = "operator" // all
	RoleViewer   Role = "viewer"   // look, and never at a value
)

// Client is one principal that may use the proxy.
type Client struct {
	Name     string   `yaml:"name"`
	Password string   `yaml:"password"`
	Sites    []string `yaml:"sites"`    // names of sites; empty: all
	Sessions []string `yaml:"sessions"` // globs; empty: all
	Access   Access   `yaml:"access"`
	Deliver  bool     `yaml:"deliver"`
}

// MayUse says whether the client may select a session. With [session.NoneID]
// there is nothing to use.
func (c Client) MayUse(id string) bool {
	return id == "" || id == session.NoneID || len(c.Sessions) == 0 || session.AnyGlob(c.Sessions, id)
}

// Access says what a client may do to sessions.
type Access string

// The values of Access.
const (
	Write Access = "write"
	Read  Access = "read" // neither captures nor logs in
)

// Site is a named group of hosts whose sessions are shared.
type Site struct {
	Name    string            `yaml:"name"`
	Hosts   []string          `yaml:"hosts"`
	Key     string            `yaml:"key"`
	Origin  Origin            `yaml:"origin"`
	Cookies Cookies           `yaml:"cookies"`
	Headers map[string]string `yaml:"headers"` // by canonical name, set on every request
	Login   *Login            `yaml:"login"`   // nil: nothing is known of the site's login
	Captcha []Captcha         `yaml:"captcha"`

	Upstream string   `yaml:"upstream"` // as that of Config, which it has by default
	Affinity Affinity `yaml:"affinity"`

	Patterns []Pattern `yaml:"-"` // Hosts, parsed
}

// Origin says how the site's servers are reached and verified.
type Origin struct {
	CA        string            `yaml:"ca"`   // PEM file, beside the system's roots
	Cert      string            `yaml:"cert"` // client certificate
	Key       string            `yaml:"key"`
	Insecure  bool              `yaml:"insecure"`
	Resolve   map[string]string `yaml:"resolve"` // canonical host → host:port to dial in its place
	HTTPSOnly bool              `yaml:"https_only"`
}

// Cookies is a site's cookie policy.
type Cookies struct {
	Share         []string      `yaml:"share"`
	Private       []string      `yaml:"private"`
	Capture       bool          `yaml:"capture"`
	Inject        bool          `yaml:"inject"`
	Precedence    Precedence    `yaml:"precedence"`
	TTL           time.Duration `yaml:"ttl"`     // 0: auto
	MaxAge        time.Duration `yaml:"max_age"` // 0: none
	Deliver       bool          `yaml:"deliver"`
	ProtectLogout []string      `yaml:"protect_logout"`
}

// Precedence says who wins a name that client and jar both have.
type Precedence string

// The values of Precedence.
const (
	SharedWins Precedence = "shared"
	ClientWins Precedence = "client"
)

// CaptchaAI is the account that solves captchas. Without a key nobody does.
type CaptchaAI struct {
	Key     string `yaml:"key"`
	URL     string `yaml:"url"`
	Threads int    `yaml:"threads"` // 0: those of the plan
}

// Captcha is a rule by which forms of a site get a token, and the widget that
// the token is for.
type Captcha struct {
	Type      string        `yaml:"type"`   // a captcha.Type, or [CaptchaAuto]
	Method    string        `yaml:"method"` // of the form's request
	Path      string        `yaml:"path"`   // of it: a glob, without the query; "" any
	SiteKey   string        `yaml:"sitekey"`
	Action    string        `yaml:"action"`
	Page      string        `yaml:"page"`
	Field     string        `yaml:"field"` // "" the widget's own
	When      When          `yaml:"when"`
	Solver    Solver        `yaml:"solver"`
	Token     string        `yaml:"token"` // of [SolverStatic]
	Prefetch  Prefetch      `yaml:"prefetch"`
	Pool      int           `yaml:"pool"` // tokens kept ready
	Budget    CaptchaBudget `yaml:"budget"`
	MaxWait   time.Duration `yaml:"max_wait"` // 0: auto
	OnFailure OnFailure     `yaml:"on_failure"`
}

// CaptchaAuto is the type of a rule for whatever widgets the site's pages show.
const CaptchaAuto = "auto"

// When says which state of its field has a form filled.
type When string

// The values of When.
const (
	WhenEmpty   When = "empty"   // the field is there, and empty
	WhenMissing When = "missing" // it is not there, or empty
	WhenAlways  When = "always"  // whatever it holds
)

// Solver says who solves a widget.
type Solver string

// The values of Solver.
const (
	SolverCaptchaAI Solver = "captchaai"
	SolverStatic    Solver = "static" // nobody: the token is a constant
)

// Prefetch says when a solve begins before its form comes.
type Prefetch string

// The values of Prefetch.
const (
	PrefetchPage Prefetch = "page" // when a client is shown the page
	PrefetchNone Prefetch = "none"
)

// OnFailure says what becomes of a form that no token was got for.
type OnFailure string

// The values of OnFailure.
const (
	Reject  OnFailure = "reject"  // 503
	Forward OnFailure = "forward" // it goes on as it came
)

// CaptchaBudget bounds what a site's solves may cost.
type CaptchaBudget struct {
	PerHour int `yaml:"per_hour"`
}

// Ask is what a token for the widget may cost, and how many are kept ready.
func (c Captcha) Ask(site Site) captcha.Ask {
	return captcha.Ask{Task: c.Task(site), PerHour: c.Budget.PerHour, Stock: c.Pool, MaxWait: c.MaxWait, Static: c.Token}
}

// Widgets are the site's rules that name a widget to be solved, one for each.
func (s Site) Widgets() []Captcha {
	var all []Captcha
	seen := map[captcha.Key]bool{}
	for _, c := range s.Captcha {
		if key := c.Task(s).Key(); c.SiteKey != "" && c.Solver != SolverStatic && !seen[key] {
			seen[key] = true
			all = append(all, c)
		}
	}
	return all
}

// Task is the widget as package captcha has it.
func (c Captcha) Task(site Site) captcha.Task {
	return captcha.Task{Type: captcha.Type(c.Type), Site: site.Key, SiteKey: c.SiteKey, Action: c.Action, Page: c.Page}
}
