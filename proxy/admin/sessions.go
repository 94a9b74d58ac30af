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
	Site    string    `json:"site"` // its name; its key in the store where no site is declared for it any more
	Session string    `json:"session"`
	Cookies int       `json:"cookies"`
	Version int64     `json:"version"` // microseconds of the store's clock
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	Expires time.Time `json:"expires"` // unless it is used
}

// Sessions is the answer to GET /api/v1/sessions.
type Sessions struct {
	Sessions []Session `json:"sessions"`
}

// listSessions is GET /api/v1/sessions[?site=NAME][&session=ID], in order of
// site and session.
func (s *server) listSessions(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	key := ""
	if name := q.Get("site"); name != "" {
		site, ok := s.site(w, r, name)
		if !ok {
			return
		}
		key = site.Key
	}
	infos, err := s.store.List(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	sites := s.sites()
	names := make(map[string]string, len(sites))
	for _, site := range sites {
		names[site.Key] = site.Name
	}
	shown := make([]Session, 0, len(infos)) // an empty list is [], not null
	for _, i := range infos {
		if id := q.Get("session"); id != "" && id != i.Key.ID {
			continue
		}
		shown = append(shown, show(i, cmp.Or(names[i.Key.Site], i.Key.Site)))
	}
	slices.SortFunc(shown, func(a, b Session) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Session, b.Session))
	})
	writeJSON(w, http.StatusOK, "application/json", Sessions{shown})
}

func show(i session.Info, site string) Session {
	return Session{
		Site:    site,
		Session: i.Key.ID,
		Cookies: i.Cookies,
		Version: i.Version,
		Created: i.Created.UTC(),
		Used:    i.Used.UTC(),
		Expires: i.Expires.UTC(),
	}
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
