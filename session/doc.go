// Package session decides which cookies a shared session holds and which of
// them a request may carry.
//
// A [Jar] is one immutable state of a session's cookies, by the rules of
// RFC 6265bis; [Jar.Apply] makes the next one. A [Store] shares jars between
// the clients of one proxy, and between proxies. [WhoseRequest] tells a
// client's own request from one that a foreign page made it send, and [Merge]
// writes the Cookie header.
//
// The package is pure: it knows no sockets, no TLS and no clock but the one it
// is handed. Which host was verified, and who the client is, package proxy
// says.
package session
