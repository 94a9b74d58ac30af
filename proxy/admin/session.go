package admin

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// SessionDetail is the answer to GET /api/v1/sessions/{site}/{session}.
type SessionDetail struct {
	Session
	Cookies []Cookie `json:"cookies"` // in the order of a Cookie header, without expired ones
}

// Cookie is a cookie of a session: all of it but the value.
type Cookie struct {
	Name        string    `json:"name"`
	ValueBytes  int       `json:"value_bytes"`
	Domain      string    `json:"domain"`
	HostOnly    bool      `json:"host_only"` // for Domain alone, not for its subdomains
	Path        string    `json:"path"`
	Secure      bool      `json:"secure"`
	HTTPOnly    bool      `json:"http_only"`
	SameSite    string    `json:"same_site"` // none, lax, strict; "" where the site did not say
	Partitioned bool      `json:"partitioned"`
	Priority    string    `json:"priority"` // as the site sent it
	Created     time.Time `json:"created"`
	Expires     time.Time `json:"expires,omitzero"` // absent: it lives as long as the session
	Writer      string    `json:"writer"`           // who gave it its value: reply, login, recipe, import, operator, worker
	Version     int64     `json:"version"`
}

// sameSites are the words for session.SameSite.
var sameSites = [...]string{session.SameSiteDefault: "", session.SameSiteNone: "none", session.SameSiteLax: "lax", session.SameSiteStrict: "strict"}

func showCookie(c *session.Cookie) Cookie {
	return Cookie{
		Name:        c.Name,
		ValueBytes:  len(c.Value),
		Domain:      c.Domain,
		HostOnly:    c.HostOnly,
		Path:        c.Path,
		Secure:      c.Secure,
		HTTPOnly:    c.HTTPOnly,
		SameSite:    sameSites[c.SameSite],
		Partitioned: c.Partitioned,
		Priority:    c.Priority,
		Created:     c.Created,
		Expires:     c.Expires,
		Writer:      c.Writer.String(),
		Version:     c.Version,
	}
}

// showSession is GET /api/v1/sessions/{site}/{session}.
func (s *server) showSession(w http.ResponseWriter, r *http.Request) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	found, err := s.candidates(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	jar, err := s.load(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	detail := SessionDetail{Cookies: []Cookie{}}
	switch {
	case len(found) > 0:
		if detail.Session, err = s.showCandidate(r.Context(), found[0]); err != nil {
			s.storeFailed(r.Context(), w, err)
			return
		}
	case jar.Version() > 0:
		detail.Session = idle(site.Name, key.ID, jar, nil)
		detail.Session.Login = showLoginState(s.status(r.Context(), key))
	default:
		problem{http.StatusNotFound, "unknown_session", noCookies(site.Name, key.ID)}.write(w)
		return
	}
	for _, c := range unexpired(jar, s.store.Now()) {
		detail.Cookies = append(detail.Cookies, showCookie(&c))
	}
	writeJSON(w, http.StatusOK, "application/json", detail)
}

func (s *server) load(ctx context.Context, key session.Key) (*session.Jar, error) {
	return load(ctx, s.store, key)
}

// load returns the jar under key, an empty one where there is none.
func load(ctx context.Context, store session.Store, key session.Key) (*session.Jar, error) {
	jar, err := store.Load(ctx, key)
	if errors.Is(err, session.ErrNotFound) {
		return new(session.Jar), nil
	}
	return jar, err
}

func unexpired(jar *session.Jar, now time.Time) []session.Cookie {
	return slices.DeleteFunc(slices.Clone(jar.Cookies()), func(c session.Cookie) bool { return c.Expired(now) })
}

// Ended is the answer to the end of a session.
type Ended struct {
	Site    string `json:"site"`
	Session string `json:"session"`
	Found   bool   `json:"found"`   // that there was one
	Cookies int    `json:"cookies"` // that it held
}

// clearSession is DELETE /api/v1/sessions/{site}/{session}. A session that is
// not there is cleared, too: workers may hold private cookies in it.
func (s *server) clearSession(w http.ResponseWriter, r *http.Request) {
	s.end(w, r, "session cleared", s.store.Clear)
}

// revokeSession is POST /api/v1/sessions/{site}/{session}/revoke. A session
// that is not there is revoked, too: requests for it may be under way.
func (s *server) revokeSession(w http.ResponseWriter, r *http.Request) {
	s.end(w, r, "session revoked", s.revoke)
}

func (s *server) end(w http.ResponseWriter, r *http.Request, done string, end func(context.Context, session.Key) error) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	jar, err := s.load(r.Context(), key)
	if err == nil {
		err = end(r.Context(), key)
	}
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	ended := Ended{site.Name, key.ID, jar.Version() > 0, len(unexpired(jar, s.store.Now()))}
	s.changed(r.Context(), done, site.Name, key, "cookies", ended.Cookies)
	writeJSON(w, http.StatusOK, "application/json", ended)
}

// changed logs what an operator did, never a value.
func (s *server) changed(ctx context.Context, done, site string, key session.Key, more ...any) {
	s.log.InfoContext(ctx, done, append([]any{"by", name(ctx), "site", site, "session", key.ID}, more...)...)
}
