package shop

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"net/http"
	"time"
)

const (
	sidName   = "sid"
	csrfName  = "csrftoken"
	csrfField = "csrf_token"

	maxForm = 64 << 10 // bytes
)

func (s *Shop) loginForm(w http.ResponseWriter, r *http.Request) {
	s.render(w, r, http.StatusOK, "login", page{
		Title: "Sign in",
		User:  s.signedIn(r),
		Next:  r.URL.Query().Get("next"),
	})
}

func (s *Shop) login(w http.ResponseWriter, r *http.Request) {
	user := r.PostForm.Get("user")
	if !s.knows(user, r.PostForm.Get("password")) {
		s.render(w, r, http.StatusOK, "login", page{
			Title:   "Sign in",
			User:    s.signedIn(r),
			Message: "Wrong user name or password.",
			Typed:   user,
			Next:    r.PostForm.Get("next"),
		})
		return
	}
	setSID(w, s.sessions.start(user), sessionLife)
	s.logins.Add(1)
	http.Redirect(w, r, landing(r.PostForm.Get("next")), http.StatusSeeOther)
}

func (s *Shop) logout(w http.ResponseWriter, r *http.Request) {
	if c, err := r.Cookie(sidName); err == nil {
		s.sessions.end(c.Value)
	}
	setSID(w, "", 0)
	http.Redirect(w, r, "/", http.StatusSeeOther)
}

// checked reads a form and lets it pass to next if it proves to come from one
// of our pages: a foreign page can send our cookie but not read it.
func (s *Shop) checked(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		if err := r.ParseForm(); err != nil {
			status := http.StatusBadRequest
			if _, tooLarge := errors.AsType[*http.MaxBytesError](err); tooLarge {
				status = http.StatusRequestEntityTooLarge
			}
			http.Error(w, "The form could not be read.", status)
			return
		}
		cookie, err := r.Cookie(csrfName)
		if err != nil || cookie.Value == "" || !equal(cookie.Value, r.PostForm.Get(csrfField)) {
			s.render(w, r, http.StatusForbidden, "forbidden", page{Title: "Form refused", User: s.signedIn(r)})
			return
		}
		next(w, r)
	}
}

// signedIn returns the user whose session the request carries, or "".
func (s *Shop) signedIn(r *http.Request) string {
	c, err := r.Cookie(sidName)
	if err != nil {
		return ""
	}
	return s.sessions.user(c.Value)
}

// knows says whether these are the customer's credentials. It takes as long
// for a wrong user as for a wrong password.
func (s *Shop) knows(user, password string) bool {
	u, p := sha256.Sum256([]byte(user)), sha256.Sum256([]byte(password))
	return subtle.ConstantTimeCompare(u[:], s.user[:])&subtle.ConstantTimeCompare(p[:], s.password[:]) == 1
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// landing is where a login leads. Only our own pages are named: with any
// other next, a link to our form would send people elsewhere after it.
func landing(next string) string {
	if next == "/orders" {
		return next
	}
	return "/account"
}

// csrfToken returns the client's token, and gives it one if it has none.
func csrfToken(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(csrfName); err == nil && c.Value != "" {
		return c.Value
	}
	token := rand.Text()
	http.SetCookie(w, &http.Cookie{
		Name: csrfName, Value: token, Path: "/",
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
	return token
}

// setSID gives the client its session for life, or with 0 takes it away.
func setSID(w http.ResponseWriter, id string, life time.Duration) {
	maxAge := int(life / time.Second)
	if maxAge == 0 {
		maxAge = -1 // net/http writes it as Max-Age=0, and leaves 0 out
	}
	http.SetCookie(w, &http.Cookie{
		Name: sidName, Value: id, Path: "/", MaxAge: maxAge,
		HttpOnly: true, Secure: true, SameSite: http.SameSiteLaxMode,
	})
}
