package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/session"
	"github.com/sessionproxy/sessionproxy/session/cookiefile"
)

// Limits of an import: far more than a session can hold.
const (
	maxImport   = 32 << 20 // bytes
	maxImported = 100_000  // cookies
)

// ImportCookies is the body of POST /api/v1/sessions/{site}/{session}/cookies/import.
type ImportCookies struct {
	Cookies []CookieValue `json:"cookies,omitempty"`
	File    string        `json:"file,omitempty"` // in their place: the text of a file of cookies, whose format is found out
	Replace bool          `json:"replace"`        // they are all that the session holds then
	DryRun  bool          `json:"dry_run"`        // say what would become of them, and change nothing
}

// CookiesImported is the answer. Where no cookie is taken, nothing changed.
type CookiesImported struct {
	Site    string           `json:"site"`
	Session string           `json:"session"`
	DryRun  bool             `json:"dry_run"`
	Replace bool             `json:"replace"`
	Taken   int              `json:"taken"` // set, or there already
	Refused int              `json:"refused"`
	Cookies []ImportedCookie `json:"cookies"`           // in the order of the import
	Removed []Cookie         `json:"removed"`           // that the session held: replaced, or pushed out by its limits
	Remarks []string         `json:"remarks,omitempty"` // on what a file holds beside cookies
}

// ImportedCookie is what became of a cookie.
type ImportedCookie struct {
	Name   string `json:"name"`
	Domain string `json:"domain"`
	Path   string `json:"path"`
	Result Result `json:"result"`
	Code   string `json:"code"`   // of a refusal: expired, foreign_host, private_name, not_shared, repeated, too_many, cookie_REFUSAL
	Reason string `json:"reason"` // of a refusal, in words
}

// Result is what became of a cookie that was imported.
type Result string

// The results.
const (
	Set       Result = "set"
	Unchanged Result = "unchanged"
	Refused   Result = "refused"
)

// importCookies is POST /api/v1/sessions/{site}/{session}/cookies/import.
func (s *server) importCookies(w http.ResponseWriter, r *http.Request) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	var body ImportCookies
	if p := readLongJSON(w, r, &body, `{"cookies": [{"name": "sid", "value": "1", "domain": "shop.example.com", "path": "/"}]}`, maxImport); p != nil {
		p.write(w)
		return
	}
	var remarks []string
	if body.File != "" {
		var p *problem
		if remarks, p = body.read(); p != nil {
			p.write(w)
			return
		}
	}
	if len(body.Cookies) > maxImported {
		problem{http.StatusRequestEntityTooLarge, "too_many", fmt.Sprintf("An import is of %d cookies at most; a session holds 3000.", maxImported)}.write(w)
		return
	}
	imported, err := Import(r.Context(), s.store, s.sites(), site, key.ID, body)
	if err != nil {
		s.storeFailed(r.Context(), w, err)
		return
	}
	imported.Remarks = remarks
	if !body.DryRun {
		s.changed(r.Context(), "cookies imported", site.Name, key, "taken", imported.Taken, "refused", imported.Refused, "removed", len(imported.Removed))
	}
	writeJSON(w, http.StatusOK, "application/json", imported)
}

// read takes the cookies out of the file.
func (b *ImportCookies) read() (remarks []string, p *problem) {
	if len(b.Cookies) > 0 {
		return nil, &problem{http.StatusUnprocessableEntity, "body", "Send cookies or a file, not both."}
	}
	file, err := cookiefile.Read(strings.NewReader(b.File), "")
	switch {
	case err != nil:
		return nil, &problem{http.StatusUnprocessableEntity, "file", "This is no file of cookies: at " + err.Error() + "."}
	case len(file.Cookies) == 0:
		return nil, &problem{http.StatusUnprocessableEntity, "file", strings.Join(append([]string{"The file holds no cookies."}, file.Remarks...), " ")}
	}
	for i := range file.Cookies {
		b.Cookies = append(b.Cookies, ValueOf(&file.Cookies[i]))
	}
	return file.Remarks, nil
}

// Import takes cookies into the session id of a site, all at once, as far as
// the site's rules and the limits of a session allow. Its error is the store's.
func Import(ctx context.Context, store session.Store, sites []config.Site, site config.Site, id string, body ImportCookies) (CookiesImported, error) {
	in := &intake{sites: sites, site: site, now: store.Now()}
	in.policy = session.NewPolicy(site.Cookies.Share, site.Cookies.Private, false)
	answer := CookiesImported{Site: site.Name, Session: id, DryRun: body.DryRun, Replace: body.Replace, Removed: []Cookie{}}
	u := session.Update{Base: session.Latest, Writer: session.ByImport, Replace: body.Replace}
	taken := in.judge(body.Cookies)
	for _, i := range taken {
		u.Cookies = append(u.Cookies, in.cookies[i])
	}
	answer.Cookies = in.results
	if len(taken) > 0 {
		key := session.Key{Site: site.Key, ID: id}
		before, err := load(ctx, store, key)
		if err != nil {
			return answer, err
		}
		var after *session.Jar
		var outcomes []session.Outcome
		if body.DryRun {
			after, outcomes = before.Apply(u, in.now.UnixMicro())
		} else if after, outcomes, err = store.Apply(ctx, key, u, session.Life{Idle: site.Cookies.TTL, Max: site.Cookies.MaxAge}); err != nil {
			return answer, err
		}
		for n, o := range outcomes {
			in.note(taken[n], o)
		}
		answer.Removed = removed(before, after, in.now)
	}
	for _, c := range answer.Cookies {
		if c.Result == Refused {
			answer.Refused++
		} else {
			answer.Taken++
		}
	}
	return answer, nil
}

// intake judges the cookies of an import.
type intake struct {
	sites   []config.Site
	site    config.Site
	policy  *session.Policy
	now     time.Time
	cookies []session.Cookie
	results []ImportedCookie
}

// judge fills cookies and results, and returns which of them are to be set.
func (in *intake) judge(values []CookieValue) (taken []int) {
	last := make(map[session.Identity]int, len(values))
	for i := range values {
		c := values[i].Cookie()
		if host, ok := session.CanonicalHost(c.Domain); ok {
			c.Domain = host
		}
		in.cookies = append(in.cookies, c)
		in.results = append(in.results, ImportedCookie{Name: c.Name, Domain: c.Domain, Path: c.Path, Result: Set})
		code, reason := in.refusal(&c)
		if code != "" {
			in.refuse(i, code, reason)
			continue
		}
		if earlier, ok := last[c.Identity()]; ok {
			in.refuse(earlier, "repeated", "it comes again further down, and the last one counts")
		}
		last[c.Identity()] = i
	}
	var candidates []session.Cookie
	for i := range in.results {
		if in.results[i].Result == Set {
			taken = append(taken, i)
			candidates = append(candidates, in.cookies[i])
		}
	}
	fitting := taken[:0]
	for n, fits := range session.Fit(candidates) {
		if fits {
			fitting = append(fitting, taken[n])
		} else {
			in.note(taken[n], session.Evicted)
		}
	}
	return fitting
}

// refusal says why the session takes no such cookie; "" where it does.
func (in *intake) refusal(c *session.Cookie) (code, reason string) {
	refused, _ := errors.AsType[session.Refusal](c.Check())
	switch {
	case c.Expired(in.now):
		return "expired", "its life was over at " + c.Expires.UTC().Format(time.RFC3339)
	case refused == session.RefusedDomain:
		return "cookie_domain", "its domain is no host, or one that everybody may register under"
	case !config.Receives(in.sites, in.site.Name, c.Domain, c.HostOnly):
		return "foreign_host", "its domain reaches no host of the site"
	case in.policy.Private(c.Name):
		return "private_name", "a cookie of this name belongs to one worker, and is not shared with the session"
	case !in.policy.Shared(c.Name):
		return "not_shared", "the site's cookies.share leaves out this name"
	case refused != "":
		return "cookie_" + string(refused), refusals[refused]
	}
	return "", ""
}

func (in *intake) refuse(i int, code, reason string) {
	in.results[i].Result, in.results[i].Code, in.results[i].Reason = Refused, code, reason
}

// note notes what became of a cookie that was to be set.
func (in *intake) note(i int, o session.Outcome) {
	switch o {
	case session.Changed:
	case session.Unchanged:
		in.results[i].Result = Unchanged
	case session.Evicted:
		in.refuse(i, "too_many", "later ones, or Secure ones, took its place: a session holds 180 cookies of a domain, and 3000 in all")
	default: // none is left: an import is late for nothing, and was checked
		in.refuse(i, "refused", "the session does not take it")
	}
}

// removed are the live cookies of before that after has not.
func removed(before, after *session.Jar, now time.Time) []Cookie {
	held := make(map[session.Identity]bool)
	for i := range after.Cookies() {
		held[after.Cookies()[i].Identity()] = true
	}
	gone := []Cookie{}
	for _, c := range unexpired(before, now) {
		if !held[c.Identity()] {
			gone = append(gone, showCookie(&c))
		}
	}
	return gone
}

// CookiesExported is the answer to POST /api/v1/sessions/{site}/{session}/cookies/export.
type CookiesExported struct {
	Site    string        `json:"site"`
	Session string        `json:"session"`
	Cookies []CookieValue `json:"cookies"`           // in the order of a Cookie header, without expired ones
	File    string        `json:"file,omitempty"`    // they, in the format that was asked for
	Remarks []string      `json:"remarks,omitempty"` // on what that can't hold
}

// exportCookies is POST /api/v1/sessions/{site}/{session}/cookies/export
// [?format=FORMAT]: it reveals the values, and so is a POST, and logged.
func (s *server) exportCookies(w http.ResponseWriter, r *http.Request) {
	site, key, ok := s.session(w, r)
	if !ok {
		return
	}
	format := cookiefile.Format(r.URL.Query().Get("format"))
	if format != "" && (format == cookiefile.HAR || !slices.Contains(cookiefile.Formats(), format)) {
		problem{http.StatusUnprocessableEntity, "format", fmt.Sprintf("Cookies are written as %v, and not as har.", cookiefile.Formats())}.write(w)
		return
	}
	exported, err := Export(r.Context(), s.store, site, key.ID)
	switch {
	case err != nil:
		s.storeFailed(r.Context(), w, err)
		return
	case len(exported.Cookies) == 0:
		problem{http.StatusNotFound, "unknown_session", noCookies(site.Name, key.ID)}.write(w)
		return
	}
	if format != "" {
		var text strings.Builder
		var cookies []session.Cookie
		for i := range exported.Cookies {
			cookies = append(cookies, exported.Cookies[i].Cookie())
		}
		exported.Remarks, _ = cookiefile.Write(&text, format, cookies) // a builder takes all
		exported.File = text.String()
	}
	s.changed(r.Context(), "cookies revealed", site.Name, key, "count", len(exported.Cookies))
	writeJSON(w, http.StatusOK, "application/json", exported)
}

// Export shows the live cookies of the session id of a site. Its error is the
// store's.
func Export(ctx context.Context, store session.Store, site config.Site, id string) (CookiesExported, error) {
	jar, err := load(ctx, store, session.Key{Site: site.Key, ID: id})
	if err != nil {
		return CookiesExported{}, err
	}
	exported := CookiesExported{Site: site.Name, Session: id, Cookies: []CookieValue{}}
	for _, c := range unexpired(jar, store.Now()) {
		exported.Cookies = append(exported.Cookies, ValueOf(&c))
	}
	return exported, nil
}

// noCookies is the sentence on a session that holds none.
func noCookies(site, id string) string {
	return fmt.Sprintf("The site %q has no session %q that holds cookies.", site, id)
}
