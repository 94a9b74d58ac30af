// Package upstream leaves by other proxies: it leases them to those who send
// requests, reaches targets through them, and rests those that fail.
//
// An [Upstream] is an HTTP, HTTPS or SOCKS5 proxy with its credentials. A
// [Pool] leases its upstreams to owners, each upstream to no more of them at
// once than its capacity, first come first served. A [Ledger] is where it
// stands who has which: [Memory] for one process, package redispool for all
// that share a Redis.
//
// Who owns a lease, and what is sent through it, is the caller's part; so are
// the sockets to the upstreams themselves, which Options.Dial opens.
package upstream
