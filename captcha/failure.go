package captcha

import "errors"

// Failure is why there is no token, where neither the store nor the solver
// says so.
type Failure struct {
	outcome string
	text    string
}

// Error returns a sentence for people.
func (e *Failure) Error() string { return e.text }

// Outcome is what metrics call it.
func (e *Failure) Outcome() string { return e.outcome }

// Why there may be no token.
var (
	ErrMaxWait  = &Failure{"max_wait", "no token was solved within max_wait; the solve goes on, and its token will be ready"}
	ErrNoSolver = &Failure{"no_solver", "no token is ready and no solver is configured; set captchaai.key, or push tokens"}
	ErrClosed   = &Failure{"closed", "the proxy is stopping"}

	errTestKey = &Failure{"test_key", "this sitekey is published for tests and answered at once; there is nothing to warm"}
	errTooOld  = &Failure{"too_old", "the service took so long that the token is too old to be sent"}
)

// OutcomeOf is the word that metrics have for an error: "solved" for none. Words
// come from short lists: see [Solver].
func OutcomeOf(err error) string {
	var named interface{ Outcome() string }
	switch {
	case err == nil:
		return "solved"
	case errors.As(err, &named):
		return named.Outcome()
	}
	return "failed"
}
