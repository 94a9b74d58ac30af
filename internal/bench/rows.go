//go:build linux

package main

import "slices"

// The proxies that are measured.
const (
	sessionproxy = "sessionproxy" // all features on: credentials, a leased upstream, cookies of a session in Redis injected, a log line for each request
	embedded     = "embedded"     // the same, its sessions in the process, and no upstream to leave by: its requests go as far as the others' do
	base         = "base"         // another build of sessionproxy, see -base
	tuned        = "tuned"        // goproxy as one who knows it would set it up
	tunedH2      = "tuned-h2"     // the same, offering HTTP/2 to its clients
	stock        = "stock"        // goproxy as it comes
	direct       = "direct"       // no proxy: clients ask the origin
)

var proxyNames = []string{sessionproxy, embedded, base, tuned, tunedH2, stock, direct}

// A row is one way of using a proxy.
type row struct {
	name string
	note string

	h2     bool   // HTTP/2 between client and proxy
	fresh  bool   // a new tunnel and TLS handshake for each request
	resume bool   // the client resumes TLS sessions
	path   string // what is asked of the origin
	idle   bool   // measures memory that idle connections hold, not requests
	socket bool   // messages of a WebSocket, each echoed, for requests
	alone  bool   // one client, not as many as connections
	hosts  int    // each request is to a host that the proxy has not seen; so many requests of a fresh proxy
	any    bool   // the origin does not count the cookies of a request

	proxies   []string // in the order of each round
	yardstick string   // the one whose cost is 1

	// What sessionproxy may cost: times the yardstick's CPU, or KiB a connection
	// in idle rows; budget now, goal in the end. Zero: none.
	budget, goal float64
}

var rows = []row{
	{
		name: "keep-alive", note: "HTTP/1.1, 1 KiB, connections kept",
		path: "/1k", proxies: []string{sessionproxy, embedded, tuned, stock}, yardstick: tuned, budget: 1.1, goal: 0.7,
	},
	{
		name: "new-connection", note: "CONNECT, full TLS handshake, one request of 1 KiB; what one-shot scripts do",
		fresh: true,
		path:  "/1k", proxies: []string{sessionproxy, tuned, stock}, yardstick: tuned, budget: 1.0, goal: 0.85,
	},
	{
		name: "resumed", note: "the same by clients that keep TLS tickets, as browsers do; goproxy never resumes",
		fresh: true, resume: true,
		path: "/1k", proxies: []string{sessionproxy, tuned}, yardstick: tuned,
	},
	{
		name: "h2", note: "HTTP/2 to the client, 1 KiB, connections kept",
		h2:   true,
		path: "/1k", proxies: []string{sessionproxy, tunedH2}, yardstick: tunedH2, budget: 1.0, goal: 0.8,
	},
	{
		name: "1MiB", note: "HTTP/1.1, bodies of 1 MiB, connections kept",
		path: "/1m", proxies: []string{sessionproxy, tuned, stock}, yardstick: tuned,
	},
	latency,
	{
		name: "idle-h1", note: "one request on each of many connections, which then stay open",
		idle: true,
		path: "/1k", proxies: []string{sessionproxy, tuned}, yardstick: tuned, budget: 40,
	},
	{
		name: "idle-h2", note: "the same over HTTP/2",
		h2: true, idle: true,
		path: "/1k", proxies: []string{sessionproxy, tunedH2}, yardstick: tunedH2, budget: 56,
	},
}

// latency is a row of bench and of its peers.
var latency = row{
	name: "latency", note: "keep-alive, one client, one request at a time: what the way through a proxy adds to p50", alone: true,
	path: "/1k", proxies: []string{sessionproxy, tuned, direct}, yardstick: tuned,
}

func rowNames(of []row) []string {
	names := make([]string, len(of))
	for i, r := range of {
		names[i] = r.name
	}
	return names
}

// among returns the row's proxies that are in names, in the row's order, with
// base beside the one that it is compared with.
func (r row) among(names []string) []string {
	all := slices.Clone(r.proxies)
	if i := slices.Index(all, sessionproxy); i >= 0 {
		all = slices.Insert(all, i+1, base)
	}
	return slices.DeleteFunc(all, func(name string) bool { return !slices.Contains(names, name) })
}
