package session

import (
	"time"
)

// Setting is the request whose response carries a Set-Cookie line.
type Setting struct {
	Host   string // canonical, as verified
	Path   string // of the request, as sent: decides the default path
	Secure bool   // the response came over TLS
	// CrossSite: a foreign page made the request (see [WhoseRequest]);
	// a Partitioned cookie is refused then.
	CrossSite bool
}

// ParseSetCookie reads one Set-Cookie line by RFC 6265bis sections 5.6 and
// 5.7, as far as the jar is not needed for it. A refused line comes back with
// the reason; the line itself appears in no error.
func ParseSetCookie(line string, s Setting, now time.Time) (Cookie, error) { panic("not built") }

// Refusal is the reason why a Set-Cookie line is not stored. It is the value of
// the metric's label, so there are few.
type Refusal string

// Error returns the reason.
func (r Refusal) Error() string { return "cookie refused: " + string(r) }
