package session

import (
	"iter"
	"strings"
)

// reason says whether a cookie of a jar goes with a request, and why not.
type reason uint8

const (
	goes        reason = iota
	otherHost          // set for another host
	otherPath          // set for another path
	needsTLS           // Secure, and the request is not
	expired            // its life is over
	notShared          // the policy keeps it out of this jar
	endsLogin          // the request ends the login
	foreignPage        // a foreign page made the request, and SameSite forbids it
)

// matcher judges the cookies of the jars for one request.
type matcher struct {
	r      *Request
	policy *Policy
	now    int64 // of the request, in microseconds since 1970
}

func newMatcher(r *Request, p *Policy) matcher {
	return matcher{r, p, r.Now.UnixMicro()}
}

// judge is the retrieval algorithm of RFC 6265bis section 5.8.3 for one cookie,
// with the site's policy. The cookie is of the private jar or of the shared one.
func (m *matcher) judge(c *sent, private bool) reason {
	switch {
	case c.domain != m.r.Host && (c.hostOnly || !domainMatch(m.r.Host, c.domain)):
		return otherHost
	case !pathMatch(m.r.Path, c.path):
		return otherPath
	case c.secure && !m.r.Secure:
		return needsTLS
	case c.expires <= m.now:
		return expired
	}
	name := c.pair()[:c.name]
	switch {
	case private && !m.policy.Private(name), !private && !m.policy.Shared(name):
		return notShared
	case private:
		return goes
	case m.r.Logout:
		return endsLogin
	case m.r.Whose == CrossNavigation && c.sameSite == SameSiteStrict:
		return foreignPage
	}
	return goes
}

// Matching are the cookies of a shared jar that go with a request whose client
// sends none itself, in the order of a Cookie header. It knows no MaxHeader.
func (j *Jar) Matching(r Request, p *Policy) iter.Seq[*Cookie] {
	return func(yield func(*Cookie) bool) {
		m := newMatcher(&r, p)
		for i := range j.sent {
			if m.judge(&j.sent[i], false) == goes && !yield(&j.cookies[i]) {
				return
			}
		}
	}
}

// pathMatch is RFC 6265bis section 5.1.4.
func pathMatch(path, cookiePath string) bool {
	if path == "" {
		path = "/"
	}
	if cookiePath == "/" {
		return path[0] == '/'
	}
	if !strings.HasPrefix(path, cookiePath) {
		return false
	}
	return len(path) == len(cookiePath) || strings.HasSuffix(cookiePath, "/") || path[len(cookiePath)] == '/'
}
