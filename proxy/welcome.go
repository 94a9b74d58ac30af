package proxy

import (
	"bytes"
	_ "embed"
	"html/template"
	"net/http"
	"strconv"
)

// welcome is http://sessionproxy.internal/, which only a client of the proxy
// reaches: who the proxy takes it for, whether it trusts the CA, and how to
// install that. who is nil where the port asked in vain.
func (p *Proxy) welcome(w http.ResponseWriter, r *http.Request, who *identity, secure bool) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
	case r.URL.Path == "/ca.pem":
		serveBytes(w, r, "application/x-pem-file", p.ca)
	case r.URL.Path == "/trusted.svg" && secure:
		serveBytes(w, r, "image/svg+xml", []byte(trusted))
	case r.URL.Path == "/":
		page := struct {
			Known, Secure           bool
			Client, Worker, Session string
		}{Known: who != nil, Secure: secure}
		if who != nil {
			page.Client, page.Worker, page.Session = who.name, who.worker, who.session
		}
		var b bytes.Buffer
		if err := welcomePage.Execute(&b, page); err != nil {
			panic(err) // of a template that is compiled in, into memory
		}
		serveBytes(w, r, "text/html; charset=utf-8", b.Bytes())
	default:
		http.NotFound(w, r)
	}
}

func serveBytes(w http.ResponseWriter, r *http.Request, contentType string, b []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src https://"+internalHost)
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
}

//go:embed welcome.html
var welcomeHTML string

var welcomePage = template.Must(template.New("welcome").Parse(welcomeHTML))

// trusted is an image that a client shows only if it trusts the CA: it comes
// over https with our own certificate, and needs no script.
const trusted = `<svg xmlns="http://www.w3.org/2000/svg" width="220" height="24"><text x="0" y="17" font-family="system-ui,sans-serif" font-size="16" fill="#2a7d2a">yes, it is trusted</text></svg>`
