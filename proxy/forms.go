package proxy

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/captcha/form"
	"github.com/sessionproxy/sessionproxy/captcha/page"
	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// formRule says which forms of a site get a token, made ready for the road.
type formRule struct {
	config.Captcha
	ask   captcha.Ask  // what is configured of it
	field string       // that takes the token, where the widget does not say; "" for auto
	told  *atomic.Bool // that a page contradicts it
}

func formRules(s config.Site) []formRule {
	var all []formRule
	for _, c := range s.Captcha {
		f := formRule{Captcha: c, ask: c.Ask(s), field: c.Field, told: new(atomic.Bool)}
		switch {
		case c.Field != "" || c.Type == config.CaptchaAuto:
		case captcha.Type(c.Type) == captcha.Turnstile:
			f.field = page.TurnstileField
		default:
			f.field = page.RecaptchaField
		}
		all = append(all, f)
	}
	return all
}

// withForms are the keys of the sites whose forms get tokens.
func (r *rules) withForms() []string {
	var keys []string
	for _, s := range r.sites {
		if len(s.forms) > 0 {
			keys = append(keys, s.Key)
		}
	}
	return keys
}

// isFor says whether the rule is for such a request.
func (f *formRule) isFor(r *http.Request) bool {
	return f.Method == r.Method && (f.Path == "" || session.Glob(f.Path, cookiePath(r)))
}

// shownBy says whether the rule may be for a widget that a page shows.
func (f *formRule) shownBy(w page.Widget) bool {
	return (f.Type == config.CaptchaAuto || captcha.Type(f.Type) == w.Type || f.ask.Static != "") &&
		(f.SiteKey == "" || f.SiteKey == w.SiteKey) && (f.Action == "" || f.Action == w.Action)
}

// contradicts says whether a page shows the rule's sitekey with another type or
// action: the site will refuse what is solved by the rule.
func (f *formRule) contradicts(w page.Widget) bool {
	return f.SiteKey == w.SiteKey && f.ask.Static == "" &&
		(f.Type != config.CaptchaAuto && captcha.Type(f.Type) != w.Type || f.Action != "" && w.Action != "" && f.Action != w.Action)
}

// askFor is what to ask for a token of a widget that a page shows.
func (f *formRule) askFor(w page.Widget, url string) captcha.Ask {
	a := f.ask
	a.Type, a.SiteKey, a.Action = w.Type, w.SiteKey, w.Action
	if a.Page == "" {
		a.Page = url
	}
	return a
}

// Learned are the captchas that the pages of a site were seen to show, as the
// site's rules would have them solved. A page that shows one twice counts once.
func (p *Proxy) Learned(siteKey string) []captcha.Ask {
	rules := p.rules.Load()
	i := slices.IndexFunc(rules.sites, func(s *site) bool { return s.Key == siteKey })
	if i < 0 {
		return nil
	}
	var all []captcha.Ask
	for _, at := range p.seen.All(siteKey) {
		for _, w := range at.Widgets {
			f := slices.IndexFunc(rules.sites[i].forms, func(f formRule) bool { return f.shownBy(w) && f.ask.Static == "" })
			if f < 0 {
				continue
			}
			ask := rules.sites[i].forms[f].askFor(w, at.URL)
			if ask.Check() == nil && !slices.ContainsFunc(all, func(have captcha.Ask) bool { return have.Key() == ask.Key() }) {
				all = append(all, ask)
			}
		}
	}
	return all
}

// takes says whether a field in that state is given a token.
func (f *formRule) takes(s form.State) bool {
	switch f.When {
	case config.WhenAlways:
		return true
	case config.WhenMissing:
		return s != form.Filled
	}
	return s == form.Empty
}

// want is a field that a request may have, and what token it is to get.
type want struct {
	rule  *formRule
	field string
	ask   captcha.Ask
	err   error // why nothing can be asked for
}

// rejects says whether a form that gets no token is refused.
func (w want) rejects() bool { return w.rule.OnFailure != config.Forward }

var errNotSeen error = notSeenError{}

// notSeenError is why nothing can be asked for.
type notSeenError struct{}

func (notSeenError) Error() string {
	return "no page of the site was seen to show the widget; open its page through the proxy, or set sitekey and page in the site's captcha rule"
}

// Outcome is what metrics call it.
func (notSeenError) Outcome() string { return "not_seen" }

// wants are the fields of a request that the site's rules are for: each once,
// by the first rule.
func (x *exchange) wants(r *http.Request) []want {
	var all []want
	add := func(w want) {
		if w.field != "" && !slices.ContainsFunc(all, func(have want) bool { return have.field == w.field }) {
			all = append(all, w)
		}
	}
	for i := range x.site.forms {
		switch f := &x.site.forms[i]; {
		case !f.isFor(r):
		case f.Type == config.CaptchaAuto:
			from := x.comesFrom(r)
			for _, w := range nearest(x.shownAt(from), x.address(r)) {
				add(want{rule: f, field: w.Field, ask: f.askFor(w, from)})
			}
		default:
			add(x.wantOf(f, r))
		}
	}
	return all
}

// shownAt are the widgets of a page; none where it is not known which page it is.
func (x *exchange) shownAt(url string) []page.Widget {
	if url == "" {
		return nil
	}
	return x.p.seen.At(x, x.site.Key, url)
}

// wantOf is what a rule wants that names its widget's type.
func (x *exchange) wantOf(f *formRule, r *http.Request) want {
	w := want{rule: f, field: f.field, ask: f.ask}
	if f.ask.Static != "" || f.SiteKey != "" && f.Page != "" {
		return w
	}
	from := x.comesFrom(r)
	shown, url, ok := x.shows(f, r, from)
	if ok && f.Field == "" && shown.Field != "" {
		w.field = shown.Field
	}
	switch {
	case f.SiteKey == "" && !ok:
		w.err = errNotSeen
	case f.SiteKey == "":
		w.ask = f.askFor(shown, url)
	case from != "":
		w.ask.Page = from
	case ok:
		w.ask.Page = url
	default:
		w.err = errNotSeen
	}
	return w
}

// shows finds a rule's widget on the page that the form comes from, else on
// whichever shows it.
func (x *exchange) shows(f *formRule, r *http.Request, from string) (page.Widget, string, bool) {
	address := x.address(r)
	for _, w := range nearest(x.shownAt(from), address) {
		if f.shownBy(w) {
			return w, from, true
		}
	}
	w, url, ok := x.p.seen.Find(x, x.site.Key, func(w page.Widget) bool { return f.shownBy(w) && goesTo(w.Form, address) })
	if !ok {
		w, url, ok = x.p.seen.Find(x, x.site.Key, f.shownBy)
	}
	return w, url, ok
}

// nearest sorts the widgets of a page by how likely a request to that address is
// their form's: those of a form that is sent there come first, then those
// outside of all forms.
func nearest(widgets []page.Widget, address string) []page.Widget {
	if len(widgets) < 2 {
		return widgets
	}
	rank := func(w page.Widget) int {
		switch {
		case goesTo(w.Form, address):
			return 0
		case w.Form.Action == "":
			return 1
		}
		return 2
	}
	sorted := slices.Clone(widgets)
	slices.SortStableFunc(sorted, func(a, b page.Widget) int { return rank(a) - rank(b) })
	return sorted
}

// goesTo says whether a form is sent to that address.
func goesTo(f page.Form, address string) bool {
	action, _, _ := strings.Cut(f.Action, "?")
	return action != "" && action == address
}

// address is where a request goes, without the query: of a page, what it is
// known by.
func (x *exchange) address(r *http.Request) string {
	return x.target.scheme() + "://" + x.target.authority() + cookiePath(r)
}

// comesFrom is the page of the site that sends a form; "" where the request does
// not say. Its query is nobody's business.
func (x *exchange) comesFrom(r *http.Request) string {
	u, err := url.Parse(first(r.Header, "Referer"))
	if err != nil || u.Host == "" {
		return ""
	}
	t, ref := plainTarget(u)
	if ref != nil || x.rules.site(t.host, t.port) != x.site {
		return ""
	}
	return t.scheme() + "://" + t.authority() + cookiePath(&http.Request{URL: u})
}
