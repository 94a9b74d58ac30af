package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/captcha"
	"github.com/sessionproxy/sessionproxy/internal/config"
)

// Tokens is the answer to GET /api/v1/captcha/{site}: never a token.
type Tokens struct {
	Site     string      `json:"site"`
	Spent    int         `json:"spent"`    // solves of this hour
	PerHour  int         `json:"per_hour"` // its budget: the largest of its rules; 0: it declares none
	Sitekeys []TokenList `json:"sitekeys"`
}

// TokenList is one sitekey, with an action where it has one.
type TokenList struct {
	Sitekey string    `json:"sitekey"`
	Action  string    `json:"action,omitempty"`
	Type    string    `json:"type,omitempty"` // absent where nobody asked for it at this proxy, none is declared and no page shows it
	Ready   int       `json:"ready"`
	Ends    time.Time `json:"ends,omitzero"` // when the first of them is too old
	Needed  bool      `json:"needed"`        // within the hour
	Waiting int       `json:"waiting"`       // clients of this proxy
	Solving int       `json:"solving"`       // by this proxy
}

// AllTokens is the answer to GET /api/v1/captcha.
type AllTokens struct {
	Sites []Tokens `json:"sites"` // that declare captchas, in the order of the configuration
}

// listAllTokens is GET /api/v1/captcha.
func (s *server) listAllTokens(w http.ResponseWriter, r *http.Request) {
	all := AllTokens{[]Tokens{}}
	for _, site := range s.sites() {
		if len(site.Captcha) == 0 {
			continue
		}
		list, err := s.tokensOf(r.Context(), site)
		if err != nil {
			s.storeFailed(r.Context(), w, err)
			return
		}
		all.Sites = append(all.Sites, list)
	}
	writeJSON(w, http.StatusOK, "application/json", all)
}

// listTokens is GET /api/v1/captcha/{site}.
func (s *server) listTokens(w http.ResponseWriter, r *http.Request) {
	site, ok := s.site(w, r, r.PathValue("site"))
	if !ok {
		return
	}
	list, err := s.tokensOf(r.Context(), site)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", list)
}

func (s *server) tokensOf(ctx context.Context, site config.Site) (Tokens, error) {
	all, spent, err := s.tokens.List(ctx, site.Key)
	if err != nil {
		return Tokens{}, err
	}
	list := Tokens{site.Name, spent, 0, []TokenList{}}
	for _, c := range site.Captcha {
		list.PerHour = max(list.PerHour, c.Budget.PerHour)
	}
	known := map[captcha.Key]captcha.Type{}
	for _, a := range s.widgets(site) {
		known[a.Key()] = a.Type
	}
	for _, t := range all {
		list.Sitekeys = append(list.Sitekeys, TokenList{
			Sitekey: t.Key.SiteKey, Action: t.Key.Action, Type: string(cmp.Or(known[t.Key], t.Type)),
			Ready: t.Ready, Ends: t.Ends.UTC(), Needed: t.Needed, Waiting: t.Waiting, Solving: t.Solving,
		})
		delete(known, t.Key)
	}
	for k, kind := range known {
		list.Sitekeys = append(list.Sitekeys, TokenList{Sitekey: k.SiteKey, Action: k.Action, Type: string(kind)})
	}
	slices.SortFunc(list.Sitekeys, func(a, b TokenList) int {
		return cmp.Or(cmp.Compare(a.Sitekey, b.Sitekey), cmp.Compare(a.Action, b.Action))
	})
	return list, nil
}

// widgets are those of a site that can be solved: what it declares, and what its
// pages were seen to show, each once.
func (s *server) widgets(site config.Site) []captcha.Ask {
	var all []captcha.Ask
	add := func(a captcha.Ask) {
		at := slices.IndexFunc(all, func(have captcha.Ask) bool { return have.Key() == a.Key() })
		switch {
		case at < 0:
			all = append(all, a)
		case all[at].Page == "":
			all[at].Page = a.Page
		}
	}
	for _, c := range site.Widgets() {
		add(c.Ask(site))
	}
	if s.learned != nil {
		for _, a := range s.learned(site.Key) {
			add(a)
		}
	}
	return all
}

// PushToken is the body of POST /api/v1/captcha/{site}/tokens. Where the site
// has one sitekey, it needs no name.
type PushToken struct {
	Sitekey string `json:"sitekey,omitempty"`
	Action  string `json:"action,omitempty"`
	Token   string `json:"token"`
}

// TokensChanged is the answer where tokens came or went.
type TokensChanged struct {
	Site    string `json:"site"`
	Sitekey string `json:"sitekey"`
	Action  string `json:"action,omitempty"`
	Tokens  int    `json:"tokens"` // that came, are being solved, or went
}

// pushToken is POST /api/v1/captcha/{site}/tokens.
func (s *server) pushToken(w http.ResponseWriter, r *http.Request) {
	var in PushToken
	if p := readJSON(w, r, &in, `{"sitekey": "6Le…", "action": "login", "token": "…"}`); p != nil {
		p.write(w)
		return
	}
	site, key, ok := s.sitekey(w, r, in.Sitekey, in.Action)
	if !ok {
		return
	}
	if err := captcha.CheckToken(in.Token); err != nil {
		problem{http.StatusUnprocessableEntity, "token", "This is no token: " + err.Error() + "."}.write(w)
		return
	}
	err := s.tokens.Push(r.Context(), key, in.Token)
	switch {
	case errors.Is(err, captcha.ErrSpent):
		problem{http.StatusConflict, "spent", "This token was used already, and none is used twice."}.write(w)
	case err != nil:
		s.storeFailed(r.Context(), w, err)
	default:
		s.tokensChanged(w, r, "captcha token pushed", site, key, 1)
	}
}

// WarmTokens is the body of POST /api/v1/captcha/{site}/warm.
type WarmTokens struct {
	Sitekey string `json:"sitekey,omitempty"`
	Action  string `json:"action,omitempty"`
	Tokens  int    `json:"tokens"`
}

// maxWarm bounds what one call may cost.
const maxWarm = 100

// warmTokens is POST /api/v1/captcha/{site}/warm: it begins the solves, and
// waits for none.
func (s *server) warmTokens(w http.ResponseWriter, r *http.Request) {
	var in WarmTokens
	if p := readJSON(w, r, &in, `{"sitekey": "6Le…", "action": "login", "tokens": 3}`); p != nil {
		p.write(w)
		return
	}
	site, key, ok := s.sitekey(w, r, in.Sitekey, in.Action)
	if !ok {
		return
	}
	if in.Tokens < 1 || in.Tokens > maxWarm {
		problem{http.StatusUnprocessableEntity, "tokens", fmt.Sprintf("Ask for 1 to %d tokens.", maxWarm)}.write(w)
		return
	}
	for _, a := range s.widgets(site) {
		if a.Key() != key {
			continue
		}
		if err := s.tokens.Warm(a, in.Tokens); err != nil {
			problem{http.StatusUnprocessableEntity, "not_solved", sentence(err)}.write(w)
			return
		}
		s.tokensChanged(w, r, "captcha tokens warmed", site, key, in.Tokens)
		return
	}
	problem{http.StatusUnprocessableEntity, "undeclared_sitekey", fmt.Sprintf(
		"The site %q declares no such sitekey under captcha, and none of its pages was seen to show it, so nobody knows its type and page.", site.Name)}.write(w)
}

// flushTokens is DELETE /api/v1/captcha/{site}/tokens[?sitekey=…][&action=…].
func (s *server) flushTokens(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	site, key, ok := s.sitekey(w, r, q.Get("sitekey"), q.Get("action"))
	if !ok {
		return
	}
	n, err := s.tokens.Flush(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	s.tokensChanged(w, r, "captcha tokens flushed", site, key, n)
}

// sitekey finds what a call is about: the one that it names, else the only one
// that the site has. Where it returns false it has answered.
func (s *server) sitekey(w http.ResponseWriter, r *http.Request, sitekey, action string) (config.Site, captcha.Key, bool) {
	site, ok := s.site(w, r, r.PathValue("site"))
	if !ok {
		return site, captcha.Key{}, false
	}
	key := captcha.Key{Site: site.Key, SiteKey: sitekey, Action: action}
	if sitekey == "" {
		widgets := s.widgets(site)
		if len(widgets) == 0 {
			problem{http.StatusUnprocessableEntity, "sitekey", fmt.Sprintf(
				"The site %q declares no sitekey, and no page of it was seen to show one. Open its page through the proxy, or name the sitekey.", site.Name)}.write(w)
			return site, key, false
		}
		if len(widgets) > 1 {
			problem{http.StatusUnprocessableEntity, "sitekey", fmt.Sprintf(
				"Say which sitekey is meant: the site %q has %d.", site.Name, len(widgets))}.write(w)
			return site, key, false
		}
		key = widgets[0].Key()
	}
	if err := key.Check(); err != nil {
		problem{http.StatusUnprocessableEntity, "sitekey", sentence(err)}.write(w)
		return site, key, false
	}
	return site, key, true
}

func (s *server) tokensChanged(w http.ResponseWriter, r *http.Request, done string, site config.Site, key captcha.Key, n int) {
	s.log.InfoContext(r.Context(), done, "by", name(r.Context()), "site", site.Name, "key", key.String(), "count", n)
	writeJSON(w, http.StatusOK, "application/json", TokensChanged{site.Name, key.SiteKey, key.Action, n})
}
