package session

import (
	"hash/fnv"
	"io"
	"slices"
	"time"
)

// SameSite is the SameSite attribute as RFC 6265bis section 5.6.7 reads it.
type SameSite uint8

// The values of SameSite. A missing or unknown attribute is SameSiteDefault,
// which a browser treats as Lax.
const (
	SameSiteDefault SameSite = iota
	SameSiteNone
	SameSiteLax
	SameSiteStrict
)

// Writer says who gave a cookie its present value. A late reply may replace
// what another reply set, never what any other writer set.
type Writer uint8

// The writers of cookies.
const (
	ByReply    Writer = iota // a site's response to some request
	ByLogin                  // the response to a login request
	ByRecipe                 // the proxy's own login
	ByImport                 // cookies import
	ByOperator               // cookies set and rm
	ByWorker                 // a worker that writes the shared Redis hash itself
)

func (w Writer) String() string {
	return [...]string{"reply", "login", "recipe", "import", "operator", "worker"}[w]
}

// Cookie is one stored cookie: RFC 6265bis section 5.7. Name and Value are the
// bytes that were received, neither decoded nor quoted anew. A Cookie inside a
// Jar is never changed.
type Cookie struct {
	Name, Value string

	Domain   string // canonical host (see [CanonicalHost]): the Domain attribute, or the host that set it
	HostOnly bool   // no Domain attribute: goes to exactly Domain
	Path     string // begins with "/"

	Secure      bool
	HTTPOnly    bool
	SameSite    SameSite
	Partitioned bool
	Priority    string // the non-standard attribute, as sent; kept for exports

	// Expires is the end of its life, capped at 400 days after it was set.
	// Zero: a session cookie, which lives as long as the session.
	Expires time.Time

	// A jar takes the next two from the store's clock, see [Jar.Apply].
	Created time.Time // when this identity was first set; decides the order
	Used    time.Time // when it was last set, for the limits: the least recently used goes first

	Version int64 // of the change that set it: microseconds of the store's clock, always rising
	Writer  Writer

	// Login is the version of the last change that was no reply's: of the
	// login, import or other writer that the cookie comes from. Sites give
	// a session new values as it goes, and those keep it. 0: replies alone.
	Login int64

	// Past are hashes of the values it had before, newest first, and then
	// zeros: see [Jar.Apply].
	Past [maxPast]uint32
}

// maxPast bounds the values of a cookie that are known for old ones. Sites that
// give a session a new value with each reply change it as often as requests are
// under way at once.
const maxPast = 16

// hashPast tells values apart without keeping them. It is never zero.
func hashPast(value string) uint32 {
	h := fnv.New32a()
	_, _ = io.WriteString(h, value) // a hash takes all
	return max(h.Sum32(), 1)
}

// had says whether the cookie had the value before the one it has.
func (c *Cookie) had(value string) bool { return slices.Contains(c.Past[:], hashPast(value)) }

// follow takes over the past of the cookie that c replaces.
func (c *Cookie) follow(have *Cookie) {
	c.Past = have.Past
	if c.Value != have.Value {
		copy(c.Past[1:], have.Past[:])
		c.Past[0] = hashPast(have.Value)
	}
}

// Identity is what makes two cookies the same one: a new cookie replaces a
// stored one of equal identity (RFC 6265bis section 5.7, step 23).
type Identity struct {
	Name, Domain, Path    string
	HostOnly, Partitioned bool
}

// Identity returns c's identity.
func (c *Cookie) Identity() Identity {
	return Identity{c.Name, c.Domain, c.Path, c.HostOnly, c.Partitioned}
}

// Expired says whether c's own life is over at now.
func (c *Cookie) Expired(now time.Time) bool {
	return !c.Expires.IsZero() && !now.Before(c.Expires)
}
