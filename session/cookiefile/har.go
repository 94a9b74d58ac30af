package cookiefile

import (
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// harEntry is one exchange of a HAR.
type harEntry struct {
	Started string `json:"startedDateTime"`
	Request struct {
		URL     string      `json:"url"`
		Headers []harHeader `json:"headers"`
		Cookies []harCookie `json:"cookies"`
	} `json:"request"`
	Response struct {
		Headers []harHeader `json:"headers"`
		Cookies []harCookie `json:"cookies"`
	} `json:"response"`
}

type harHeader struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// harCookie is a cookie as HAR has it: only name and value are sure to be there.
type harCookie struct {
	Name     string `json:"name"`
	Value    string `json:"value"`
	Path     string `json:"path"`
	Domain   string `json:"domain"`
	Expires  any    `json:"expires"` // ISO 8601; some browsers have other words for the end of the session
	HTTPOnly bool   `json:"httpOnly"`
	Secure   bool   `json:"secure"`
	SameSite string `json:"sameSite"`
}

// archive gathers what a browser held after the exchanges of a HAR. A
// Set-Cookie line says all of a cookie; the lists that browsers add may lack
// attributes, and say the more about requests than about what was set. So lines
// come first, then the responses' lists, then what requests sent that nobody
// set on the way.
type archive struct {
	held  map[session.Identity]session.Cookie
	order []session.Identity
	named map[string][]session.Identity // of order, by name
	known map[sentName]bool             // set, or seen before

	guessed map[session.Identity]bool // known by name and value alone, from requests
	refused losses
}

// sentName is a cookie as a request tells of it.
type sentName struct{ host, name string }

func newArchive() *archive {
	return &archive{
		held: map[session.Identity]session.Cookie{}, named: map[string][]session.Identity{},
		known: map[sentName]bool{}, guessed: map[session.Identity]bool{},
	}
}

func (a *archive) add(e *harEntry) {
	u, err := url.Parse(e.Request.URL)
	if err != nil {
		return // no cookie can be told to be anybody's
	}
	host, ok := session.CanonicalHost(u.Hostname())
	if !ok {
		return // data:, about:, chrome-extension:
	}
	path := u.EscapedPath()
	at := session.Setting{Host: host, Path: path, Secure: u.Scheme == "https" || u.Scheme == "wss"}
	for _, h := range e.Request.Headers {
		at.CrossSite = at.CrossSite || strings.EqualFold(h.Name, "Sec-Fetch-Site") && h.Value == "cross-site"
	}
	a.sent(e, at)

	now, err := time.Parse(time.RFC3339, e.Started)
	if err != nil {
		now = time.Now()
	}
	lines := false
	for _, h := range e.Response.Headers {
		if !strings.EqualFold(h.Name, "Set-Cookie") {
			continue
		}
		lines = true
		for line := range strings.SplitSeq(h.Value, "\n") { // Chromium joins them so
			c, err := session.ParseSetCookie(line, at, now)
			if err != nil {
				name, _, _ := strings.Cut(line, "=")
				a.refused.add("Left out, since no browser takes such a Set-Cookie line", strings.Trim(name, " \t"))
				continue
			}
			a.set(c, at, now)
		}
	}
	if lines {
		return
	}
	for i := range e.Response.Cookies {
		a.set(e.Response.Cookies[i].cookie(at), at, now)
	}
}

// sent takes what the request sent.
func (a *archive) sent(e *harEntry, at session.Setting) {
	cookies := e.Request.Cookies
	if len(cookies) == 0 {
		for _, h := range e.Request.Headers {
			if strings.EqualFold(h.Name, "Cookie") {
				cookies = append(cookies, pairs(h.Value)...)
			}
		}
	}
	for i := range cookies {
		if key := (sentName{at.Host, cookies[i].Name}); !a.known[key] {
			a.known[key] = true
			c := cookies[i].cookie(at)
			if _, held := a.held[c.Identity()]; !held && !a.reaches(c.Name, at) {
				a.put(c)
				a.guessed[c.Identity()] = cookies[i].Domain == ""
			}
		}
	}
}

// reaches says whether a cookie of that name is held which a request to at
// carries.
func (a *archive) reaches(name string, at session.Setting) bool {
	return slices.ContainsFunc(a.named[name], func(id session.Identity) bool {
		_, held := a.held[id]
		return held && (id.Domain == at.Host || !id.HostOnly && strings.HasSuffix(at.Host, "."+id.Domain))
	})
}

func (a *archive) set(c session.Cookie, at session.Setting, now time.Time) {
	a.known[sentName{at.Host, c.Name}] = true
	for _, id := range a.named[c.Name] {
		// What was guessed to be of this host alone is this cookie.
		if a.guessed[id] && (id.Domain == at.Host || !c.HostOnly && strings.HasSuffix(id.Domain, "."+c.Domain)) {
			delete(a.held, id)
		}
	}
	delete(a.guessed, c.Identity())
	if c.Expired(now) {
		delete(a.held, c.Identity())
		return
	}
	a.put(c)
}

func (a *archive) put(c session.Cookie) {
	id := c.Identity()
	if _, held := a.held[id]; !held {
		a.order = append(a.order, id)
		a.named[id.Name] = append(a.named[id.Name], id)
	}
	a.held[id] = c
}

func (a *archive) cookies() []session.Cookie {
	cookies := make([]session.Cookie, 0, len(a.held))
	for _, id := range slices.Backward(a.order) { // one that was deleted and set anew is there twice
		if c, held := a.held[id]; held {
			cookies = append(cookies, c)
			delete(a.held, id)
		}
	}
	slices.Reverse(cookies)
	return cookies
}

// cookie makes a cookie of an entry of a list, which stands with an exchange.
func (v *harCookie) cookie(at session.Setting) session.Cookie {
	c := session.Cookie{
		Name: v.Name, Value: v.Value, Path: v.Path,
		Secure: v.Secure, HTTPOnly: v.HTTPOnly, SameSite: sameSiteOf(v.SameSite),
	}
	if c.SameSite == session.SameSiteNone && !c.Secure {
		c.SameSite = session.SameSiteDefault
	}
	if v.Domain == "" {
		setDomain(&c, at.Host, false)
		c.Secure = c.Secure || at.Secure // else it would go where it was not seen to go
	} else {
		setDomain(&c, v.Domain, false)
	}
	if text, ok := v.Expires.(string); ok {
		if t, err := time.Parse(time.RFC3339, text); err == nil {
			c.Expires = t.UTC()
		}
	}
	return c
}

// pairs reads a Cookie header, its bytes as they are.
func pairs(header string) []harCookie {
	var cookies []harCookie
	for pair := range strings.SplitSeq(header, ";") {
		name, value, named := strings.Cut(pair, "=")
		if !named {
			name, value = "", pair
		}
		c := harCookie{Name: strings.Trim(name, " \t"), Value: strings.Trim(value, " \t")}
		if c.Name != "" || c.Value != "" {
			cookies = append(cookies, c)
		}
	}
	return cookies
}
