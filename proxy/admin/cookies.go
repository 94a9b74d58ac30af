package admin

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// SetCookie is the body of PUT /api/v1/sessions/{site}/{session}/cookies.
type SetCookie struct {
	SetCookie string `json:"set_cookie"` // as a site would send it: "name=value; Path=/; Secure"
	// URL is where it would come from, and so decides its host and path. "":
	// the site's first host, by https.
	URL string `json:"url"`
}

// CookieSet is the answer.
type CookieSet struct {
	Site    string `json:"site"`
	Session string `json:"session"`
	Cookie  Cookie `json:"cookie"`
}

// setCookie is PUT /api/v1/sessions/{site}/{session}/cookies.
func (s *server) setCookie(w http.ResponseWriter, r *http.Request) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	var body SetCookie
	if p := readJSON(w, r, &body, `{"set_cookie": "NAME=VALUE; Path=/", "url": "https://HOST/"}`); p != nil {
		p.write(w)
		return
	}
	c, p := s.parse(site, body)
	if p != nil {
		p.write(w)
		return
	}
	life := session.Life{Idle: site.Cookies.TTL, Max: site.Cookies.MaxAge}
	jar, _, err := s.store.Apply(r.Context(), key, session.Update{Base: session.Latest, Writer: session.ByOperator, Cookies: []session.Cookie{c}}, life)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	i := slices.IndexFunc(jar.Cookies(), func(have session.Cookie) bool { return have.Identity() == c.Identity() })
	if i < 0 {
		problem{http.StatusConflict, "session_full", "The session holds as many cookies as it can, and those are in use. Remove some."}.write(w)
		return
	}
	s.changed(r.Context(), "cookie set", site.Name, key, "cookie", c.Name)
	writeJSON(w, http.StatusOK, "application/json", CookieSet{site.Name, key.ID, showCookie(&jar.Cookies()[i])})
}

// parse reads the cookie that an operator wants set.
func (s *server) parse(site config.Site, body SetCookie) (session.Cookie, *problem) {
	refuse := func(code, format string, args ...any) (session.Cookie, *problem) {
		return session.Cookie{}, &problem{http.StatusUnprocessableEntity, code, fmt.Sprintf(format, args...)}
	}
	u, err := url.Parse(cmp.Or(body.URL, firstURL(site)))
	if err != nil || u.Host == "" {
		return refuse("url", "Say in url which host sets the cookie, such as https://shop.example.com/.")
	}
	declared, at, err := s.locate(u)
	switch {
	case err != nil:
		return refuse("url", "%s", err)
	case declared != site.Name:
		return refuse("foreign_host", "%s is no host of the site %q.", at.Host, site.Name)
	}
	now := s.store.Now()
	c, err := session.ParseSetCookie(body.SetCookie, at, now)
	policy := session.NewPolicy(site.Cookies.Share, site.Cookies.Private, false)
	if refusal, refused := errors.AsType[session.Refusal](err); refused {
		return refuse("cookie_"+string(refusal), "No site could set this cookie: %s.", refusals[refusal])
	}
	switch {
	case policy.Private(c.Name):
		return refuse("private_name", "A cookie of the name %q belongs to one worker, and is not shared with the session.", c.Name)
	case !policy.Shared(c.Name):
		return refuse("not_shared", "The site's cookies.share leaves out the name %q.", c.Name)
	case c.Expired(now):
		return refuse("expired", "The cookie's life is over, which would remove it. Remove it by its name.")
	}
	return c, nil
}

// firstURL is the site's first host that is no wildcard, "" for none.
func firstURL(site config.Site) string {
	i := slices.IndexFunc(site.Patterns, func(p config.Pattern) bool { return !p.Wildcard })
	if i < 0 {
		return ""
	}
	host := site.Patterns[i].Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	if port := site.Patterns[i].Port; port != "" {
		host += ":" + port
	}
	return "https://" + host + "/"
}

// refusals are the words for why a cookie is not stored.
var refusals = map[session.Refusal]string{
	session.RefusedEmpty:       "it has neither name nor value",
	session.RefusedControl:     "it holds a control character",
	session.RefusedSize:        "name and value are longer than 4096 bytes",
	session.RefusedAmbiguous:   "it has no name, and a value that reads as another cookie",
	session.RefusedDomain:      "its Domain is not the URL's host or above it, or is one that everybody may register under",
	session.RefusedPath:        "its Path does not begin with a slash",
	session.RefusedSecure:      "it is Secure, and the URL is plain http",
	session.RefusedPrefix:      "its name promises attributes that it does not have: __Secure- wants Secure, __Host- wants Secure and Path=/ and no Domain, __Http- wants HttpOnly too",
	session.RefusedSameSite:    "SameSite=None wants Secure",
	session.RefusedPartitioned: "Partitioned wants Secure",
}

// CookiesRemoved is the answer to DELETE /api/v1/sessions/{site}/{session}/cookies.
type CookiesRemoved struct {
	Site    string   `json:"site"`
	Session string   `json:"session"`
	Cookies []Cookie `json:"cookies"` // that were removed
}

// removeCookies is DELETE /api/v1/sessions/{site}/{session}/cookies?name=NAME
// [&domain=DOMAIN][&path=PATH]: all cookies of that name.
func (s *server) removeCookies(w http.ResponseWriter, r *http.Request) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	if !q.Has("name") {
		problem{http.StatusBadRequest, "name", "Say in the query which cookie: ?name=NAME."}.write(w)
		return
	}
	jar, err := s.load(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	removed := CookiesRemoved{site.Name, key.ID, nil}
	u := session.Update{Base: session.Latest, Writer: session.ByOperator}
	for _, c := range unexpired(jar, s.store.Now()) {
		if c.Name != q.Get("name") || q.Has("domain") && c.Domain != canonical(q.Get("domain")) || q.Has("path") && c.Path != q.Get("path") {
			continue
		}
		removed.Cookies = append(removed.Cookies, showCookie(&c))
		c.Expires = time.Unix(1, 0) // an end that is over deletes
		u.Cookies = append(u.Cookies, c)
	}
	if len(u.Cookies) == 0 {
		problem{http.StatusNotFound, "unknown_cookie", fmt.Sprintf("The session %q of the site %q has no such cookie.", key.ID, site.Name)}.write(w)
		return
	}
	if _, _, err := s.store.Apply(r.Context(), key, u, session.Life{Idle: site.Cookies.TTL, Max: site.Cookies.MaxAge}); err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	s.changed(r.Context(), "cookies removed", site.Name, key, "cookie", q.Get("name"), "count", len(u.Cookies))
	writeJSON(w, http.StatusOK, "application/json", removed)
}

// canonical is a cookie's domain as it is kept. One that is none matches none.
func canonical(domain string) string {
	host, _ := session.CanonicalHost(domain)
	return host
}
