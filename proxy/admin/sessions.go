package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// Session is a session as a list shows it: never a cookie's name or value.
type Session struct {
	Site    string       `json:"site"` // its name; its key in the store where no site is declared for it any more
	Session string       `json:"session"`
	State   SessionState `json:"state"`
	Cookies int          `json:"cookies"`
	Version int64        `json:"version"`          // microseconds of the store's clock
	Created time.Time    `json:"created,omitzero"` // this and the next two: while it is live
	Used    time.Time    `json:"used,omitzero"`    // as the store was told: up to a tenth of its life too early
	Expires time.Time    `json:"expires,omitzero"` // unless it is used
	Revoked time.Time    `json:"revoked,omitzero"` // when it was, where that is its state
	LastUse *LastUse     `json:"last_use,omitempty"`
	Login   LoginState   `json:"login"`
}

// SessionState is what a session can do for a request.
type SessionState string

// The states.
const (
	Live    SessionState = "live"    // it holds cookies
	Empty   SessionState = "empty"   // it holds none: never, no more, or not yet again
	Revoked SessionState = "revoked" // it was ended, and nothing came since
)

// LastUse is the last use of a session through the process that answers.
type LastUse struct {
	At     time.Time `json:"at"`
	Client string    `json:"client"` // "" one without a name
	Worker string    `json:"worker"` // its address, unless it named itself
}

// Sessions is the answer to GET /api/v1/sessions.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

// listSessions is GET /api/v1/sessions[?site=NAME][&session=ID], in order of
// site and session: those that hold cookies, and those that were lately used.
func (s *server) listSessions(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key := session.Key{ID: q.Get("session")}
	if name := q.Get("site"); name != "" {
		site, ok := s.site(w, r, name)
		if !ok {
			return
		}
		key.Site = site.Key
	}
	shown, err := s.find(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	slices.SortFunc(shown, func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Session, b.Session))
	})
	writeJSON(w, http.StatusOK, "application/json", Sessions{shown})
}

// find returns the sessions that are live or were lately used, of the site and
// the ID of key, or of all where they are "".
func (s *server) find(ctx context.Context, key session.Key) ([]Session, error) {
	meant := func(k session.Key) bool {
		return (key.Site == "" || k.Site == key.Site) && (key.ID == "" || k.ID == key.ID)
	}
	infos, err := s.store.List(ctx, key.Site)
	if err != nil {
		return nil, err
	}
	uses := map[session.Key]*LastUse{}
	s.eachUse(func(k session.Key, at time.Time, client, worker string) {
		if meant(k) {
			uses[k] = &LastUse{at, client, worker}
		}
	})
	names := map[string]string{}
	for _, site := range s.sites() {
		names[site.Key] = site.Name
	}
	shown := []Session{} // an empty list is [], not null
	have := make(map[session.Key]bool, len(infos))
	for _, i := range infos {
		if !meant(i.Key) {
			continue
		}
		shown = append(shown, Session{
			Site: cmp.Or(names[i.Key.Site], i.Key.Site), Session: i.Key.ID, State: Live, Cookies: i.Cookies, Version: i.Version,
			Created: i.Created.UTC(), Used: i.Used.UTC(), Expires: i.Expires.UTC(), LastUse: uses[i.Key],
			Login: showLoginState(s.status(ctx, i.Key)),
		})
		delete(uses, i.Key)
		have[i.Key] = true
	}
	for k, use := range uses {
		jar, err := s.load(ctx, k)
		if err != nil {
			return nil, err
		}
		row := idle(cmp.Or(names[k.Site], k.Site), k.ID, jar, use)
		row.Login = showLoginState(s.status(ctx, k))
		shown = append(shown, row)
		have[k] = true
	}
	return append(shown, s.failing(ctx, meant, have)...), nil
}

// failing are the sessions, of those that are meant and not had, whose recipe
// fails: that leaves them without cookies.
func (s *server) failing(ctx context.Context, meant func(session.Key) bool, have map[session.Key]bool) []Session {
	var all []Session
	for _, site := range s.sites() {
		if site.Login == nil {
			continue
		}
		for _, a := range site.Login.Accounts {
			k := session.Key{Site: site.Key, ID: a.ID}
			if l := showLoginState(s.status(ctx, k)); meant(k) && !have[k] && l.Error != "" {
				all = append(all, Session{Site: site.Name, Session: a.ID, State: Empty, Login: l})
			}
		}
	}
	return all
}

// idle is a session that holds no cookies.
func idle(site, id string, jar *session.Jar, use *LastUse) Session {
	s := Session{Site: site, Session: id, State: Empty, Version: jar.Version(), LastUse: use}
	if jar.Floor() > 0 && jar.Floor() == jar.Version() {
		s.State, s.Revoked = Revoked, time.UnixMicro(jar.Floor()).UTC()
	}
	return s
}

// storeFailed answers for the store. A client that left is no failure of it.
func (s *server) storeFailed(ctx context.Context, w http.ResponseWriter, err error) {
	if ctx.Err() == nil {
		s.log.ErrorContext(ctx, "session store unavailable", "err", err)
	}
	problem{http.StatusServiceUnavailable, "store_unavailable", "The session store does not answer. Try again; the proxy's log has the cause."}.write(w)
}

// showVersion is GET /api/v1/version.
func (s *server) showVersion(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, "application/json", map[string]string{"version": s.version})
}
