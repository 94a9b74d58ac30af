package proxy

import (
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// hopByHop are the fields that concern one connection only (RFC 9110 sections
// 7.6.1 and 11.7), and Alt-Svc, which would lead a client past the proxy.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Alt-Svc",
	"Proxy-Authenticate", "Proxy-Authentication-Info",
}

// stripHopByHop removes the hop-by-hop fields, those named in Connection too.
// "TE: trailers" stays: gRPC servers insist on it, and we do pass trailers.
func stripHopByHop(h http.Header) {
	trailers := httpguts.HeaderValuesContainsToken(h["Te"], "trailers")
	for _, v := range h["Connection"] {
		for name := range strings.SplitSeq(v, ",") {
			if name = http.CanonicalHeaderKey(strings.TrimSpace(name)); name != "" {
				delete(h, name)
			}
		}
	}
	for _, name := range hopByHop {
		delete(h, name)
	}
	if trailers {
		h["Te"] = []string{"trailers"}
	}
}

// stripProxy removes the fields that are between a client and its proxy.
func stripProxy(h http.Header) {
	for name := range h {
		if strings.HasPrefix(name, "Proxy-") {
			delete(h, name)
		}
	}
}

// upgradeOf returns the protocol that the fields ask to switch to, or "". h2c
// counts for none: it would be a tunnel for requests that nobody looks at, and
// RFC 9113 section 3.1 has dropped it.
func upgradeOf(h http.Header) string {
	if len(h["Upgrade"]) == 0 || !httpguts.HeaderValuesContainsToken(h["Connection"], "upgrade") ||
		httpguts.HeaderValuesContainsToken(h["Upgrade"], "h2c") {
		return ""
	}
	return h["Upgrade"][0]
}

// lastHop says whether r is to be answered here, and else counts us among those
// that have forwarded it (RFC 9110 section 7.6.2).
func lastHop(r *http.Request) bool {
	v := r.Header["Max-Forwards"]
	if len(v) == 0 || r.Method != http.MethodOptions && r.Method != http.MethodTrace {
		return false
	}
	n, err := strconv.ParseUint(v[0], 10, 63)
	if err != nil {
		return false // for its recipient to make sense of
	}
	if n > 0 {
		r.Header["Max-Forwards"] = []string{strconv.FormatUint(n-1, 10)}
	}
	return n == 0
}
