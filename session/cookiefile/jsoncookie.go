package cookiefile

import (
	"encoding/json"
	"errors"
	"net/url"
	"strings"
	"time"

	"github.com/sessionproxy/sessionproxy/session"
)

// jsonCookie is a cookie as any of the JSON formats has it. They agree on most
// names, and where they do not no name means two things.
type jsonCookie struct {
	Name     *string `json:"name"`
	Value    string  `json:"value"` // some tools leave out an empty one
	URL      string  `json:"url"`   // in hand-written files, in the place of domain and path
	Domain   string  `json:"domain"`
	HostOnly *bool   `json:"hostOnly"` // editor; in other formats a domain without a dot says it
	Path     string  `json:"path"`
	Secure   bool    `json:"secure"`
	HTTPOnly bool    `json:"httpOnly"`
	SameSite string  `json:"sameSite"`
	Priority string  `json:"priority"` // puppeteer, cdp

	Session        bool    `json:"session"`        // whatever the end of life says
	Expires        *moment `json:"expires"`        // playwright, puppeteer, cdp
	ExpirationDate *moment `json:"expirationDate"` // editor
	Expiry         *moment `json:"expiry"`         // selenium

	Partition         partition `json:"partitionKey"`
	CrossSiteAncestor bool      `json:"_crHasCrossSiteAncestor"` // playwright, beside a partitionKey of text

	// By these puppeteer and cdp are known.
	Size       *float64 `json:"size"`
	SourceType *string  `json:"sourceScheme"`
}

// format is whose cookie this looks like.
func (v *jsonCookie) format() Format {
	switch {
	case v.HostOnly != nil, v.ExpirationDate != nil:
		return Editor
	case v.Expiry != nil:
		return Selenium
	case v.Expires == nil:
		return Selenium // its session cookies have no end at all
	case v.Size != nil, v.SourceType != nil, v.Partition.puppeteer:
		return Puppeteer
	}
	return CDP
}

// cookie makes a cookie of it. own is false for one in a partition other than
// its own site's: it is the cookie of a frame in a foreign page.
func (v *jsonCookie) cookie() (c session.Cookie, own bool, err error) {
	if v.Name == nil {
		return c, false, errors.New("the cookie has no name")
	}
	c = session.Cookie{
		Name: *v.Name, Value: v.Value, Path: v.Path,
		Secure: v.Secure, HTTPOnly: v.HTTPOnly, SameSite: sameSiteOf(v.SameSite), Priority: priorityOf(v.Priority),
	}
	// Firefox's tools say None where a site says nothing.
	if c.SameSite == session.SameSiteNone && !c.Secure {
		c.SameSite = session.SameSiteDefault
	}
	switch {
	case v.Domain != "":
		setDomain(&c, v.Domain, v.HostOnly != nil && !*v.HostOnly)
		c.HostOnly = c.HostOnly || v.HostOnly != nil && *v.HostOnly
	case v.URL != "":
		u, err := url.Parse(v.URL)
		if err != nil || u.Host == "" {
			return c, false, errors.New("the cookie's url is not one in full, such as https://shop.example.com/")
		}
		setDomain(&c, u.Hostname(), false)
	default:
		return c, false, errors.New("the cookie has neither a domain nor a url")
	}
	if !v.Session {
		for _, end := range []*moment{v.Expires, v.ExpirationDate, v.Expiry} {
			if end != nil {
				c.Expires = time.Time(*end)
			}
		}
	}
	if v.Partition.site != "" {
		c.Partitioned = true
		own = v.Partition.site == siteOf(c.Domain) && !v.Partition.crossSiteAncestor && !v.CrossSiteAncestor
		return c, own, nil
	}
	return c, true, nil
}

// sameSiteOf reads all spellings: those of browsers' drivers, and those of
// extensions.
func sameSiteOf(s string) session.SameSite {
	switch strings.ToLower(s) {
	case "none", "no_restriction":
		return session.SameSiteNone
	case "lax":
		return session.SameSiteLax
	case "strict":
		return session.SameSiteStrict
	}
	return session.SameSiteDefault
}

// moment is an end of life: seconds since 1970, as in cookies.txt, or a time in
// ISO 8601 (HAR). The zero time is a session cookie's.
type moment time.Time

// UnmarshalJSON reads a number or a text.
func (m *moment) UnmarshalJSON(b []byte) error {
	var s string
	if json.Unmarshal(b, &s) != nil {
		s = string(b)
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		*m = moment(t.UTC())
		return nil
	}
	t, ok := parseSeconds(s)
	if !ok {
		return errors.New("the cookie's end of life is neither a number of seconds since 1970 nor a time such as 2030-01-31T12:00:00Z")
	}
	*m = moment(t)
	return nil
}

// partition is a partitionKey in its three forms: a text (Playwright, Puppeteer's
// page.cookies()), {"sourceOrigin": …} (Puppeteer), {"topLevelSite": …} (the
// protocol, extensions).
type partition struct {
	site              string // "" none
	crossSiteAncestor bool
	puppeteer         bool
}

// UnmarshalJSON reads any of them.
func (p *partition) UnmarshalJSON(b []byte) error {
	if json.Unmarshal(b, &p.site) == nil {
		return nil
	}
	var v struct {
		TopLevelSite         string `json:"topLevelSite"`
		SourceOrigin         string `json:"sourceOrigin"`
		HasCrossSiteAncestor bool   `json:"hasCrossSiteAncestor"`
	}
	if json.Unmarshal(b, &v) != nil {
		return errors.New("the cookie's partitionKey has an unknown form")
	}
	*p = partition{v.TopLevelSite + v.SourceOrigin, v.HasCrossSiteAncestor, v.SourceOrigin != ""}
	return nil
}
