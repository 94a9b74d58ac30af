package admin

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/access"
)

// IssueGrant is the body of POST /api/v1/access.
type IssueGrant struct {
	Client   string   `json:"client"`
	Sites    []string `json:"sites"`    // names that the token is held to; []: those of the client
	Sessions []string `json:"sessions"` // globs; the same
	TTL      string   `json:"ttl"`      // "15m"; "" stands for that
}

// IssuedGrant is the answer: the only one that has the token.
type IssuedGrant struct {
	Token string `json:"token"`
	Grant
}

// Grant is a token that stands for a client's password.
type Grant struct {
	ID       string    `json:"id"`
	Client   string    `json:"client"`
	Sites    []string  `json:"sites"`
	Sessions []string  `json:"sessions"`
	By       string    `json:"by"` // who issued it
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires"`
}

// Grants is the answer to GET /api/v1/access.
type Grants struct {
	Grants []Grant `json:"grants"` // those that have not ended, by client
}

func showGrant(g access.Grant) Grant {
	return Grant{g.ID, g.Client, append([]string{}, g.Sites...), append([]string{}, g.Sessions...), g.By, g.Issued, g.Expires}
}

const defaultTTL = "15m"

// issue is POST /api/v1/access.
func (s *server) issue(w http.ResponseWriter, r *http.Request) {
	c := callOf(r.Context())
	var body IssueGrant
	if p := readJSON(w, r, &body, `{"client": "crawler", "sites": ["shop"], "sessions": [], "ttl": "15m"}`); p != nil {
		p.write(w)
		return
	}
	ttl, err := time.ParseDuration(cmp.Or(body.TTL, defaultTTL))
	if err != nil || ttl < time.Second || ttl > access.MaxProxyLife {
		problem{http.StatusUnprocessableEntity, "ttl", "Say in ttl how long the token lives, such as 15m: from 1s to 720h."}.write(w)
		return
	}
	if p := s.grantable(body); p != nil {
		p.write(w)
		return
	}
	c.target = body.Client
	g, token, err := s.access.Issue(r.Context(), access.Grant{Client: body.Client, Sites: body.Sites, Sessions: body.Sessions, By: c.who.Name}, ttl)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	c.target += "/" + g.ID
	writeJSON(w, http.StatusCreated, "application/json", IssuedGrant{token, showGrant(g)})
}

// grantable says what is wrong with a token before it is made: one that opens
// nothing would be found out late.
func (s *server) grantable(g IssueGrant) *problem {
	clients := s.clients()
	i := slices.IndexFunc(clients, func(c config.Client) bool { return c.Name == g.Client })
	if i < 0 {
		return &problem{http.StatusUnprocessableEntity, "unknown_client", fmt.Sprintf("No client has the name %q.", g.Client)}
	}
	declared := s.sites()
	for _, name := range g.Sites {
		if !slices.ContainsFunc(declared, func(site config.Site) bool { return site.Name == name }) {
			return &problem{http.StatusUnprocessableEntity, "unknown_site", fmt.Sprintf("No site has the name %q. Declared: %s.", name, namesOf(declared))}
		}
		if own := clients[i].Sites; len(own) > 0 && !slices.Contains(own, name) {
			return &problem{http.StatusUnprocessableEntity, "site_not_allowed", fmt.Sprintf("The client %s may not use the site %s, and a token gives it no more.", g.Client, name)}
		}
	}
	return nil
}

// listGrants is GET /api/v1/access.
func (s *server) listGrants(w http.ResponseWriter, r *http.Request) {
	all, err := s.access.Grants(r.Context())
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	shown := []Grant{}
	for _, g := range all {
		shown = append(shown, showGrant(g))
	}
	writeJSON(w, http.StatusOK, "application/json", Grants{shown})
}

// revokeGrant is DELETE /api/v1/access/{id}.
func (s *server) revokeGrant(w http.ResponseWriter, r *http.Request) {
	done, err := s.access.RevokeGrant(r.Context(), r.PathValue("id"))
	switch {
	case err != nil:
		s.storeFailed(r.Context(), w, err)
	case !done:
		problem{http.StatusNotFound, "unknown_token", "No token of that ID is good."}.write(w)
	default:
		callOf(r.Context()).target = r.PathValue("id")
		w.WriteHeader(http.StatusNoContent)
	}
}
