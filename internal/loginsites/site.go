// Package loginsites has small sites with a login, for tests: one whose ways
// can be chosen, and some that behave as the frameworks document that they
// do. None knows of a proxy.
package loginsites

import (
	"crypto/rand"
	"fmt"
	"html"
	"math"
	mathrand "math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// The one account of every site, and another user of New's, whose password is
// the same.
const (
	User     = "alice"
	Password = "wonderland"
	Another  = "dinah"
)

// Options are a site's ways. The zero value is a plain one: a login form with a
// token of its own, a cookie sid that a login replaces, and a redirect to the
// form for whoever is not logged in.
type Options struct {
	Rotate  bool          // each reply gives the session another value; the one before is honoured, and told the present one
	Strict  bool          // with Rotate: the one before is not
	Single  bool          // a login ends all earlier ones
	Form    bool          // who is not logged in gets the form with 200
	Flaky   float64       // so many requests of 1 are taken for logged out, though they are not
	Lost    float64       // so many requests of 1 end their login
	Life    time.Duration // of a login; 0: for ever
	SameID  bool          // a login keeps the session's value, and sets no cookie
	Latency time.Duration // of a login
	SiteKey string        // of the form's reCAPTCHA v2; "": it has none
	// Solved says whether the provider of the captcha takes a token.
	Solved func(token string) bool
	// OnLogin is called with each login that has the right password, before
	// it is answered.
	OnLogin func(n int)
}

// Site is a site with a login. It is safe for concurrent use.
//
//	GET  /login    the form
//	POST /login    user, password, token: 303 to /account; 200 with the form for wrong ones
//	               or an unsolved captcha, 403 without the token
//	GET  /account, /page/…  a page that says "Hello alice", or 302 to /login
//	GET  /api/me   {"user":"alice"}, or 401
//	GET  /public   a page for everyone
type Site struct {
	o      Options
	routes *http.ServeMux

	mu       sync.Mutex // guards what follows
	sessions map[string]*visitor
	logins   int
	attempts int
	forms    int // times that somebody was shown the form
	random   *mathrand.Rand
}

// visitor is a session, logged in or not.
type visitor struct {
	user  string
	until time.Time // of the login; zero: for ever
	now   string    // its value; the one before is honoured too
	older string
	token string // of its form
}

// New returns a site with nobody logged in.
func New(o Options) *Site {
	s := &Site{o: o, routes: http.NewServeMux(), sessions: map[string]*visitor{}, random: mathrand.New(mathrand.NewPCG(1, 2))}
	s.routes.HandleFunc("GET /login", s.form)
	s.routes.HandleFunc("POST /login", s.login)
	s.routes.HandleFunc("GET /account", s.page)
	s.routes.HandleFunc("GET /page/", s.page)
	s.routes.HandleFunc("POST /page/", s.page)
	s.routes.HandleFunc("GET /api/me", s.me)
	s.routes.HandleFunc("GET /public", s.public)
	s.routes.HandleFunc("GET /logout", s.logout)
	return s
}

// ServeHTTP answers one request.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	s.routes.ServeHTTP(w, r)
}

// Logins is how many logins have succeeded, Attempts how many were tried.
func (s *Site) Logins() int   { return s.count(&s.logins) }
func (s *Site) Attempts() int { return s.count(&s.attempts) }

// Forms is how often somebody was shown the form or sent to it.
func (s *Site) Forms() int { return s.count(&s.forms) }

func (s *Site) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *n
}

// Expire ends all logins, as a site does that was restarted.
func (s *Site) Expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions)
}

// find returns the visitor that a request belongs to, a new one if there is
// none, and gives it a cookie where it needs one. The caller holds mu.
func (s *Site) find(w http.ResponseWriter, r *http.Request, create bool) *visitor {
	var v *visitor
	presented := ""
	if c, err := r.Cookie("sid"); err == nil {
		presented = c.Value
		v = s.sessions[presented]
	}
	if v != nil && v.user != "" && (!v.until.IsZero() && time.Now().After(v.until)) {
		s.drop(v)
		v = nil
	}
	switch {
	case v == nil && create:
		v = &visitor{token: rand.Text()}
		s.name(w, r, v)
	case v != nil && s.o.Rotate && presented == v.now:
		s.name(w, r, v)
	case v != nil && s.o.Rotate:
		s.tell(w, r, v)
	}
	return v
}

// name gives a visitor another value.
func (s *Site) name(w http.ResponseWriter, r *http.Request, v *visitor) {
	if v.older != "" {
		delete(s.sessions, v.older)
	}
	v.older, v.now = v.now, rand.Text()
	if s.o.Strict {
		delete(s.sessions, v.older)
	}
	s.sessions[v.now] = v
	s.tell(w, r, v)
}

func (s *Site) tell(w http.ResponseWriter, r *http.Request, v *visitor) {
	http.SetCookie(w, &http.Cookie{Name: "sid", Value: v.now, Path: "/", HttpOnly: true, Secure: r.TLS != nil})
}

func (s *Site) drop(v *visitor) {
	delete(s.sessions, v.now)
	delete(s.sessions, v.older)
}

// in says whether a visitor is logged in.
func (s *Site) in(v *visitor) bool {
	if v == nil || v.user == "" {
		return false
	}
	if s.chance(s.o.Lost) {
		s.drop(v)
		v.user = ""
		return false
	}
	return !s.chance(s.o.Flaky)
}

func (s *Site) chance(of float64) bool { return of > 0 && s.random.Float64() < of }

func (s *Site) form(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.showForm(w, s.find(w, r, true))
}

func (s *Site) showForm(w http.ResponseWriter, v *visitor) {
	s.forms++
	http.SetCookie(w, &http.Cookie{Name: "csrftoken", Value: "of-" + v.token, Path: "/"})
	fmt.Fprintf(w, `<h1>Please sign in</h1><form method="post" action="/login"><input name="user"><input name="password" type="password"><input name="token" value="%s">`, html.EscapeString(v.token))
	if s.o.SiteKey != "" {
		fmt.Fprintf(w, `<div class="g-recaptcha" data-sitekey="%s"><textarea name="g-recaptcha-response" hidden></textarea></div>`, html.EscapeString(s.o.SiteKey))
	}
	fmt.Fprint(w, `<button>Sign in</button></form>`)
}

func (s *Site) login(w http.ResponseWriter, r *http.Request) {
	user, password, token := r.PostFormValue("user"), r.PostFormValue("password"), r.PostFormValue("token")
	s.mu.Lock()
	s.attempts++
	v := s.find(w, r, true)
	right := (user == User || user == Another) && password == Password
	switch {
	case token != v.token:
		s.mu.Unlock()
		w.WriteHeader(http.StatusForbidden)
		return
	case !right, s.o.SiteKey != "" && !s.o.Solved(r.PostFormValue("g-recaptcha-response")):
		s.showForm(w, v)
		s.mu.Unlock()
		return
	}
	s.logins++
	n := s.logins
	s.mu.Unlock()
	if s.o.OnLogin != nil {
		s.o.OnLogin(n)
	}
	if s.o.Latency > 0 {
		time.Sleep(s.o.Latency)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.o.Single {
		for _, other := range s.sessions {
			if other != v && other.user != "" {
				s.drop(other)
			}
		}
	}
	v.user, v.until = user, time.Time{}
	if s.o.Life > 0 {
		v.until = time.Now().Add(s.o.Life)
	}
	if !s.o.SameID {
		s.drop(v)
		v.now, v.older = "", ""
		s.name(w, r, v)
	}
	http.SetCookie(w, &http.Cookie{Name: "csrftoken", Value: "holder", Path: "/"})
	http.Redirect(w, r, "/account", http.StatusSeeOther)
}

func (s *Site) page(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.find(w, r, s.o.Form)
	switch {
	case s.in(v):
		fmt.Fprintf(w, "<h1>Hello %s</h1>", html.EscapeString(v.user))
	case s.o.Form:
		s.showForm(w, v)
	default:
		s.forms++
		// As many do, it begins an anonymous session for the way back.
		if v == nil || v.user == "" {
			s.name(w, r, &visitor{token: rand.Text()})
		}
		http.Redirect(w, r, "/login?next="+r.URL.Path, http.StatusFound)
	}
}

func (s *Site) me(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.find(w, r, false); s.in(v) {
		fmt.Fprintf(w, `{"user":%q}`, v.user)
		return
	}
	w.WriteHeader(http.StatusUnauthorized)
}

func (s *Site) public(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.find(w, r, false)
	fmt.Fprint(w, "<h1>Welcome</h1>")
}

func (s *Site) logout(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v := s.find(w, r, false); v != nil {
		s.drop(v)
	}
	http.SetCookie(w, &http.Cookie{Name: "sid", MaxAge: math.MinInt32, Path: "/"})
	http.Redirect(w, r, "/login", http.StatusFound)
}
