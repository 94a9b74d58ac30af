package proxy

import (
	"fmt"
	"net/http"
	"strconv"
)

// welcome is http://sessionproxy.internal/, which only a client of the proxy
// reaches: the CA, and how to install it.
func (p *Proxy) welcome(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "only GET is served here", http.StatusMethodNotAllowed)
	case r.URL.Path == "/ca.pem":
		serveBytes(w, r, "application/x-pem-file", p.ca)
	case r.URL.Path == "/":
		serveBytes(w, r, "text/html; charset=utf-8", fmt.Append(nil, welcomePage))
	default:
		http.NotFound(w, r)
	}
}

func serveBytes(w http.ResponseWriter, r *http.Request, contentType string, b []byte) {
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.Header().Set("Cache-Control", "no-store")
	if r.Method != http.MethodHead {
		_, _ = w.Write(b)
	}
}

const welcomePage = `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="color-scheme" content="light dark"><meta name="viewport" content="width=device-width"><title>sessionproxy</title>
<style>body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}code,pre{font-family:ui-monospace,monospace}pre{white-space:pre-wrap;overflow-wrap:anywhere}</style>
<h1>You are behind sessionproxy</h1>
<p>For the sites that its operator declared, this proxy adds the cookies of a shared session to your requests. To do so over https it shows certificates of its own authority, which your client has to trust:</p>
<p><a href="/ca.pem">Download ca.pem</a></p>
<h2>Give it to</h2>
<dl>
<dt>One program, on the proxy's machine<dd><pre>sessionproxy run -- CMD</pre>
<dt>All programs there<dd><pre>sessionproxy ca install</pre>
<dt>curl<dd><pre>curl --cacert ca.pem</pre>
<dt>Python requests<dd><pre>REQUESTS_CA_BUNDLE=ca.pem</pre>
<dt>Node<dd><pre>NODE_EXTRA_CA_CERTS=ca.pem</pre>
<dt>Debian, Ubuntu<dd><pre>cp ca.pem /usr/local/share/ca-certificates/sessionproxy.crt &amp;&amp; update-ca-certificates</pre>
<dt>Chromium on Linux<dd><pre>certutil -d sql:$HOME/.pki/nssdb -A -t C,, -n sessionproxy -i ca.pem</pre>
<dt>Firefox<dd><pre>Settings, Certificates, Authorities, Import</pre>
<dt>Windows, macOS<dd><pre>Open ca.pem, and put it among the trusted roots</pre>
</dl>
<p>Trust it on machines and profiles that are meant for this work only.</p>
</html>
`
