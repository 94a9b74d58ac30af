package admin

import (
	"cmp"
	"context"
	"fmt"
	"math"
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
	Total    int       `json:"total"`          // on all pages
	Next     string    `json:"next,omitempty"` // where the next page begins; absent: this is the last
}

// listSessions is GET /api/v1/sessions[?site=NAME][&session=ID][&q=TEXT]
// [&order=used][&after=CURSOR][&limit=N], in order of site and session, or of
// the last use: those that hold cookies, and those that were lately used.
func (s *server) listSessions(w http.ResponseWriter, r *http.Request) {
	p, ok := pageOf(w, r)
	if !ok {
		return
	}
	q := r.URL.Query()
	place := candidate.name
	switch order := q.Get("order"); order {
	case "", "name":
	case "used":
		place = candidate.lastFirst
	default:
		problem{http.StatusUnprocessableEntity, "order", "Sessions are in order of name or used."}.write(w)
		return
	}
	key := session.Key{ID: q.Get("session")}
	if name := q.Get("site"); name != "" {
		site, ok := s.site(w, r, name)
		if !ok {
			return
		}
		key.Site = site.Key
	}
	all, err := s.candidates(r.Context(), key)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	all = slices.DeleteFunc(all, func(c candidate) bool { return !p.holds(c.texts()...) })
	for i := range all {
		all[i].place = place(all[i])
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Compare(a.place, b.place) })
	answer := Sessions{Sessions: []Session{}, Total: len(all)} // an empty list is [], not null
	all, answer.Next = cut(all, p, func(c candidate) string { return c.place })
	for _, c := range all {
		shown, err := s.showCandidate(r.Context(), c)
		if err != nil {
			s.storeFailed(r.Context(), w, err)
			return
		}
		answer.Sessions = append(answer.Sessions, shown)
	}
	writeJSON(w, http.StatusOK, "application/json", answer)
}

// candidate is a session before it is looked at closely, which costs more than
// a list of thousands can pay.
type candidate struct {
	key   session.Key
	site  string        // as a list shows it
	info  *session.Info // nil: it holds no cookies
	use   *LastUse
	place string // in the list
}

// name is its place by site and session.
func (c candidate) name() string { return c.site + "\x00" + c.key.ID }

// lastFirst is its place by its last use.
func (c candidate) lastFirst() string {
	used := int64(0) // microseconds since 1970
	if c.info != nil {
		used = c.info.Used.UnixMicro()
	}
	if c.use != nil {
		used = max(used, c.use.At.UnixMicro())
	}
	return fmt.Sprintf("%020d", math.MaxInt64-used) + c.name()
}

// texts are those that a search looks at.
func (c candidate) texts() []string {
	texts := []string{c.site, c.key.ID}
	if c.use != nil {
		texts = append(texts, c.use.Client, c.use.Worker)
	}
	return texts
}

// candidates are the sessions that are live or were lately used, or whose recipe
// fails, of the site and the ID of key, or of all where they are "".
func (s *server) candidates(ctx context.Context, key session.Key) ([]candidate, error) {
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
	all := make([]candidate, 0, len(infos))
	have := make(map[session.Key]bool, len(infos))
	add := func(k session.Key, info *session.Info, use *LastUse) {
		all = append(all, candidate{key: k, site: cmp.Or(names[k.Site], k.Site), info: info, use: use})
		have[k] = true
	}
	for _, i := range infos {
		if meant(i.Key) {
			add(i.Key, &i, uses[i.Key])
		}
	}
	for k, use := range uses {
		if !have[k] {
			add(k, nil, use)
		}
	}
	for _, k := range s.failing(ctx) {
		if meant(k) && !have[k] {
			add(k, nil, nil)
		}
	}
	return all, nil
}

// showCandidate looks at it.
func (s *server) showCandidate(ctx context.Context, c candidate) (shown Session, err error) {
	if i := c.info; i != nil {
		shown = Session{
			Site: c.site, Session: c.key.ID, State: Live, Cookies: i.Cookies, Version: i.Version,
			Created: i.Created.UTC(), Used: i.Used.UTC(), Expires: i.Expires.UTC(), LastUse: c.use,
		}
	} else {
		jar, err := s.load(ctx, c.key)
		if err != nil {
			return Session{}, err
		}
		shown = idle(c.site, c.key.ID, jar, c.use)
	}
	shown.Login = showLoginState(s.status(ctx, c.key))
	return shown, nil
}

// failing are the sessions whose recipe fails: that may leave them without
// cookies.
func (s *server) failing(ctx context.Context) []session.Key {
	var all []session.Key
	for _, site := range s.sites() {
		if site.Login == nil {
			continue
		}
		for _, a := range site.Login.Accounts {
			if k := (session.Key{Site: site.Key, ID: a.ID}); s.status(ctx, k).Failed != nil {
				all = append(all, k)
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
