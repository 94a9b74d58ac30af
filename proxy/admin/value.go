package admin

import (
	"encoding/json"
	"errors"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/sessionproxy/sessionproxy/session"
)

// CookieValue is a cookie with its value: what an export shows and an import
// takes.
type CookieValue struct {
	Name        Bytes     `json:"name"`
	Value       Bytes     `json:"value"`
	Domain      string    `json:"domain"`
	HostOnly    bool      `json:"host_only"`
	Path        Bytes     `json:"path"`
	Secure      bool      `json:"secure"`
	HTTPOnly    bool      `json:"http_only"`
	SameSite    SameSite  `json:"same_site"` // as in Cookie
	Partitioned bool      `json:"partitioned"`
	Priority    string    `json:"priority"`
	Expires     time.Time `json:"expires,omitzero"` // absent: a session cookie
}

// ValueOf is c as the API has it.
func ValueOf(c *session.Cookie) CookieValue {
	return CookieValue{
		Name: Bytes(c.Name), Value: Bytes(c.Value), Domain: c.Domain, HostOnly: c.HostOnly, Path: Bytes(c.Path),
		Secure: c.Secure, HTTPOnly: c.HTTPOnly, SameSite: SameSite(c.SameSite), Partitioned: c.Partitioned,
		Priority: c.Priority, Expires: c.Expires,
	}
}

// Cookie is v as a session has it.
func (v *CookieValue) Cookie() session.Cookie {
	return session.Cookie{
		Name: string(v.Name), Value: string(v.Value), Domain: v.Domain, HostOnly: v.HostOnly, Path: string(v.Path),
		Secure: v.Secure, HTTPOnly: v.HTTPOnly, SameSite: session.SameSite(v.SameSite), Partitioned: v.Partitioned,
		Priority: v.Priority, Expires: v.Expires,
	}
}

// SameSite is a session.SameSite in words.
type SameSite session.SameSite

// MarshalText returns the word.
func (s SameSite) MarshalText() ([]byte, error) { return []byte(sameSites[s]), nil }

// UnmarshalText reads the word.
func (s *SameSite) UnmarshalText(b []byte) error {
	i := slices.Index(sameSites[:], string(b))
	if i < 0 {
		return errors.New("same_site is none, lax, strict or empty")
	}
	*s = SameSite(i)
	return nil
}

// Bytes are what a site sent, and no text for certain: JSON has them as a
// string where they are UTF-8, else as {"base64": "…"}.
type Bytes string

type encoded struct {
	Base64 []byte `json:"base64"`
}

// MarshalJSON writes them.
func (b Bytes) MarshalJSON() ([]byte, error) {
	if utf8.ValidString(string(b)) {
		return json.Marshal(string(b))
	}
	return json.Marshal(encoded{[]byte(b)})
}

// UnmarshalJSON reads either form.
func (b *Bytes) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, (*string)(b)) == nil {
		return nil
	}
	var e encoded
	if json.Unmarshal(text, &e) != nil {
		return errors.New(`bytes are a string, or {"base64": "…"}`)
	}
	*b = Bytes(e.Base64)
	return nil
}
