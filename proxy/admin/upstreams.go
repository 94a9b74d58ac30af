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

	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

// Upstream is one upstream of a pool, without its credentials.
type Upstream struct {
	Pool     string    `json:"pool"`
	ID       string    `json:"id"` // tells upstreams of one address apart
	URL      string    `json:"url"`
	Source   string    `json:"source"` // config, added, discovered
	State    string    `json:"state"`  // free, leased, taken (by another program), resting
	Capacity int       `json:"capacity"`
	Leases   []Lease   `json:"leases"`
	Failures int       `json:"failures"`         // since it was last well
	Reason   string    `json:"reason,omitempty"` // of the last
	Rests    time.Time `json:"rests,omitzero"`   // until then
}

// Lease is one lease of an upstream.
type Lease struct {
	Owner string    `json:"owner"`
	Since time.Time `json:"since"`
}

// Upstreams is the answer to GET /api/v1/upstreams.
type Upstreams struct {
	Pools     []string    `json:"pools"`
	States    []PoolState `json:"states"`    // of Pools, all pages of them
	Upstreams []Upstream  `json:"upstreams"` // in order of pool and URL
	Total     int         `json:"total"`     // on all pages
	Next      string      `json:"next,omitempty"`
}

// PoolState counts the upstreams of a pool by their states.
type PoolState struct {
	Pool    string `json:"pool"`
	Free    int    `json:"free"`
	Leased  int    `json:"leased"`
	Taken   int    `json:"taken"`
	Resting int    `json:"resting"`
	Waiting int    `json:"waiting"` // requests of this proxy that wait for a lease
}

func (p *PoolState) count(state string) {
	switch state {
	case "free":
		p.Free++
	case "leased":
		p.Leased++
	case "taken":
		p.Taken++
	case "resting":
		p.Resting++
	}
}

// listUpstreams is GET /api/v1/upstreams[?pool=NAME][&q=TEXT][&after=CURSOR]
// [&limit=N].
func (s *server) listUpstreams(w http.ResponseWriter, r *http.Request) {
	page, ok := pageOf(w, r)
	if !ok {
		return
	}
	all := Upstreams{Pools: []string{}, States: []PoolState{}}
	pools := s.upstreams.All()
	if name := r.URL.Query().Get("pool"); name != "" {
		p, ok := s.pool(w, name)
		if !ok {
			return
		}
		pools = []*upstream.Pool{p}
	}
	rows := []Upstream{} // an empty list is [], not null
	for _, p := range pools {
		list, err := p.List(r.Context())
		if err != nil {
			s.ledgerFailed(r.Context(), w, err)
			return
		}
		state := PoolState{Pool: p.Name()}
		if usage, err := p.Usage(r.Context()); err == nil { // else nobody knows
			state.Waiting = usage.Waiting
		}
		for _, st := range list {
			u, err := upstream.Parse(st.URL)
			if err != nil {
				continue // nobody could lease it
			}
			row := showUpstream(p, u, st)
			state.count(row.State)
			if page.holds(row.texts()...) {
				rows = append(rows, row)
			}
		}
		all.Pools, all.States = append(all.Pools, p.Name()), append(all.States, state)
	}
	place := func(u Upstream) string { return u.Pool + "\x00" + u.URL + "\x00" + u.ID }
	slices.SortFunc(rows, func(a, b Upstream) int { return cmp.Compare(place(a), place(b)) })
	all.Total = len(rows)
	all.Upstreams, all.Next = cut(rows, page, place)
	writeJSON(w, http.StatusOK, "application/json", all)
}

// texts are those that a search looks at.
func (u *Upstream) texts() []string {
	texts := []string{u.Pool, u.URL, u.ID, u.State, u.Reason}
	for _, l := range u.Leases {
		texts = append(texts, l.Owner)
	}
	return texts
}

func showUpstream(p *upstream.Pool, u upstream.Upstream, st upstream.Status) Upstream {
	shown := Upstream{
		Pool: p.Name(), ID: u.ID(), URL: u.String(), Source: string(st.Source), State: "free", Capacity: st.Capacity,
		Leases: []Lease{}, Failures: st.Failures, Reason: string(st.Reason),
	}
	for _, l := range st.Leases {
		shown.Leases = append(shown.Leases, Lease{l.Owner, l.Since.UTC()})
	}
	switch {
	case st.Rests > 0:
		shown.State, shown.Rests = "resting", time.Now().Add(st.Rests).UTC()
	case len(st.Leases) > 0:
		shown.State = "leased"
	case st.Foreign:
		shown.State = "taken"
	}
	return shown
}

// AddUpstream is the body of POST /api/v1/upstreams/{pool}.
type AddUpstream struct {
	URL      string `json:"url"`
	Username string `json:"username,omitempty"`
	Password string `json:"password,omitempty"`
}

// addUpstream is POST /api/v1/upstreams/{pool}.
func (s *server) addUpstream(w http.ResponseWriter, r *http.Request) {
	p, ok := s.pool(w, r.PathValue("pool"))
	if !ok {
		return
	}
	var body AddUpstream
	if ref := readJSON(w, r, &body, `{"url": "http://10.0.0.1:3128", "username": "user", "password": "password"}`); ref != nil {
		ref.write(w)
		return
	}
	u, err := upstream.Parse(body.URL)
	if err == nil && body.Username != "" {
		u, err = u.WithCredentials(body.Username, body.Password)
	}
	if err != nil {
		problem{http.StatusUnprocessableEntity, "url", sentence(err)}.write(w)
		return
	}
	callOf(r.Context()).target = p.Name() + "/" + u.ID()
	if err := p.Add(r.Context(), u); err != nil {
		s.ledgerFailed(r.Context(), w, err)
		return
	}
	s.log.InfoContext(r.Context(), "upstream added", "by", name(r.Context()), "pool", p.Name(), "upstream", u, "id", u.ID())
	s.showOne(w, r, p, u)
}

// sentence is an error as a client reads it.
func sentence(err error) string {
	text := err.Error()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

func (s *server) showOne(w http.ResponseWriter, r *http.Request, p *upstream.Pool, u upstream.Upstream) {
	list, err := p.List(r.Context())
	if err != nil {
		s.ledgerFailed(r.Context(), w, err)
		return
	}
	for _, st := range list {
		if st.URL == u.URL() {
			writeJSON(w, http.StatusOK, "application/json", showUpstream(p, u, st))
			return
		}
	}
	problem{http.StatusConflict, "gone", "The upstream was removed in the same moment."}.write(w)
}

// removeUpstream is DELETE /api/v1/upstreams/{pool}/{upstream}. Requests under
// way finish.
func (s *server) removeUpstream(w http.ResponseWriter, r *http.Request) {
	p, u, st, ok := s.upstream(w, r)
	if !ok {
		return
	}
	if _, err := p.Remove(r.Context(), u); err != nil {
		s.ledgerFailed(r.Context(), w, err)
		return
	}
	s.log.InfoContext(r.Context(), "upstream removed", "by", name(r.Context()), "pool", p.Name(), "upstream", u, "id", u.ID())
	writeJSON(w, http.StatusOK, "application/json", showUpstream(p, u, st))
}

// Checked is the answer to a check.
type Checked struct {
	Pool   string `json:"pool"`
	ID     string `json:"id"`
	URL    string `json:"url"`
	Result string `json:"result"`           // ok, failed, in_use: not checked
	Status int    `json:"status,omitempty"` // that the pool's check answered
	Millis int64  `json:"millis"`           // that it took
	Error  string `json:"error,omitempty"`
}

// checkUpstream is POST /api/v1/upstreams/{pool}/{upstream}/check.
func (s *server) checkUpstream(w http.ResponseWriter, r *http.Request) {
	p, u, st, ok := s.upstream(w, r)
	if !ok {
		return
	}
	c, err := p.Check(r.Context(), st)
	if err != nil {
		s.ledgerFailed(r.Context(), w, err)
		return
	}
	shown := Checked{Pool: p.Name(), ID: u.ID(), URL: u.String(), Result: "ok", Status: c.Status, Millis: c.Took.Milliseconds()}
	switch {
	case c.InUse:
		shown.Result = "in_use"
	case c.Err != nil:
		shown.Result, shown.Error = "failed", c.Err.Error()
	}
	writeJSON(w, http.StatusOK, "application/json", shown)
}

// ReleaseLeases is the body of POST /api/v1/upstreams/{pool}/release: one of
// the two.
type ReleaseLeases struct {
	Owner    string `json:"owner,omitempty"`
	Upstream string `json:"upstream,omitempty"`
}

// Released is its answer.
type Released struct {
	Pool   string  `json:"pool"`
	Leases []Lease `json:"leases"` // that end once their requests have
}

// releaseLeases is POST /api/v1/upstreams/{pool}/release.
func (s *server) releaseLeases(w http.ResponseWriter, r *http.Request) {
	p, ok := s.pool(w, r.PathValue("pool"))
	if !ok {
		return
	}
	var body ReleaseLeases
	if ref := readJSON(w, r, &body, `{"owner": "worker:crawler/10.0.0.7"}`); ref != nil {
		ref.write(w)
		return
	}
	if (body.Owner == "") == (body.Upstream == "") {
		problem{http.StatusUnprocessableEntity, "body", "Say in owner or in upstream which leases are to end."}.write(w)
		return
	}
	list, err := p.List(r.Context())
	if err != nil {
		s.ledgerFailed(r.Context(), w, err)
		return
	}
	released := Released{Pool: p.Name(), Leases: []Lease{}}
	for _, st := range list {
		u, err := upstream.Parse(st.URL)
		if err != nil || body.Upstream != "" && !u.Means(body.Upstream) {
			continue
		}
		for _, l := range st.Leases {
			if body.Owner != "" && l.Owner != body.Owner {
				continue
			}
			if err := p.End(r.Context(), l.Token); err != nil {
				s.ledgerFailed(r.Context(), w, err)
				return
			}
			released.Leases = append(released.Leases, Lease{l.Owner, l.Since.UTC()})
		}
	}
	if len(released.Leases) == 0 {
		problem{http.StatusNotFound, "unknown_lease", fmt.Sprintf("The pool %s has no lease of that kind.", p.Name())}.write(w)
		return
	}
	callOf(r.Context()).target = p.Name()
	s.log.InfoContext(r.Context(), "leases released", "by", name(r.Context()), "pool", p.Name(), "count", len(released.Leases))
	writeJSON(w, http.StatusOK, "application/json", released)
}

// pool finds a pool by its name. Where it returns false it has answered.
func (s *server) pool(w http.ResponseWriter, name string) (*upstream.Pool, bool) {
	if p := s.upstreams.Pool(name); p != nil {
		return p, true
	}
	var names []string
	for _, p := range s.upstreams.All() {
		names = append(names, strconv.Quote(p.Name()))
	}
	problem{http.StatusNotFound, "unknown_pool", fmt.Sprintf("No pool has the name %q. Declared: %s.", name, cmp.Or(strings.Join(names, ", "), "none"))}.write(w)
	return nil, false
}

// upstream finds what {pool} and {upstream} of a path name. Where it returns
// false it has answered.
func (s *server) upstream(w http.ResponseWriter, r *http.Request) (p *upstream.Pool, u upstream.Upstream, st upstream.Status, ok bool) {
	if p, ok = s.pool(w, r.PathValue("pool")); !ok {
		return
	}
	list, err := p.List(r.Context())
	if err != nil {
		s.ledgerFailed(r.Context(), w, err)
		return p, u, st, false
	}
	found := 0
	for _, one := range list {
		if parsed, err := upstream.Parse(one.URL); err == nil && parsed.Means(r.PathValue("upstream")) {
			u, st = parsed, one
			found++
		}
	}
	switch found {
	case 1:
		callOf(r.Context()).target = p.Name() + "/" + u.ID()
		return p, u, st, true
	case 0:
		problem{http.StatusNotFound, "unknown_upstream", fmt.Sprintf("The pool %s has no such upstream. Name it by its address or its ID.", p.Name())}.write(w)
	default:
		problem{http.StatusConflict, "ambiguous", fmt.Sprintf("%d upstreams of the pool %s have that address. Name one by its ID.", found, p.Name())}.write(w)
	}
	return p, u, st, false
}

// ledgerFailed answers for the ledger.
func (s *server) ledgerFailed(ctx context.Context, w http.ResponseWriter, err error) {
	if ctx.Err() == nil {
		s.log.ErrorContext(ctx, "upstreams: the ledger does not answer", "err", err)
	}
	problem{http.StatusServiceUnavailable, "store_unavailable", "Who holds which upstream is not known: the store does not answer. Try again; the proxy's log has the cause."}.write(w)
}
