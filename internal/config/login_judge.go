package config

import (
	"encoding/base32"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/http/httpguts"

	"github.com/sessionproxy/sessionproxy/session"
)

var (
	takeName = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	pathGlob = regexp.MustCompile(`^[/*][^\x00-\x20\x7f?#]*$`)
	wideGlob = regexp.MustCompile(`^[^\x00-\x20\x7f]+$`)
	fullURL  = regexp.MustCompile(`^(\*|http)`) // a glob that one can match
)

// How long a client waits for another's login, where the configuration does not
// say: a captcha alone may take 90 s.
const (
	loginWait  = 30 * time.Second
	solvedWait = 150 * time.Second
)

// getsToken says whether a captcha rule may be for the login request: one of two
// globs that know a path in common often matches the other.
func (r LoginRequest) getsToken(c Captcha) bool {
	return c.Method == r.Method && (c.Path == "" || session.Glob(c.Path, r.Path) || session.Glob(r.Path, c.Path))
}

// login judges how a site's login is known.
func (j *judge) login(at string, s *Site) {
	l := s.Login
	if l == nil || !j.ok(at) {
		return
	}
	if !s.Cookies.Capture || !s.Cookies.Inject {
		j.at(at, "a login is shared by its cookies, and cookies.capture or cookies.inject is off", "remove that, or login")
	}
	j.loginRequest(at+".request", s)
	if l.Wait == 0 {
		l.Wait = loginWait
		if slices.ContainsFunc(s.Captcha, l.Request.getsToken) {
			l.Wait = solvedWait
		}
	}
	for n, glob := range l.Ignore {
		if !wideGlob.MatchString(glob) {
			j.at(fmt.Sprintf("%s.ignore[%d]", at, n), "no field's name matches this", "names hold no spaces; * stands for any run of characters")
		}
	}
	j.signs(at, s)
	j.recipe(at, s)
	j.accounts(at, s)
}

func (j *judge) loginRequest(at string, s *Site) {
	r := &s.Login.Request
	if r.Method != strings.ToUpper(r.Method) || !httpguts.ValidHeaderFieldName(r.Method) {
		j.at(at+".method", "this is no method", "methods are upper-case, such as POST")
	}
	if r.Path != "" && !pathGlob.MatchString(r.Path) {
		j.at(at+".path", "no path matches this", "a path begins with / and has no query; * stands for any run of characters")
	}
	if r.Host == "" {
		return
	}
	p, message, remedy := parsePattern(r.Host)
	switch {
	case message != "":
		j.at(at+".host", message, remedy)
	case p.Wildcard || p.Port != "":
		j.at(at+".host", "one host is meant, without a port", "write the login's host, or leave it out for all hosts of the site")
	case !s.has(p.Host):
		j.at(at+".host", "the site has no such host", "add it to the site's hosts, or correct it")
	}
	r.Host = p.Host
}

// has says whether one of the site's patterns covers host, at whatever port.
func (s *Site) has(host string) bool {
	return slices.ContainsFunc(s.Patterns, func(p Pattern) bool { return p.Matches(host, p.Port) })
}

// signs judges the rules of a verdict, and finds those that contradict each
// other: what can never say "logged in" would make every login fail.
func (j *judge) signs(at string, s *Site) {
	out, in := s.Login.LoggedOut, s.Login.LoggedIn
	outAt, inAt := at+".logged_out", at+".logged_in"
	if out.Empty() && in.Empty() {
		j.at(at, "nothing tells a logged-out reply from others", `add logged_out, such as logged_out: {redirect: "*/login*"}`)
	}
	for _, side := range []struct {
		at string
		Signs
	}{{outAt, out}, {inAt, in}} {
		for n, status := range side.Status {
			if status < 200 || status > 599 {
				j.at(fmt.Sprintf("%s.status[%d]", side.at, n), "this is no status of a reply", "a status is 200 to 599")
			}
		}
		switch {
		case side.Redirect == "":
		case !wideGlob.MatchString(side.Redirect):
			j.at(side.at+".redirect", "no URL matches this", "a URL holds no spaces; * stands for any run of characters")
		case !fullURL.MatchString(side.Redirect):
			j.at(side.at+".redirect", "no URL in full matches this", fmt.Sprintf(`write "*%s", or the URL with its https://`, side.Redirect))
		}
		if side.Cookie != "" && !cookieGlob.MatchString(side.Cookie) {
			j.at(side.at+".cookie", "this is no cookie's name", "a name holds no = and no semicolon")
		}
		if side.Cookie != "" && !session.NewPolicy(s.Cookies.Share, s.Cookies.Private, false).Shared(side.Cookie) {
			j.at(side.at+".cookie", "this cookie is not shared, so nobody else would be logged in by it", "add it to cookies.share, or name the cookie that holds the login")
		}
	}
	for n, status := range in.Status {
		if slices.Contains(out.Status, status) {
			j.contradiction(fmt.Sprintf("%s.status[%d]", inAt, n), outAt+".status", "has this status too")
		}
		if in.Redirect != "" && (status < 300 || status > 399) {
			j.at(fmt.Sprintf("%s.status[%d]", inAt, n), "logged_in wants all that it lists, and no reply with this status redirects", "remove the status, or redirect")
		}
	}
	if in.Redirect != "" && out.Redirect != "" && session.Glob(out.Redirect, in.Redirect) {
		j.contradiction(inAt+".redirect", outAt+".redirect", "matches all of these URLs too")
	}
	if in.Body != "" && out.Body != "" && strings.Contains(in.Body, out.Body) {
		j.contradiction(inAt+".body", outAt+".body", "stands in this text too")
	}
}

// contradiction reports a rule for logged-in replies that can never speak.
func (j *judge) contradiction(in, out, how string) {
	j.at(in, fmt.Sprintf("no reply can be logged in by this: logged_out (%s) %s, and speaks first", j.ref(out), how), "make one of them narrower")
}

// recipe judges the steps and what they take and need.
func (j *judge) recipe(at string, s *Site) {
	known := map[string]bool{"user": true, "password": true}
	if len(s.Login.Accounts) > 0 && !slices.ContainsFunc(s.Login.Accounts, func(a Account) bool { return a.TOTP == "" }) {
		known["totp"] = true
	}
	for n, step := range s.Login.Recipe {
		at := fmt.Sprintf("%s.recipe[%d]", at, n)
		if !j.ok(at) {
			continue
		}
		method, to := step.URL()
		switch {
		case step.Get == "" && step.Post == "":
			j.at(at, "a step has a get or a post", "such as {get: /login}, or {post: /login, form: {…}}")
			continue
		case step.Get != "" && step.Post != "":
			j.at(at+".post", "a step has one request: get or post", "make two steps")
		case method == "GET" && (len(step.Form) > 0 || step.JSON.Value != nil):
			j.at(at, "a get has no form and no json", "write post: in place of get:, or put the fields into the URL")
		case len(step.Form) > 0 && step.JSON.Value != nil:
			j.at(at+".json", "a step has one body: form or json", "remove one")
		}
		j.stepURL(at+"."+strings.ToLower(method), s, to)
		j.placeholders(at+"."+strings.ToLower(method), to, known)
		for _, name := range j.inOrder(at+".form", step.Form) {
			j.placeholders(join(at+".form", name), name, known)
			j.placeholders(join(at+".form", name), step.Form[name], known)
		}
		for text := range texts(step.JSON.Value) {
			j.placeholders(at+".json", text, known)
		}
		for _, name := range j.inOrder(at+".headers", step.Headers) {
			at, value := join(at+".headers", name), step.Headers[name]
			if !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
				j.at(at, "this is no header field", "a name holds letters, digits and hyphens, a value no line breaks (RFC 9110, section 5)")
			}
			j.placeholders(at, value, known)
		}
		for _, name := range j.inOrder(at+".take", step.Take) {
			j.take(join(at+".take", name), name, step.Take[name])
			known[name] = true
		}
	}
}

// texts yields the strings in a JSON value.
func texts(v any) func(yield func(string) bool) {
	var walk func(v any, yield func(string) bool) bool
	walk = func(v any, yield func(string) bool) bool {
		switch v := v.(type) {
		case string:
			return yield(v)
		case []any:
			for _, item := range v {
				if !walk(item, yield) {
					return false
				}
			}
		case map[string]any:
			for _, item := range v {
				if !walk(item, yield) {
					return false
				}
			}
		}
		return true
	}
	return func(yield func(string) bool) { walk(v, yield) }
}

// stepURL judges where a step goes.
func (j *judge) stepURL(at string, s *Site, to string) {
	if strings.HasPrefix(to, "/") && !strings.HasPrefix(to, "//") {
		if p, message, _ := parsePattern(s.Key); message != "" || !s.has(p.Host) {
			j.at(at, fmt.Sprintf("a path is one on https://%s, which is no host of the site", s.Key), "write the URL in full")
		}
		return
	}
	if strings.HasPrefix(to, "{") {
		return // taken from a page: known when it is
	}
	u, err := url.Parse(to)
	if err != nil || (u.Scheme != "https" && u.Scheme != "http") || u.Host == "" || u.User != nil {
		j.at(at, "this is neither a path nor a URL", "write /login, or https://HOST/login")
		return
	}
	if host, ok := session.CanonicalHost(u.Hostname()); !ok || !s.has(host) {
		j.at(at, "the site has no such host", "add it to the site's hosts, or correct it")
	}
}

// placeholders finds those that nothing fills.
func (j *judge) placeholders(at, text string, known map[string]bool) {
	for _, m := range Placeholder.FindAllStringSubmatch(text, -1) {
		switch name := m[1]; {
		case known[name]:
		case name == "totp":
			j.at(at, "{totp} needs a secret", "give each of the accounts its totp")
		default:
			j.at(at, fmt.Sprintf("nothing fills {%s}", name), "take it in an earlier step; "+j.oneOf(name, known))
		}
	}
}

// take judges one value that a step takes from its reply.
func (j *judge) take(at, name, from string) {
	switch {
	case !takeName.MatchString(name):
		j.at(at, "this name can't stand in a placeholder", "write a-z, 0-9 and _")
	case name == "user" || name == "password" || name == "totp":
		j.at(at, name+" is the account's own", "call it otherwise")
	}
	kind, arg, _ := strings.Cut(from, ":")
	switch kind {
	case "header", "cookie", "json":
		if arg == "" {
			j.at(at, "this takes nothing", "write header:NAME, cookie:NAME, json:PATH or a CSS selector")
		}
	default:
		if _, err := cascadia.ParseGroup(from); err != nil {
			j.at(at, "this is no CSS selector", `such as "input[name=csrf_token]"; else write header:NAME, cookie:NAME or json:PATH`)
		}
	}
}

func (j *judge) accounts(at string, s *Site) {
	l := s.Login
	switch {
	case len(l.Accounts) > 0 && len(l.Recipe) == 0:
		j.at(at+".accounts", "accounts are for a recipe, and there is none", "add recipe, or remove accounts: clients that log in themselves bring their own")
	case len(l.Recipe) > 0 && len(l.Accounts) == 0:
		j.at(at+".recipe", "a recipe logs in with an account, and there is none", `add accounts: [{id: default, user: USER, password: "${PASSWORD}"}]`)
	}
	seen := map[string]bool{}
	for n, a := range l.Accounts {
		at := fmt.Sprintf("%s.accounts[%d]", at, n)
		switch {
		case !j.ok(at):
			continue
		case !session.ValidID(a.ID) || a.ID == session.NoneID:
			j.at(at+".id", "this is no session's ID", "an ID is "+idForm+", and not none")
		case seen[a.ID]:
			j.at(at+".id", "another account is for this session too", "a session has one account; give this one another id")
		}
		seen[a.ID] = true
		if _, err := DecodeTOTP(a.TOTP); err != nil {
			j.at(at+".totp", "this is no TOTP secret", "it is the base32 text that the site shows beside its QR code")
		}
	}
}

// DecodeTOTP reads a TOTP secret as sites show it: base32 in groups, in either
// case, with or without padding.
func DecodeTOTP(secret string) ([]byte, error) {
	plain := strings.ToUpper(strings.NewReplacer(" ", "", "-", "", "=", "").Replace(secret))
	return base32.StdEncoding.WithPadding(base32.NoPadding).DecodeString(plain)
}
