package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
)

// Site is a declared site as a list shows it.
type Site struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"`
}

// Sites is the answer to GET /api/v1/sites.
type Sites struct {
	Sites []Site `json:"sites"` // in the order of the configuration
}

// listSites is GET /api/v1/sites.
func (s *server) listSites(w http.ResponseWriter, _ *http.Request) {
	shown := []Site{}
	for _, site := range s.sites() {
		shown = append(shown, Site{site.Name, site.Hosts})
	}
	writeJSON(w, http.StatusOK, "application/json", Sites{shown})
}

// site finds a site by its name, or, where sessions are left of one that is no
// longer declared, by its key. Where it returns false it has answered.
func (s *server) site(w http.ResponseWriter, r *http.Request, name string) (config.Site, bool) {
	sites := s.sites()
	declared := false // under this key, and so by its name only
	for _, site := range sites {
		if site.Name == name {
			return site, true
		}
		declared = declared || site.Key == name
	}
	if !declared {
		left, err := s.store.List(r.Context(), name)
		if err != nil {
			s.storeFailed(r.Context(), w, err)
			return config.Site{}, false
		}
		if len(left) > 0 {
			return config.Site{Name: name, Key: name}, true
		}
	}
	problem{http.StatusNotFound, "unknown_site", fmt.Sprintf("No site has the name %q. Declared: %s.", name, namesOf(sites))}.write(w)
	return config.Site{}, false
}

// namesOf lists the declared sites, for the remedy.
func namesOf(sites []config.Site) string {
	names := make([]string, len(sites))
	for i, site := range sites {
		names[i] = strconv.Quote(site.Name)
	}
	return cmp.Or(strings.Join(names, ", "), "none")
}

// session finds what {site} and {session} of a path name. The session need not
// be there. Where it returns false it has answered.
func (s *server) session(w http.ResponseWriter, r *http.Request) (config.Site, session.Key, bool) {
	id := r.PathValue("session")
	if id == session.NoneID || !session.ValidID(id) {
		problem{http.StatusNotFound, "unknown_session", fmt.Sprintf(
			"No session can have the ID %q. An ID is 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -, and not none.", id)}.write(w)
		return config.Site{}, session.Key{}, false
	}
	site, ok := s.site(w, r, r.PathValue("site"))
	return site, session.Key{Site: site.Key, ID: id}, ok
}
