package captchatest

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Widget is one that a site shows, as its provider knows it.
type Widget struct {
	SiteKey   string
	Secret    string
	Turnstile bool     // else reCAPTCHA: their tokens differ in life
	Hostnames []string // that may show it; empty: any
	Action    string   // that [Verifier.Check] wants; "": any
}

// Issued is a token as its provider knows it.
type Issued struct {
	Token, SiteKey, Action, Hostname string
	At                               time.Time
}

// Verdict is the answer of siteverify.
type Verdict struct {
	Success    bool      `json:"success"`
	At         time.Time `json:"challenge_ts,omitzero"`
	Hostname   string    `json:"hostname,omitempty"`
	Action     string    `json:"action,omitempty"`
	ErrorCodes []string  `json:"error-codes"`
}

// Verifier is what providers offer to a site's server. It is safe for
// concurrent use.
type Verifier struct {
	mu      sync.Mutex
	widgets []Widget
	issued  map[string]Issued
	spent   map[string]bool
	asked   int
}

// NewVerifier knows these widgets, and the published test secrets.
func NewVerifier(widgets ...Widget) *Verifier {
	return &Verifier{widgets: widgets, issued: map[string]Issued{}, spent: map[string]bool{}}
}

// Issue makes a token known.
func (v *Verifier) Issue(i Issued) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.issued[i.Token] = i
}

// Asked is how often a token was verified.
func (v *Verifier) Asked() int { v.mu.Lock(); defer v.mu.Unlock(); return v.asked }

// The published test secrets, and the one token that Cloudflare's take.
const (
	googleTestSecret = "6LeIxAcTAAAAAGG-vFI1TnRWxMZNFuojJ4WifJWe" //nolint:gosec // published for tests
	dummyToken       = "XXXX.DUMMY.TOKEN.XXXX"                    //nolint:gosec // published for tests
)

// The lives of tokens at their providers.
const (
	recaptchaLife = 2 * time.Minute
	turnstileLife = 5 * time.Minute
)

// Verify is siteverify: it spends the token.
func (v *Verifier) Verify(secret, token string) Verdict {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.asked++
	now := time.Now()
	switch {
	case secret == "":
		return refused("missing-input-secret")
	case token == "":
		return refused("missing-input-response")
	case secret == googleTestSecret:
		return Verdict{Success: true, At: now, Hostname: "testkey.google.com", ErrorCodes: []string{}}
	case isTurnstileTest(secret):
		return turnstileTest(secret, token, now)
	}
	i := slices.IndexFunc(v.widgets, func(w Widget) bool { return w.Secret == secret })
	if i < 0 {
		return refused("invalid-input-secret")
	}
	w := v.widgets[i]
	t, ok := v.issued[token]
	life := recaptchaLife
	if w.Turnstile {
		life = turnstileLife
	}
	switch {
	case !ok || t.SiteKey != w.SiteKey || len(w.Hostnames) > 0 && !slices.Contains(w.Hostnames, t.Hostname):
		return refused("invalid-input-response")
	case v.spent[token] || now.Sub(t.At) > life:
		return refused("timeout-or-duplicate")
	}
	v.spent[token] = true
	return Verdict{Success: true, At: t.At, Hostname: t.Hostname, Action: t.Action, ErrorCodes: []string{}}
}

// Check is what a careful site does: it verifies, and compares the action,
// which siteverify leaves to it.
func (v *Verifier) Check(secret, token string) Verdict {
	verdict := v.Verify(secret, token)
	v.mu.Lock()
	defer v.mu.Unlock()
	i := slices.IndexFunc(v.widgets, func(w Widget) bool { return w.Secret == secret })
	if verdict.Success && i >= 0 && v.widgets[i].Action != "" && v.widgets[i].Action != verdict.Action {
		verdict.Success, verdict.ErrorCodes = false, []string{"action-mismatch"}
	}
	return verdict
}

func refused(code string) Verdict { return Verdict{ErrorCodes: []string{code}} }

func isTurnstileTest(secret string) bool {
	return len(secret) == 35 && strings.ContainsAny(secret[:1], "123") && secret[1:] == "x0000000000000000000000000000000AA"
}

func turnstileTest(secret, token string, now time.Time) Verdict {
	switch {
	case secret[0] == '2', token != dummyToken:
		return refused("invalid-input-response")
	case secret[0] == '3':
		return refused("timeout-or-duplicate")
	}
	return Verdict{Success: true, At: now, Hostname: "example.com", ErrorCodes: []string{}}
}

// ServeHTTP is siteverify on any path: by POST, as a form or as JSON.
func (v *Verifier) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var in struct{ Secret, Response string }
	w.Header().Set("Content-Type", "application/json")
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	switch {
	case r.Method != http.MethodPost:
		_ = json.NewEncoder(w).Encode(refused("bad-request"))
		return
	case strings.HasPrefix(r.Header.Get("Content-Type"), "application/json"):
		if json.NewDecoder(r.Body).Decode(&in) != nil {
			_ = json.NewEncoder(w).Encode(refused("bad-request"))
			return
		}
	default:
		in.Secret, in.Response = r.PostFormValue("secret"), r.PostFormValue("response")
	}
	_ = json.NewEncoder(w).Encode(v.Verify(in.Secret, in.Response))
}
