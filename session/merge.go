package session

import (
	"time"
)

// Request is what decides which cookies a request may carry.
type Request struct {
	Host   string // canonical, as TLS verified it
	Path   string // as sent, without the query
	Secure bool   // over TLS
	Whose  Whose
	// Logout: the request ends the login; it leaves without any shared
	// cookie, the client's own copies cut too.
	Logout bool
	Now    time.Time
}

// Merged is the Cookie header of one request, and how it came about.
type Merged struct {
	Header   string // "" for none
	Injected int    // cookies of the jars in it
	Withheld int    // matching cookies of the jars left out by SameSite or the 8 KB bound
}

// MaxHeader bounds the Cookie header: origins refuse more.
const MaxHeader = 8 << 10

// Merge writes a request's Cookie header from the client's own lines and the
// jars, in RFC order. Names that no jar has pass byte for byte; every copy of
// a name that a jar has is replaced (or, where ClientWins, kept). shared and
// private may be nil. Lines are joined with "; ", since HTTP/2 sends crumbs.
func Merge(client []string, r Request, shared, private *Jar, p *Policy) Merged { panic("not built") }
