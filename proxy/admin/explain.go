package admin

import (
	"cmp"
	"net/http"
	"net/url"

	"github.com/sessionproxy/sessionproxy/session"
)

// Explanation is the answer to GET /api/v1/explain.
type Explanation struct {
	Site    string    `json:"site"` // that declares the host; "" none
	Session string    `json:"session"`
	Client  string    `json:"client"`  // "" for one without rules of its own
	Refused string    `json:"refused"` // why the request gets no cookie at all; "" where each has a verdict
	Cookies []Verdict `json:"cookies"` // in the order of a Cookie header
	Login   string    `json:"login"`   // what the URL is to the site's login, and how that stands; "" nothing
}

// Verdict says whether a cookie goes with the request, and why.
type Verdict struct {
	Name   string `json:"name"`
	Domain string `json:"domain"`
	Path   string `json:"path"`
	Sent   bool   `json:"sent"`
	Reason string `json:"reason"`
}

// explainURL is GET /api/v1/explain?url=URL[&session=ID][&client=NAME].
func (s *server) explainURL(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	u, err := url.Parse(q.Get("url"))
	if err != nil || u.Host == "" {
		problem{http.StatusBadRequest, "url", "Say in the query which URL, in full: ?url=https://shop.example.com/."}.write(w)
		return
	}
	e := Explanation{Session: cmp.Or(q.Get("session"), session.DefaultID), Client: q.Get("client"), Cookies: []Verdict{}}
	site, refused, verdicts, err := s.explain(r.Context(), u, e.Client, e.Session)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	e.Site, e.Refused, e.Login = site, refused, s.explainIn(r.Context(), u, e.Session)
	for _, v := range verdicts {
		e.Cookies = append(e.Cookies, Verdict{v.Cookie.Name, v.Cookie.Domain, v.Cookie.Path, v.Sent, v.Why})
	}
	writeJSON(w, http.StatusOK, "application/json", e)
}
