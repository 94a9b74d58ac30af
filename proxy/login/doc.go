// Package login knows how one client logs in for all: which request is a
// login and which two are the same one, what a reply shows of the session,
// whose turn it is to log in, and the recipe by which the proxy does so itself.
//
// [Rules] are pure. [Turns] lets one login at a time go to the site, shared
// between proxies by [Locks]. Of sockets the package knows nothing: a [Recipe]
// is given the way to send its requests. Cookies are package session's, and
// what a verdict means for a request under way is its caller's part.
package login
