package admin

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// shownSession is what a list shows of one session: never a cookie's name or
// value.
type shownSession struct {
	Site    string    `json:"site"` // its name; its key in the store where no site is declared for it any more
	Session string    `json:"session"`
	Cookies int       `json:"cookies"`
	Version int64     `json:"version"` // microseconds of the store's clock
	Created time.Time `json:"created"`
	Used    time.Time `json:"used"`
	Expires time.Time `json:"expires"` // unless it is used
}

// listSessions is GET /api/v1/sessions[?site=NAME], in order of site and session.
func (s *server) listSessions(w http.ResponseWriter, r *http.Request) {
	sites := s.sites()
	key := ""
	if name := r.URL.Query().Get("site"); name != "" {
		i := slices.IndexFunc(sites, func(site Site) bool { return site.Name == name })
		if i < 0 {
			problem{http.StatusNotFound, "unknown_site", fmt.Sprintf("No site has the name %q. Declared: %s.", name, namesOf(sites))}.write(w)
			return
		}
		key = sites[i].Key
	}
	infos, err := s.store.List(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	names := make(map[string]string, len(sites))
	for _, site := range sites {
		names[site.Key] = site.Name
	}
	shown := make([]shownSession, 0, len(infos)) // an empty list is [], not null
	for _, i := range infos {
		shown = append(shown, show(i, cmp.Or(names[i.Key.Site], i.Key.Site)))
	}
	slices.SortFunc(shown, func(a, b shownSession) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Session, b.Session))
	})
	writeJSON(w, http.StatusOK, "application/json", map[string][]shownSession{"sessions": shown})
}

func show(i session.Info, site string) shownSession {
	return shownSession{
		Site:    site,
		Session: i.Key.ID,
		Cookies: i.Cookies,
		Version: i.Version,
		Created: i.Created.UTC(),
		Used:    i.Used.UTC(),
		Expires: i.Expires.UTC(),
	}
}

// namesOf lists the declared sites, for the remedy.
func namesOf(sites []Site) string {
	names := make([]string, len(sites))
	for i, site := range sites {
		names[i] = strconv.Quote(site.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
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
