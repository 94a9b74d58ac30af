package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/sessionproxy/sessionproxy/proxy/trace"
)

// refusal is an answer of the proxy's own that ends an exchange. The client
// reads status, code and public; only the log reads cause.
type refusal struct {
	status int
	kind   string // the error type of RFC 9209 section 2.3
	code   string // ours, finer: stable, for programs
	public string // a plain sentence, with nothing internal in it
	cause  error
	header http.Header // further fields; may be nil
	audit  bool        // somebody wanted what is not his own
	login  bool        // it is about credentials
	of     string      // the client's name, where the refusal is about who it is
}

func refuse(status int, kind, code, public string) *refusal {
	return &refusal{status: status, kind: kind, code: code, public: public}
}

// deny is refuse for the audit log too.
func deny(status int, kind, code, public string) *refusal {
	ref := refuse(status, kind, code, public)
	ref.audit = true
	return ref
}

// failed says whether something broke, where the others are decisions.
func (f *refusal) failed() bool { return f.cause != nil && f.status != http.StatusForbidden }

// outcome is that of an exchange which ends so.
func (f *refusal) outcome() trace.Outcome {
	if f.failed() {
		return trace.Failed
	}
	return trace.Refused
}

// response is the refusal as the engine passes it on. r decides its form: HTML
// for a person, JSON for a program that asks for it, else text.
func (f *refusal) response(r *http.Request, id string) *http.Response {
	body, contentType := f.body(r, id)
	h := http.Header{
		"Content-Type":   {contentType},
		"Cache-Control":  {"no-store"},
		"X-Exchange-Id":  {id},
		"Content-Length": {strconv.Itoa(len(body))},
	}
	if f.kind != "" {
		h["Proxy-Status"] = []string{fmt.Sprintf("sessionproxy; error=%s; details=%s", f.kind, sfString(f.code+": "+f.public))}
	}
	for k, v := range f.header {
		h[k] = v
	}
	return &http.Response{
		StatusCode: f.status, Status: fmt.Sprintf("%d %s", f.status, http.StatusText(f.status)),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: h, ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: r,
	}
}

// write answers r directly, where the engine has not been entered.
func (f *refusal) write(w http.ResponseWriter, r *http.Request, id string) {
	resp := f.response(r, id)
	for k, v := range resp.Header {
		w.Header()[k] = v
	}
	w.WriteHeader(f.status)
	if r.Method != http.MethodHead {
		io.Copy(w, resp.Body) //nolint:errcheck // the client is gone; nobody is left to tell
	}
}

func (f *refusal) body(r *http.Request, id string) (body []byte, contentType string) {
	accept := strings.Join(r.Header["Accept"], ",")
	switch {
	case strings.Contains(accept, "text/html"):
		title := fmt.Sprintf("%d %s", f.status, http.StatusText(f.status))
		return fmt.Appendf(nil, refusalPage, html.EscapeString(title), html.EscapeString(title), html.EscapeString(f.public), html.EscapeString(f.code), html.EscapeString(id)), "text/html; charset=utf-8"
	case strings.Contains(accept, "json"):
		// RFC 9457.
		b, err := json.Marshal(map[string]any{"status": f.status, "title": http.StatusText(f.status), "detail": f.public, "code": f.code, "exchange": id})
		if err == nil {
			return append(b, '\n'), "application/problem+json"
		}
	}
	return []byte("sessionproxy: " + f.public + "\n"), "text/plain; charset=utf-8"
}

const refusalPage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>%s</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}</style>
<h1>%s</h1>
<p>%s</p>
<p><small>Answered by sessionproxy: <code>%s</code>, exchange <code>%s</code> in its log.</small></p>
</html>
`

// sfString writes a Structured Field string (RFC 8941 section 3.3.3): printable
// ASCII only.
func sfString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c > '~':
			b.WriteByte('?')
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
