package admin

import (
	"encoding/json"
	"io"
	"net/http"
)

// harden sets the fields that every answer carries. There is no CORS field
// among them and never will be: no other origin reads an answer of ours.
func harden(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
}

// problem is an error as its client reads it: RFC 9457. The cause, where there
// is another, is for the log.
type problem struct {
	status int
	code   string // stable, for programs
	detail string // what is wrong and what would be right, in plain sentences
}

func (p problem) write(w http.ResponseWriter) {
	if c, ok := w.(*call); ok {
		c.code = p.code
	}
	// Without a type it is "about:blank", whose title is the status phrase
	// (RFC 9457 section 4.2.1).
	writeJSON(w, p.status, "application/problem+json", Problem{http.StatusText(p.status), p.status, p.code, p.detail})
}

// writeJSON answers with v, which is always of a type that JSON can hold.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone; nobody is left to tell
}

func writeText(w http.ResponseWriter, status int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // as above
}

func writeBytes(w http.ResponseWriter, contentType string, b []byte) {
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(b) // as above
}
