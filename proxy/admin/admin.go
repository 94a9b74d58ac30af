// Package admin answers operators: the API under /api/v1, the files that
// clients are set up with, and, on a port of its own, metrics and health.
//
// The API is guarded against people without the token, and against web pages
// that reach it through the browser of someone who has it. Listeners are its
// caller's part, and so is what a session is: package session knows.
package admin

import (
	"crypto/sha256"
	"log/slog"
	"net/http"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// Options are the parts of the API. All but Hosts are needed.
type Options struct {
	Token     string   // what the API asks for, see [Token]; with "" nobody gets in
	Addr      string   // host:port that the listener is bound to
	Hosts     []string // more names that it is called by; A-labels
	Store     session.Store
	Sites     func() []Site // those declared now; called by any number of requests at once
	CA        []byte        // PEM of what clients are to trust
	Proxy     string        // host:port of the proxy, as clients dial it
	Listeners []Listener    // all its ports
	Version   string        // of this program
	Log       *slog.Logger
}

// Site is what the API needs to know of a declared site.
type Site struct {
	Name  string
	Key   string // in the store
	Hosts []config.Pattern
}

// New returns the handler of the admin listener.
func New(o Options) http.Handler {
	s := &server{
		token:     sha256.Sum256([]byte(o.Token)),
		names:     newNames(o.Addr, o.Hosts),
		store:     o.Store,
		sites:     o.Sites,
		ca:        o.CA,
		proxy:     o.Proxy,
		listeners: o.Listeners,
		version:   o.Version,
		log:       o.Log,
	}
	s.mux = newMux([]route{
		{http.MethodGet, "/ca.pem", s.caPEM},
		{http.MethodGet, "/proxy.pac", s.proxyPAC},
		{http.MethodGet, "/api/v1/proxy", s.showProxy},
		{http.MethodGet, "/api/v1/sessions", s.listSessions},
		{http.MethodGet, "/api/v1/version", s.showVersion},
	})
	return s
}

// isOpen says which paths need no token: those that a client reads before it
// can be given one.
func isOpen(path string) bool { return path == "/ca.pem" || path == "/proxy.pac" }

type server struct {
	token     [sha256.Size]byte // hashed, so that comparing takes the same time for every length
	names     names
	store     session.Store
	sites     func() []Site
	ca        []byte
	proxy     string
	listeners []Listener
	version   string
	log       *slog.Logger
	mux       *http.ServeMux
}

// ServeHTTP makes its checks in an order that tells an outsider nothing: a
// page that rebound its name to our address never learns whether a token was
// right, and without a token nobody learns which paths there are.
func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	harden(w.Header())
	switch {
	case !s.names.include(r.Host):
		problem{http.StatusMisdirectedRequest, "unknown_host",
			"This server does not answer to that name. Call it localhost or 127.0.0.1, with the port it listens on."}.write(w)
	case isForeign(r):
		problem{http.StatusForbidden, "foreign_origin",
			"A page of another origin may not use this server. Open the address itself, or call it from a program."}.write(w)
	case !isOpen(r.URL.Path) && !s.authorized(r):
		w.Header().Set("WWW-Authenticate", "Bearer") // RFC 6750 section 3
		problem{http.StatusUnauthorized, "token",
			"This needs the admin token. Send the content of admin.token, in the state directory, as: Authorization: Bearer TOKEN."}.write(w)
	default:
		s.mux.ServeHTTP(w, r)
	}
}
