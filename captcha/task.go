package captcha

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Type is a kind of widget whose answer is one opaque string in a form field.
type Type string

// The types that can be solved.
const (
	RecaptchaV2                    Type = "recaptcha_v2"
	RecaptchaV2Invisible           Type = "recaptcha_v2_invisible"
	RecaptchaV3                    Type = "recaptcha_v3"
	RecaptchaV2Enterprise          Type = "recaptcha_v2_enterprise"
	RecaptchaV2InvisibleEnterprise Type = "recaptcha_v2_invisible_enterprise"
	RecaptchaV3Enterprise          Type = "recaptcha_v3_enterprise"
	Turnstile                      Type = "turnstile"
)

// Types are all of them.
var Types = []Type{
	RecaptchaV2, RecaptchaV2Invisible, RecaptchaV3,
	RecaptchaV2Enterprise, RecaptchaV2InvisibleEnterprise, RecaptchaV3Enterprise, Turnstile,
}

// IsV3 says whether the widget scores without asking, for a named action.
func (t Type) IsV3() bool { return t == RecaptchaV3 || t == RecaptchaV3Enterprise }

// IsInvisible says whether the widget has no checkbox and yet may ask.
func (t Type) IsInvisible() bool {
	return t == RecaptchaV2Invisible || t == RecaptchaV2InvisibleEnterprise
}

// IsEnterprise says whether the site's server has its tokens assessed by
// reCAPTCHA Enterprise.
func (t Type) IsEnterprise() bool { return strings.HasSuffix(string(t), "_enterprise") }

// HasAction says whether an action can be part of what a token is good for.
func (t Type) HasAction() bool { return t.IsV3() || t == Turnstile }

// Life is how long after its issue a token is still sent. Google's are valid
// for two minutes and Cloudflare's for five, at the site's own check; what is
// left is for the way there.
func (t Type) Life() time.Duration {
	if t == Turnstile {
		return 240 * time.Second
	}
	return 90 * time.Second
}

// ForeignLife is the life of a token that others put into a list, counted from
// when it was first seen there. Nobody says how old it was, so it is that of
// the shortest-lived type, less the time between looks.
const ForeignLife = 80 * time.Second

// MaxToken bounds a token's length in bytes.
const MaxToken = 16 << 10

// Key names what a token is good for.
type Key struct {
	Site    string // the site's key, as in session.Key
	SiteKey string // of the widget; public: every visitor's page holds it
	Action  string // "" where the type has none
}

// String shows the key with the middle of its sitekey cut out, for logs.
func (k Key) String() string {
	s := k.Site + ":" + mask(k.SiteKey)
	if k.Action != "" {
		s += ":" + k.Action
	}
	return s
}

func mask(sitekey string) string {
	if len(sitekey) <= 12 {
		return sitekey
	}
	return sitekey[:6] + "…" + sitekey[len(sitekey)-4:]
}

// Check returns an error that says what of the key is wrong. Pages bring
// sitekeys and actions, and stores make key names of them.
func (k Key) Check() error {
	switch {
	case k.Site == "" || strings.ContainsAny(k.Site, "{}~"):
		return fmt.Errorf("site key %q: it is empty, or holds {, } or ~", k.Site)
	case !isWord(k.SiteKey, 100, "_-."):
		return fmt.Errorf("sitekey %q: it is to be 1 to 100 of the characters A-Z a-z 0-9 . _ and -", clip(k.SiteKey))
	case k.Action != "" && !isWord(k.Action, 100, "_-./"):
		return fmt.Errorf("action %q: it is to be up to 100 of the characters A-Z a-z 0-9 . / _ and -", clip(k.Action))
	}
	return nil
}

func isWord(s string, longest int, more string) bool {
	if len(s) == 0 || len(s) > longest {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte(more, c) < 0:
			return false
		}
	}
	return true
}

func clip(s string) string {
	if len(s) > 40 {
		return s[:40] + "…"
	}
	return s
}

// Task is one widget to be solved.
type Task struct {
	Type    Type
	Site    string // the site's key
	SiteKey string
	Action  string // needed for reCAPTCHA v3
	Page    string // URL of the document that shows the widget: the frame's own, where it is in one
}

// Key is what the task's token is good for.
func (t Task) Key() Key {
	k := Key{Site: t.Site, SiteKey: t.SiteKey}
	if t.Type.HasAction() {
		k.Action = t.Action
	}
	return k
}

// Check returns an error that says what of the task is wrong, before anybody
// is paid to find out.
func (t Task) Check() error {
	known := false
	for _, k := range Types {
		known = known || k == t.Type
	}
	if !known {
		return fmt.Errorf("type %q is not solved", clip(string(t.Type)))
	}
	if err := t.Key().Check(); err != nil {
		return err
	}
	if t.Type.IsV3() && t.Action == "" {
		return fmt.Errorf("%s needs the action that the page executes", t.Type)
	}
	return CheckPage(t.Page)
}

// CheckPage refuses what can be no page with a widget.
func CheckPage(page string) error {
	u, err := url.Parse(page)
	switch {
	case len(page) > 2048:
		return errors.New("the page's URL is longer than 2048 bytes")
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("the page is to be a whole URL, with https:// and a host")
	case u.User != nil:
		return errors.New("the page's URL holds credentials, which are not passed on")
	}
	return nil
}

// Answer is what a solver found.
type Answer struct {
	Token string
	// Issued is the latest moment at which the token is known not to have
	// existed: its age counts from here.
	Issued time.Time
}

// CheckToken refuses what can be no token: it will stand in a form and in a
// store, and came from a stranger. The error does not hold it.
func CheckToken(token string) error {
	switch {
	case token == "":
		return errors.New("the token is empty")
	case len(token) > MaxToken:
		return fmt.Errorf("the token is longer than %d bytes", MaxToken)
	}
	for i := range len(token) {
		if c := token[i]; c <= ' ' || c >= 0x7f {
			return errors.New("the token holds a space, a control character or a byte that is not ASCII")
		}
	}
	return nil
}
