// Package shop is a small HTTPS shop with a login, for the demo command and
// for end-to-end tests. It behaves as a careful site does and knows nothing of
// the proxy before it.
//
//	GET  /         the shop window
//	GET  /login    the sign-in form; ?next=/orders leads there afterwards
//	POST /login    user, password, csrf_token, next: 303 to /account or next;
//	               200 with the form and a message for wrong credentials
//	GET  /account  "Hello alice"; signed out: 303 to /login?next=/account
//	POST /logout   csrf_token: ends the session, 303 to /
//	GET  /contact  a form, with a captcha where [Options] name one
//	POST /contact  message, csrf_token, g-recaptcha-response: 303 to /thanks;
//	               403 with the form and a message without a good token
//	GET  /thanks   where a message leads
//	GET  /orders   a page whose script asks /api/me and can follow /events
//	GET  /api/me   {"user":"alice"}; signed out: 401
//	GET  /events   server-sent events, one a second; signed out: 401
//
// It sets two cookies:
//
//	sid=…; Path=/; Max-Age=43200; HttpOnly; Secure; SameSite=Lax
//	csrftoken=…; Path=/; HttpOnly; Secure; SameSite=Lax
//
// csrftoken comes with the first page and must come back in the form too
// (double submit); a POST without it is a 403. A second login leaves earlier
// sessions alive, as sites do whose customers own several devices.
package shop

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/json"
	"html/template"
	"net/http"
	"sync/atomic"
)

// Options describe a shop and its one customer. All but Captcha are required.
type Options struct {
	Host     string // the name that it is reached by, such as shop.test
	User     string
	Password string
	Captcha  *Captcha // of the contact form; nil: it has none
}

// Captcha is a reCAPTCHA v2 widget and its provider.
type Captcha struct {
	SiteKey string
	Solved  func(token string) bool // asks the provider, and spends the token
}

// Shop is the site as an [http.Handler]. It is safe for concurrent use.
type Shop struct {
	host           string
	user, password [sha256.Size]byte // digests: equal lengths let them be compared in constant time
	captcha        *Captcha
	sessions       sessions
	logins         atomic.Int64
	routes         *http.ServeMux
}

// New returns a shop in which nobody is signed in.
func New(o Options) *Shop {
	s := &Shop{
		host:     o.Host,
		user:     sha256.Sum256([]byte(o.User)),
		password: sha256.Sum256([]byte(o.Password)),
		captcha:  o.Captcha,
		sessions: sessions{live: make(map[string]session)},
		routes:   http.NewServeMux(),
	}
	s.routes.HandleFunc("GET /{$}", s.home)
	s.routes.HandleFunc("GET /login", s.loginForm)
	s.routes.HandleFunc("POST /login", s.checked(s.login))
	s.routes.HandleFunc("POST /logout", s.checked(s.logout))
	s.routes.HandleFunc("GET /account", s.account)
	s.routes.HandleFunc("GET /contact", s.contactForm)
	s.routes.HandleFunc("POST /contact", s.checked(s.contact))
	s.routes.HandleFunc("GET /thanks", s.thanks)
	s.routes.HandleFunc("GET /orders", s.orders)
	s.routes.HandleFunc("GET /api/me", s.me)
	s.routes.HandleFunc("GET /events", s.events)
	s.routes.HandleFunc("GET /static/{file}", func(w http.ResponseWriter, r *http.Request) {
		http.ServeFileFS(w, r, static, "static/"+r.PathValue("file"))
	})
	return s
}

// Logins returns how many logins have succeeded so far.
func (s *Shop) Logins() int { return int(s.logins.Load()) }

// policy allows what the pages use, all of it from the shop itself.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP answers one request.
func (s *Shop) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store") // pages differ by customer
	s.routes.ServeHTTP(w, r)
}

var (
	//go:embed static
	static embed.FS

	//go:embed pages.html
	pagesHTML string

	pages = template.Must(template.New("pages").Parse(pagesHTML))
)

// page is what the templates are given.
type page struct {
	Host  string
	Title string
	User  string // empty: signed out
	CSRF  string

	// Of a form: what went wrong before, what was typed, where to go on after
	// signing in, and the widget's key.
	Message, Typed, Next, SiteKey string
}

// render answers with the named template. Every page holds a form, so every
// page brings the CSRF token.
func (s *Shop) render(w http.ResponseWriter, r *http.Request, status int, name string, p page) {
	p.Host = s.host
	p.CSRF = csrfToken(w, r)
	var body bytes.Buffer
	if err := pages.ExecuteTemplate(&body, name, p); err != nil {
		http.Error(w, "The page could not be drawn.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = body.WriteTo(w) // a client that left needs no answer
}

func (s *Shop) home(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "home", page{Title: "Welcome", User: s.signedIn(r)})
}

func (s *Shop) account(w http.ResponseWriter, r *http.Request) {
	user := s.signedIn(r)
	if user == "" {
		http.Redirect(w, r, "/login?next=/account", http.StatusSeeOther)
		return
	}
	s.render(w, r, http.StatusOK, "account", page{Title: "Account", User: user})
}

func (s *Shop) orders(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "orders", page{Title: "Orders", User: s.signedIn(r)})
}

func (s *Shop) me(w http.ResponseWriter, r *http.Request) {
	user := s.signedIn(r)
	if user == "" {
		s.unauthorized(w)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"user": user})
}

// unauthorized answers a script, which a redirect to a form would not help.
func (s *Shop) unauthorized(w http.ResponseWriter) {
	// A 401 must name a scheme (RFC 9110 section 15.5.2). Browsers open no
	// dialog for one that they do not know.
	w.Header().Set("WWW-Authenticate", `Cookie realm="`+s.host+`"`)
	writeJSON(w, http.StatusUnauthorized, map[string]string{"error": "not signed in"})
}

func writeJSON(w http.ResponseWriter, status int, v map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // a client that left needs no answer
}
