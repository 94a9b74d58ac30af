// Package page finds the captcha widgets in an HTML document: of which type
// each is, its sitekey and action, and which field of which form takes its
// answer.
//
// It reads text and runs no script, so a page that makes its widgets in a way
// of its own shows none here, and the operator has to say what is there. Which
// documents are worth a look, and whom to believe, is its user's part.
package page

import (
	"io"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"github.com/sessionproxy/sessionproxy/captcha"
)

// Widget is one widget of a page.
type Widget struct {
	Type    captcha.Type
	SiteKey string
	Action  string // "" where none is said
	Field   string // that takes the answer; "" where the page's script alone knows
	Form    Form   // the form that it stands in; zero where it stands in none
}

// Form is where a form sends its fields.
type Form struct {
	Method string // upper case
	Action string // resolved; "" where it is no URL of http or https
}

// The fields that the widgets' own scripts fill.
const (
	RecaptchaField = "g-recaptcha-response"
	TurnstileField = "cf-turnstile-response"
)

// MaxWidgets bounds what is taken from one page.
const MaxWidgets = 20

// Scan finds the widgets of the document that was served at address, in the
// order in which they stand there; those that scripts name come last. A document
// that breaks off, or has a tag or text beyond 1 MiB, shows what came before that.
func Scan(doc io.Reader, address *url.URL) []Widget {
	s := scanner{base: address}
	z := html.NewTokenizer(doc)
	z.SetMaxBuf(maxToken)
	for {
		switch z.Next() {
		case html.ErrorToken:
			return s.widgets()
		case html.StartTagToken, html.SelfClosingTagToken:
			if t := z.Token(); !s.inert(t) {
				s.start(t)
			}
		case html.EndTagToken:
			if t := z.Token(); !s.inert(t) {
				s.end(t.DataAtom)
			}
		case html.TextToken:
			if s.script {
				s.code(z.Text())
			}
		}
	}
}

// maxToken bounds a tag or a text: an inline script may be a whole application.
const maxToken = 1 << 20

// scanner collects what says something of widgets.
type scanner struct {
	base *url.URL

	form   int  // in forms, from 1; 0: outside of all
	script bool // inside of one

	templates int  // how many are open
	noscript  bool // inside of one

	forms      []formSeen
	seen       []element
	calls      []call
	render     []string // the keys of ?render=
	enterprise bool     // enterprise.js is there
	google     bool     // a script of reCAPTCHA's is there
	compat     bool     // Turnstile's is, and stands in for it
}

// formSeen is a form, and the field in it that may take a v3 answer.
type formSeen struct {
	Form
	field string
}

// element is an element that shows a widget.
type element struct {
	key, action, field string
	cloudflare         bool // of class cf-turnstile
	invisible          bool
	button             bool
	form               int
}

// inert says whether a tag is of what a browser that runs scripts does not show:
// a template's content, or that of noscript.
func (s *scanner) inert(t html.Token) bool {
	switch begins := t.Type == html.StartTagToken; {
	case t.DataAtom == atom.Noscript && s.templates == 0:
		s.noscript = begins
	case t.DataAtom == atom.Template && !s.noscript && begins:
		s.templates++
	case t.DataAtom == atom.Template && !s.noscript && s.templates > 0:
		s.templates--
	}
	return s.noscript || s.templates > 0
}

func (s *scanner) start(t html.Token) {
	a := attributes(t)
	switch t.DataAtom {
	case atom.Base:
		if u, err := s.base.Parse(a["href"]); err == nil && a["href"] != "" {
			s.base = u
		}
	case atom.Form:
		s.forms = append(s.forms, formSeen{Form: s.formOf(a)})
		s.form = len(s.forms)
	case atom.Script:
		s.script = isCode(a["type"])
		s.source(a["src"])
	case atom.Input, atom.Textarea:
		s.field(a["name"])
	}
	classes := strings.Fields(a["class"])
	e := element{
		key: strings.TrimSpace(a["data-sitekey"]), action: strings.TrimSpace(a["data-action"]), form: s.form,
		button: t.DataAtom == atom.Button || t.DataAtom == atom.Input,
	}
	switch {
	case e.key == "":
		return
	case slices.Contains(classes, "cf-turnstile"):
		e.cloudflare, e.field = true, TurnstileField
		if name := a["data-response-field-name"]; name != "" {
			e.field = name
		}
		if a["data-response-field"] == "false" {
			e.field = ""
		}
	case slices.Contains(classes, "g-recaptcha"):
		e.field = RecaptchaField
		e.invisible = a["data-size"] == "invisible" || e.button
	default:
		return
	}
	s.seen = append(s.seen, e)
}

func (s *scanner) end(tag atom.Atom) {
	switch tag {
	case atom.Form:
		s.form = 0
	case atom.Script:
		s.script = false
	}
}

func attributes(t html.Token) map[string]string {
	a := make(map[string]string, len(t.Attr))
	for _, attr := range t.Attr {
		if _, repeated := a[attr.Key]; !repeated { // the first counts, as in browsers
			a[attr.Key] = attr.Val
		}
	}
	return a
}

func (s *scanner) formOf(a map[string]string) Form {
	f := Form{Method: "GET"}
	if strings.EqualFold(a["method"], "post") {
		f.Method = "POST"
	}
	u, err := s.base.Parse(strings.TrimSpace(a["action"]))
	if err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		u.Fragment = ""
		f.Action = u.String()
	}
	return f
}

// field notes a form's field that a script of the page fills with the answer
// of a v3 widget. reCAPTCHA's own badge has one outside of every form.
func (s *scanner) field(name string) {
	if s.form == 0 || s.forms[s.form-1].field != "" {
		return
	}
	if lower := strings.ToLower(name); strings.Contains(lower, "recaptcha") && len(name) <= 100 {
		s.forms[s.form-1].field = name
	}
}

// source notes the widgets' scripts.
func (s *scanner) source(src string) {
	u, err := s.base.Parse(strings.TrimSpace(src))
	if err != nil || src == "" {
		return
	}
	query := u.Query()
	switch host := strings.ToLower(u.Hostname()); {
	case host == "challenges.cloudflare.com" && strings.HasPrefix(u.Path, "/turnstile/"):
		s.compat = s.compat || query.Get("compat") == "recaptcha"
	case isGoogle(host) && (u.Path == "/recaptcha/api.js" || u.Path == "/recaptcha/enterprise.js"):
		s.google = true
		s.enterprise = s.enterprise || u.Path == "/recaptcha/enterprise.js"
		if key := query.Get("render"); key != "" && key != "explicit" && key != "onload" {
			s.render = append(s.render, key)
		}
	}
}

func isGoogle(host string) bool {
	switch host {
	case "www.google.com", "google.com", "www.recaptcha.net", "recaptcha.net", "recaptcha.google.com":
		return true
	}
	return false
}

// widgets makes of all that was seen what it means.
func (s *scanner) widgets() []Widget {
	var all []Widget
	add := func(w Widget) {
		key := captcha.Key{Site: "x", SiteKey: w.SiteKey, Action: w.Action}
		if key.Check() == nil && len(all) < MaxWidgets && !slices.Contains(all, w) {
			all = append(all, w)
		}
	}
	for _, e := range s.seen {
		w := Widget{Type: s.typeOf(e), SiteKey: e.key, Field: e.field, Form: s.formAt(e.form)}
		if w.Type.HasAction() {
			w.Action = e.action
		}
		if w.Type.IsV3() {
			s.scoreOf(&w, e.form)
		}
		add(w)
	}
	for _, c := range s.calls {
		if !s.shown(c.key) && s.loaded(c) {
			add(s.called(c))
		}
	}
	for _, key := range s.render {
		if !s.shown(key) && !s.isCalled(key) {
			add(s.score(key, ""))
		}
	}
	return all
}

// typeOf is the type of a widget that an element shows.
func (s *scanner) typeOf(e element) captcha.Type {
	switch {
	case e.cloudflare, s.isCloudflare(e.key):
		return captcha.Turnstile
	case slices.Contains(s.render, e.key):
		return s.edition(captcha.RecaptchaV3)
	case e.invisible:
		return s.edition(captcha.RecaptchaV2Invisible)
	}
	return s.edition(captcha.RecaptchaV2)
}

// isCloudflare says whether a widget that looks like reCAPTCHA's is Turnstile's,
// which can stand in for it. Its keys, and those of its tests, begin with a digit
// and an x; Google's with 6L.
func (s *scanner) isCloudflare(key string) bool {
	return len(key) > 2 && key[1] == 'x' && '0' <= key[0] && key[0] <= '3' || s.compat && !s.google
}

// edition is the type as the page's script makes it: Enterprise or not.
func (s *scanner) edition(t captcha.Type) captcha.Type {
	if s.enterprise {
		return t + "_enterprise"
	}
	return t
}

// score is a v3 widget, which stands nowhere in the page: its form is the one
// that has a field for it, or for its action.
func (s *scanner) score(key, action string) Widget {
	w := Widget{Type: s.edition(captcha.RecaptchaV3), SiteKey: key, Action: action}
	for _, f := range s.forms {
		if f.field != "" && (w.Field == "" || isFor(f.field, action)) {
			w.Field, w.Form = f.field, f.Form
		}
	}
	return w
}

// isFor says whether a field is named for an action, as Rails' helper does it.
func isFor(field, action string) bool {
	return action != "" && strings.HasSuffix(field, "["+action+"]")
}

// scoreOf completes a v3 widget that an element shows: the field that takes its
// answer is one of its form's, and the action may stand in the script alone.
func (s *scanner) scoreOf(w *Widget, form int) {
	if form > 0 && s.forms[form-1].field != "" {
		w.Field = s.forms[form-1].field
	}
	for _, c := range s.calls {
		if c.execute && c.key == w.SiteKey && (w.Action == "" || isFor(w.Field, c.action)) {
			w.Action = c.action
		}
	}
}

func (s *scanner) formAt(form int) Form {
	if form == 0 {
		return Form{}
	}
	return s.forms[form-1].Form
}

// shown says whether an element shows the widget of that key.
func (s *scanner) shown(key string) bool {
	return slices.ContainsFunc(s.seen, func(e element) bool { return e.key == key })
}

// loaded says whether a call can be of a widget that the page has. Where the
// page's tag for reCAPTCHA's script names v3's keys, others can't be executed:
// they stand in what somebody wrote, and a script holds as data.
func (s *scanner) loaded(c call) bool {
	return !c.execute || c.cloudflare || len(s.render) == 0 || slices.Contains(s.render, c.key)
}

func (s *scanner) isCalled(key string) bool {
	return slices.ContainsFunc(s.calls, func(c call) bool { return c.key == key })
}
