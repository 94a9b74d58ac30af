package login

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// Recipe is how the proxy logs in by itself.
type Recipe struct {
	steps    []step
	accounts map[string]config.Account // by session
	base     *url.URL
	names    map[string]string // session → its Login's name
}

type step struct {
	config.LoginStep
	takes []take
}

func newRecipe(l *config.Login, key string) *Recipe {
	if len(l.Recipe) == 0 {
		return nil
	}
	r := &Recipe{accounts: map[string]config.Account{}, names: map[string]string{}, base: &url.URL{Scheme: "https", Host: key}}
	for _, s := range l.Recipe {
		next := step{LoginStep: s}
		for name, from := range s.Take {
			next.takes = append(next.takes, newTake(name, from))
		}
		r.steps = append(r.steps, next)
	}
	for _, a := range l.Accounts {
		r.accounts[a.ID] = a
		// A recipe that was mended begins without its failures.
		b, _ := json.Marshal([]any{l.Request, l.LoggedOut, l.LoggedIn, l.Recipe, a}) // all of it is text
		sum := sha256.Sum256(b)
		r.names[a.ID] = hex.EncodeToString(sum[:])
	}
	return r
}

// Login names the recipe's login of a session. It returns false where no
// account is for it.
func (r *Recipe) Login(key session.Key) (Login, bool) {
	name, ok := r.names[key.ID]
	return Login{Key: key, Name: name}, ok
}

// ErrNoRecipe says that the proxy can't log in to a session by itself.
var ErrNoRecipe = errors.New("no recipe and account is declared for this session")

// HinderedError says that a recipe came to nothing, and that this is no
// refusal: the site was not reached, or could judge nothing.
type HinderedError struct {
	Err   error
	Pause time.Duration // that the site wants before the next try
}

func (e HinderedError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e HinderedError) Unwrap() error { return e.Err }

// CauseOf says what a recipe's error counts as, and the least pause after it.
func CauseOf(err error) (Cause, time.Duration) {
	if h, ok := errors.AsType[HinderedError](err); ok {
		return Hindered, h.Pause
	}
	return Refused, 0
}

// Step is what became of one request of a recipe. It shows no value that was
// sent, taken or set, and no query.
type Step struct {
	Method   string        `json:"method"`
	URL      string        `json:"url"`
	Status   int           `json:"status,omitzero"` // 0: there was no reply
	Redirect string        `json:"redirect,omitzero"`
	Took     []string      `json:"took,omitzero"` // names
	Time     time.Duration `json:"-"`
}

// Way is how a recipe reaches the site.
type Way struct {
	Send     func(*http.Request) (*http.Response, error) // as the session's requests go
	Declared func(*url.URL) bool                         // the site's own host
	Header   http.Header                                 // set on each request
	Report   func(Step)                                  // after each request
	Now      func() time.Time                            // the clock by which cookies end
}

// The bounds of a recipe's run.
const (
	runLimit    = 150 * time.Second // a captcha alone may take 90 s
	maxReply    = 2 << 20           // of a body: what is behind it is not looked at
	maxRedirect = 10                // of one step
)

// Run logs in to the session of that ID, beginning with the cookies of jar. It
// returns those it has in the end, and whether it sent the login itself. An
// error says which step failed, and why.
//
// A site that takes these cookies for logged in may show no form, and lead on
// to where a login leads: then it is one.
func (r *Rules) Run(ctx context.Context, id string, jar *session.Jar, w Way) (end *session.Jar, tried bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, runLimit)
	defer cancel()
	account := r.Recipe.accounts[id]
	b := &run{ctx: ctx, rules: r, way: w, jar: jar, values: map[string]string{"user": account.User, "password": account.Password}}
	if account.TOTP != "" {
		secret, err := config.DecodeTOTP(account.TOTP)
		if err != nil {
			return nil, false, errors.New("the account's totp is no secret in base32")
		}
		b.secret = secret
	}
	last := len(r.Recipe.steps) - 1 // whose reply is judged
	for n := last; n >= 0; n-- {
		if method, _ := r.Recipe.steps[n].URL(); method == http.MethodPost {
			last = n
			break
		}
	}
	for n := range r.Recipe.steps {
		err := b.step(&r.Recipe.steps[n], n == last)
		switch {
		case b.in && !b.judged && !b.out:
			return b.jar, false, nil
		case err != nil:
			return nil, b.judged, fmt.Errorf("step %d: %w", n+1, err)
		}
	}
	return b.jar, b.judged, nil
}

// Changes are what turned the jar start into end: cookies to set, and those to
// delete with an Expires in the past.
func Changes(start, end *session.Jar) []session.Cookie {
	had := map[session.Identity]int64{}
	for _, c := range start.Cookies() {
		had[c.Identity()] = c.Version
	}
	var changes []session.Cookie
	for _, c := range end.Cookies() {
		if version, ok := had[c.Identity()]; !ok || version != c.Version {
			changes = append(changes, c)
		}
		delete(had, c.Identity())
	}
	for _, c := range start.Cookies() {
		if _, gone := had[c.Identity()]; gone {
			c.Expires = time.Unix(1, 0)
			changes = append(changes, c)
		}
	}
	return changes
}
