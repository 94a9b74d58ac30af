// Package admin answers operators: the API under /api/v1, the files that
// clients are set up with, and, on a port of its own, metrics and health.
//
// The API is guarded against people without the token, and against web pages
// that reach it through the browser of someone who has it. Listeners are its
// caller's part, and so is what a session is: package session knows.
package admin

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/access"
	"github.com/sessionproxy/sessionproxy/proxy/admin/dashboard"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
	"github.com/sessionproxy/sessionproxy/proxy/group"
	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
	"github.com/sessionproxy/sessionproxy/session"
)

// Options are the parts of the API. All but Hosts and Audit are needed.
type Options struct {
	Token     string // what the API asks for, see [Token]; with "" nobody gets in
	Addr      string // host:port that the listener is bound to
	Store     session.Store
	Tokens    *captcha.Pool
	CA        []byte     // PEM of what clients are to trust
	Listeners []Listener // all its ports
	Version   string     // of this program
	Log       *slog.Logger
	Upstreams *upstream.Pools
	Access    *access.Authority
	Audit     *audit.Log
	Events    *Events
	Metrics   prometheus.Registerer
	Trace     *trace.Log
	Group     *group.Group

	// What the proxy knows and does. Any number of requests call these at once.

	Proxy   func() Listener                                  // the proxy's port that clients are told of, its Addr as they dial it
	Hosts   func() []string                                  // more names that it is called by; A-labels. nil: none
	Sites   func() []config.Site                             // those declared now
	Clients func() []config.Client                           // the same
	Revoke  func(ctx context.Context, key session.Key) error // ends a session, and what of it is open
	Workers func() []Worker                                  // that were seen last
	Config  func() Config                                    // and its faults
	// EachUse calls f with the last use of each session that was lately used
	// through this process.
	EachUse func(f func(key session.Key, at time.Time, client, worker string))
	// Locate finds the site that declares u, "" for none. Its error is a
	// sentence for whoever wrote u.
	Locate func(u *url.URL) (site string, at session.Setting, err error)
	// Explain says what a request for u would carry; refused is a sentence
	// where it is nothing, whatever the cookies.
	Explain func(ctx context.Context, u *url.URL, client, id string) (site, refused string, verdicts []session.Verdict, err error)
	// LogIn runs the recipe of a session. Its error is [login.ErrNoRecipe] where it has none.
	LogIn func(ctx context.Context, key session.Key) ([]login.Step, error)
	// LoginStatus says how the login of a session stands.
	LoginStatus func(ctx context.Context, key session.Key) login.Status
	// Reload reads the configuration anew; Config says what came of it.
	Reload func(ctx context.Context)
	// ExplainLogin says what u is to a login, "" for nothing.
	ExplainLogin func(ctx context.Context, u *url.URL, id string) string
	// Learned are the captchas that the pages of a site were seen to show, by
	// the site's key; nil: nobody looks.
	Learned func(site string) []captcha.Ask
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	s := &server{
		token:     sha256.Sum256([]byte(o.Token)),
		names:     o.names,
		store:     o.Store,
		tokens:    o.Tokens,
		ca:        o.CA,
		proxy:     o.Proxy,
		listeners: o.Listeners,
		version:   o.Version,
		log:       o.Log,
		upstreams: o.Upstreams,
		access:    o.Access,
		audit:     o.Audit,
		events:    o.Events,
		refusals:  newRefusals(o.Metrics),
		trace:     o.Trace,
		group:     o.Group,
		workers:   o.Workers,
		config:    o.Config,
		sites:     o.Sites,
		clients:   o.Clients,
		revoke:    o.Revoke,
		eachUse:   o.EachUse,
		locate:    o.Locate,
		explain:   o.Explain,
		logIn:     o.LogIn,
		status:    o.LoginStatus,
		explainIn: o.ExplainLogin,
		learned:   o.Learned,
		reload:    o.Reload,
	}
	s.mux = newMux(append(byRole(s.routes()), pages...))
	return s
}

// names are those that the listener has now.
func (o Options) names() names {
	if o.Hosts == nil {
		return newNames(o.Addr, nil)
	}
	return newNames(o.Addr, o.Hosts())
}

// routes is all that the API has.
func (s *server) routes() []route {
	return []route{
		{http.MethodGet, "/ca.pem", s.caPEM},
		{http.MethodGet, "/proxy.pac", s.proxyPAC},
		{http.MethodGet, "/debug/pprof/{profile}", s.profile},
		{http.MethodPost, "/api/v1/login", s.login},
		{http.MethodPost, "/api/v1/refresh", s.refresh},
		{http.MethodPost, "/api/v1/logout", s.logout},
		{http.MethodGet, "/api/v1/me", s.showMe},
		{http.MethodGet, "/api/v1/devices", s.listDevices},
		{http.MethodDelete, "/api/v1/devices/{id}", s.revokeDevice},
		{http.MethodDelete, "/api/v1/operators/{name}/devices", s.revokeOperator},
		{http.MethodGet, "/api/v1/access", s.listGrants},
		{http.MethodPost, "/api/v1/access", s.issue},
		{http.MethodDelete, "/api/v1/access/{id}", s.revokeGrant},
		{http.MethodGet, "/api/v1/clients", s.listClients},
		{http.MethodGet, "/api/v1/config", s.showConfig},
		{http.MethodPost, "/api/v1/config/reload", s.reloadConfig},
		{http.MethodGet, "/api/v1/events", s.stream},
		{http.MethodGet, "/api/v1/captcha", s.listAllTokens},
		{http.MethodGet, "/api/v1/captcha/{site}", s.listTokens},
		{http.MethodPost, "/api/v1/captcha/{site}/tokens", s.pushToken},
		{http.MethodDelete, "/api/v1/captcha/{site}/tokens", s.flushTokens},
		{http.MethodPost, "/api/v1/captcha/{site}/warm", s.warmTokens},
		{http.MethodGet, "/api/v1/exchanges", s.listExchanges},
		{http.MethodGet, "/api/v1/exchanges/{id}", s.showExchange},
		{http.MethodGet, "/api/v1/explain", s.explainURL},
		{http.MethodGet, "/api/v1/logins", s.listLogins},
		{http.MethodGet, "/api/v1/openapi.json", s.showOpenAPI},
		{http.MethodGet, "/api/v1/overview", s.showOverview},
		{http.MethodGet, "/api/v1/proxy", s.showProxy},
		{http.MethodGet, "/api/v1/sessions", s.listSessions},
		{http.MethodGet, "/api/v1/sessions/{site}/{session}", s.showSession},
		{http.MethodDelete, "/api/v1/sessions/{site}/{session}", s.clearSession},
		{http.MethodPost, "/api/v1/sessions/{site}/{session}/revoke", s.revokeSession},
		{http.MethodPost, "/api/v1/sessions/{site}/{session}/login", s.loginSession},
		{http.MethodPut, "/api/v1/sessions/{site}/{session}/cookies", s.setCookie},
		{http.MethodDelete, "/api/v1/sessions/{site}/{session}/cookies", s.removeCookies},
		{http.MethodPost, "/api/v1/sessions/{site}/{session}/cookies/import", s.importCookies},
		{http.MethodPost, "/api/v1/sessions/{site}/{session}/cookies/export", s.exportCookies},
		{http.MethodGet, "/api/v1/sites", s.listSites},
		{http.MethodGet, "/api/v1/upstreams", s.listUpstreams},
		{http.MethodPost, "/api/v1/upstreams/{pool}", s.addUpstream},
		{http.MethodPost, "/api/v1/upstreams/{pool}/release", s.releaseLeases},
		{http.MethodDelete, "/api/v1/upstreams/{pool}/{upstream}", s.removeUpstream},
		{http.MethodPost, "/api/v1/upstreams/{pool}/{upstream}/check", s.checkUpstream},
		{http.MethodGet, "/api/v1/trace", s.streamExchanges},
		{http.MethodGet, "/api/v1/version", s.showVersion},
		{http.MethodGet, "/api/v1/workers", s.listWorkers},
	}
}

// isOpen says which paths need no proof: those that a client reads before it
// can be given one, and those that give one.
func isOpen(path string) bool {
	switch path {
	case "/", "/ca.pem", "/proxy.pac", "/api/v1/login", "/api/v1/refresh":
		return true
	}
	return strings.HasPrefix(path, dashboard.Prefix)
}

type server struct {
	token     [sha256.Size]byte // hashed, so that comparing takes the same time for every length
	names     func() names
	store     session.Store
	tokens    *captcha.Pool
	learned   func(site string) []captcha.Ask
	ca        []byte
	proxy     func() Listener
	listeners []Listener
	version   string
	log       *slog.Logger
	upstreams *upstream.Pools
	access    *access.Authority
	audit     *audit.Log
	events    *Events
	refusals  *prometheus.CounterVec
	trace     *trace.Log
	group     *group.Group
	workers   func() []Worker
	config    func() Config
	strangers strangers
	sites     func() []config.Site
	clients   func() []config.Client
	revoke    func(context.Context, session.Key) error
	eachUse   func(func(key session.Key, at time.Time, client, worker string))
	locate    func(*url.URL) (string, session.Setting, error)
	explain   func(context.Context, *url.URL, string, string) (string, string, []session.Verdict, error)
	logIn     func(context.Context, session.Key) ([]login.Step, error)
	status    func(context.Context, session.Key) login.Status
	explainIn func(context.Context, *url.URL, string) string
	reload    func(context.Context)
	mux       *http.ServeMux
}

// ServeHTTP makes its checks in an order that tells an outsider nothing: a
// page that rebound its name to our address never learns whether a token was
// right, and without a token nobody learns which paths there are.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, r := newCall(w, r)
	harden(c.Header())
	c.Header().Set("X-Exchange-Id", c.id)
	defer s.writeDown(c, r)
	if p := s.guard(c, r); p != nil {
		p.write(c)
		return
	}
	s.mux.ServeHTTP(c, r)
}

// guard says why a call goes no further, and whose it is where it does.
func (s *server) guard(c *call, r *http.Request) *problem {
	switch {
	case !s.names().include(r.Host):
		c.worth = true
		return &problem{http.StatusMisdirectedRequest, "unknown_host",
			"This server does not answer to that name. Call it localhost or 127.0.0.1, with the port it listens on."}
	case isForeign(r) && !isVisit(r):
		c.worth = true
		return &problem{http.StatusForbidden, "foreign_origin",
			"A page of another origin may not use this server. Open the address itself, or call it from a program."}
	case isOpen(r.URL.Path):
		return nil
	}
	who, proof, err := s.authenticate(r)
	switch {
	case err != nil:
		s.log.ErrorContext(r.Context(), "access store unavailable", "err", err)
		return &problem{http.StatusServiceUnavailable, "store_unavailable", "The proxy can't tell now whether your session is good. Try again; its log has the cause."}
	case who.Name == "":
		c.worth = proof
		c.Header().Set("WWW-Authenticate", "Bearer") // RFC 6750 section 3
		return &problem{http.StatusUnauthorized, "token",
			"This needs the admin token, or an operator's. Send the content of admin.token, in the state directory, or what POST /api/v1/login answers with, as: Authorization: Bearer TOKEN."}
	case byCookie(r) && !saysWhose(r) && r.Method != http.MethodGet && r.Method != http.MethodHead:
		c.worth = true
		return &problem{http.StatusForbidden, "foreign_origin",
			"Your browser does not say which page makes this request, and so it may be any. Use a newer one, or a program."}
	}
	c.who = who
	return nil
}
