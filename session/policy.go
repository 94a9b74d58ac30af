package session

import (
	"slices"
	"strings"
)

// builtinPrivate are the cookies in which frameworks keep a CSRF token of one
// browser. Shared, they would break every form that another worker was shown.
// docs/private-cookies.md lists them with their sources; a test compares the
// two. Tokens that belong to the session itself are not here: they must be
// shared with it.
var builtinPrivate = []string{
	"csrftoken",                   // Django: CSRF_COOKIE_NAME
	"XSRF-TOKEN",                  // Laravel, Angular, Spring Security, axios
	"_csrf",                       // Express csurf, @fastify/csrf-protection, Echo, Yii 2
	"_csrf-*",                     // Yii 2 advanced template: _csrf-frontend, _csrf-backend
	"__RequestVerificationToken*", // ASP.NET MVC; a suffix names the application's path
	".AspNetCore.Antiforgery.*",   // ASP.NET Core
	"csrf-token",                  // Quarkus
	"csrf-token_*",                // Symfony, over http
	"__Host-csrf-token_*",         // Symfony, over https
	"csrfToken",                   // CakePHP
	"csrf_cookie_name",            // CodeIgniter 3 and 4
	"form_key",                    // Magento 2
	"_xsrf",                       // Tornado, Jupyter
	"fastapi-csrf-token",          // fastapi-csrf-protect
	"_gorilla_csrf",               // gorilla/csrf
	"csrf_token",                  // nosurf
	"csrf_",                       // Fiber
	"__Host-csrf_",                // Fiber, over https
	"crumb",                       // @hapi/crumb
	"psifi.x-csrf-token",          // csrf-csrf, over http
	"__Host-psifi.x-csrf-token",   // csrf-csrf
	"next-auth.csrf-token",        // NextAuth.js 4, over http
	"__Host-next-auth.csrf-token", // NextAuth.js 4
	"authjs.csrf-token",           // Auth.js 5, over http
	"__Host-authjs.csrf-token",    // Auth.js 5
}

// Policy is a site's rule for names and merging. Make it with NewPolicy.
type Policy struct {
	ClientWins bool // precedence: client

	share, private *globs
}

// NewPolicy compiles a policy: share and private are globs of cookie names
// (see [Glob]); private adds to the built-in list. A name that
// is private, or that no share glob matches, never enters a shared jar and is
// never sent from one.
func NewPolicy(share, private []string, clientWins bool) *Policy {
	p := &Policy{ClientWins: clientWins, share: compile(share)}
	p.private = compile(append(private[:len(private):len(private)], builtinPrivate...))
	return p
}

// OneBrowser is the policy of a client that keeps all its cookies itself, and
// shares none of them.
func OneBrowser() *Policy { return &Policy{share: compile([]string{"*"}), private: new(globs)} }

// Shared says whether cookies of this name belong to the session rather than
// to one worker or nobody.
func (p *Policy) Shared(name string) bool { return p.share.match(name) && !p.private.match(name) }

// Private says whether the name is one worker's own.
func (p *Policy) Private(name string) bool { return p.private.match(name) }

// globs match names. Each name that is sent is looked up, and few match: length
// and ends tell most of the others.
type globs struct {
	all     bool          // one of them is "*"
	exact   [256][]string // those without "*", by first byte
	lengths [256]uint64   // of those, by ends: bit n, and bit 63 for longer ones
	wild    [256][]wild   // the others, by each first byte that they may match
}

// wild is a pattern with "*", and what it begins with before that.
type wild struct{ prefix, pattern string }

// ends is the first and the last byte of a name that is not empty.
func ends(name string) byte { return name[0] + name[len(name)-1] }

func compile(patterns []string) *globs {
	g := new(globs)
	for _, p := range patterns {
		at := strings.IndexByte(p, '*')
		switch {
		case p == "":
		case p == "*":
			g.all = true
		case at < 0:
			g.exact[p[0]] = append(g.exact[p[0]], p)
			g.lengths[ends(p)] |= 1 << min(len(p), 63)
		case at > 0:
			g.wild[p[0]] = append(g.wild[p[0]], wild{p[:at], p})
		default:
			for i := range g.wild {
				g.wild[i] = append(g.wild[i], wild{"", p})
			}
		}
	}
	return g
}

func (g *globs) match(name string) bool {
	if g.all || name == "" {
		return g.all
	}
	if g.lengths[ends(name)]&(1<<min(len(name), 63)) != 0 && slices.Contains(g.exact[name[0]], name) {
		return true
	}
	for _, w := range g.wild[name[0]] {
		if strings.HasPrefix(name, w.prefix) && Glob(w.pattern, name) {
			return true
		}
	}
	return false
}
