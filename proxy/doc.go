// Package proxy is the road that a request takes: from a client's connection
// to the origin and back, with the shared session's cookies on it.
//
// A [Proxy] serves any number of listeners. A request to a declared host, in
// plain HTTP, in a tunnel over HTTP/1.1 or HTTP/2, or a WebSocket handshake,
// becomes one exchange, and each step of it is a file named after the step:
// identify, connect, intercept, exchange, scope, inject, roundtrip, capture,
// anonymous, relay, record. Everything else is tunnelled untouched.
//
// goproxy is the engine: it dispatches CONNECT and runs the hook chain. Its
// own interception is not used; the decrypted connection is served by one
// net/http server, which has time-outs, limits, HTTP/2 and a shutdown.
//
// What a cookie is, and whose, package session knows; where certificates come
// from, its caller.
package proxy
