package admin

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/sessionproxy/sessionproxy/proxy/login"
	"github.com/sessionproxy/sessionproxy/session"
)

// SessionLoggedIn is the answer to POST /api/v1/sessions/{site}/{session}/login.
type SessionLoggedIn struct {
	Site    string      `json:"site"`
	Session string      `json:"session"`
	Steps   []LoginStep `json:"steps"`           // until the end, or the one that failed
	Error   string      `json:"error,omitempty"` // why it failed; "" it did not
}

// LoginStep is one request of a recipe, without any value.
type LoginStep struct {
	login.Step
	Milliseconds int64 `json:"milliseconds"`
}

// loginTime is longer than a recipe may take.
const loginTime = 3 * time.Minute

// loginSession is POST /api/v1/sessions/{site}/{session}/login: it runs the
// site's recipe now. Whether that succeeds, the answer is 200.
func (s *server) loginSession(w http.ResponseWriter, r *http.Request) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(loginTime)) // tests have none
	steps, err := s.logIn(r.Context(), key)
	if errors.Is(err, login.ErrNoRecipe) {
		problem{http.StatusNotFound, "no_recipe", fmt.Sprintf("The site %q has no login.recipe with an account for the session %q.", site.Name, key.ID)}.write(w)
		return
	}
	answer := SessionLoggedIn{Site: site.Name, Session: key.ID, Steps: []LoginStep{}}
	for _, step := range steps {
		answer.Steps = append(answer.Steps, LoginStep{step, step.Time.Milliseconds()})
	}
	if err != nil {
		answer.Error = err.Error()
	}
	s.changed(r.Context(), "session login", site.Name, key, "steps", len(steps), "error", answer.Error)
	writeJSON(w, http.StatusOK, "application/json", answer)
}

// LoginState is how a session's login stands, as this proxy has seen it.
type LoginState struct {
	Verdict  string    `json:"verdict"`           // in, out or unknown
	Rule     string    `json:"rule,omitzero"`     // the key of the configuration that spoke
	Seen     time.Time `json:"seen,omitzero"`     // when
	Failures int       `json:"failures,omitzero"` // of the recipe, in a row
	Error    string    `json:"error,omitzero"`    // the last one
	NextTry  time.Time `json:"next_try,omitzero"` // not before
}

func showLoginState(s login.Status) LoginState {
	l := LoginState{Verdict: s.Verdict.String(), Rule: s.Rule}
	if !s.Time.IsZero() {
		l.Seen = s.Time.UTC()
	}
	if f := s.Failed; f != nil {
		l.Failures, l.Error, l.NextTry = f.Failures, f.Why, f.Until.UTC()
	}
	return l
}

// SiteLogins are the logins of a site that declares one.
type SiteLogins struct {
	Site     string         `json:"site"`
	Recipe   bool           `json:"recipe"`   // the proxy logs in by itself
	Accounts []AccountLogin `json:"accounts"` // of the recipe
}

// AccountLogin is one account that a recipe logs in with: never its name or
// password.
type AccountLogin struct {
	Session string     `json:"session"`
	Login   LoginState `json:"login"`
}

// Logins is the answer to GET /api/v1/logins.
type Logins struct {
	Sites []SiteLogins `json:"sites"` // in the order of the configuration
}

// listLogins is GET /api/v1/logins.
func (s *server) listLogins(w http.ResponseWriter, r *http.Request) {
	all := Logins{[]SiteLogins{}}
	for _, site := range s.sites() {
		if site.Login == nil {
			continue
		}
		one := SiteLogins{site.Name, len(site.Login.Recipe) > 0, []AccountLogin{}}
		for _, a := range site.Login.Accounts {
			state := s.status(r.Context(), session.Key{Site: site.Key, ID: a.ID})
			one.Accounts = append(one.Accounts, AccountLogin{a.ID, showLoginState(state)})
		}
		all.Sites = append(all.Sites, one)
	}
	writeJSON(w, http.StatusOK, "application/json", all)
}
