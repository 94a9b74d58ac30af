package proxy

import (
	"net/http"
	"strings"
	"sync/atomic"
)

// pin gives a client's connection, where it needs them, connections to origins
// that no other client shares.
//
// NTLM and Negotiate authenticate the connection that they come on (RFC 4559
// section 6): whatever follows on it is that user's, whoever sent it. Over a
// shared one the next client would be that user.
type pin struct {
	used atomic.Bool
}

// pinOf returns the pin of the client's connection; nil where there is none,
// as in HTTP/2, which those schemes do not know.
func (x *exchange) pinOf() *pin {
	if x.mode == modeH2 {
		return nil
	}
	if c, ok := x.Context.Value(connectionKey{}).(*connection); ok {
		return &c.pin
	}
	if c, ok := x.Context.Value(h1Key{}).(*h1Conn); ok {
		return &c.pin
	}
	return nil
}

// pinned returns the pin that r leaves by, or nil. A request that can have none
// and wants one gets a connection for itself alone.
func (x *exchange) pinned(r *http.Request) *pin {
	p := x.pinOf()
	if authenticatesConnection(r.Header) {
		if p == nil {
			r.Close = true
			return nil
		}
		p.used.Store(true)
	}
	if p == nil || !p.used.Load() {
		return nil
	}
	return p
}

func authenticatesConnection(h http.Header) bool {
	for _, v := range h["Authorization"] {
		scheme, _, _ := strings.Cut(v, " ")
		if strings.EqualFold(scheme, "NTLM") || strings.EqualFold(scheme, "Negotiate") {
			return true
		}
	}
	return false
}

// unpin closes what a client's connection, which has ended, had for itself.
func (ts *transports) unpin(p *pin) {
	if p.used.Load() {
		ts.closeAll(func(key transportKey) bool { return key.pin == p })
	}
}
