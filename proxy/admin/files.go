package admin

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/admin/dashboard"
)

// pages are the dashboard's files: no part of the API.
var pages = []route{
	{http.MethodGet, "/{$}", servePage},
	{http.MethodGet, dashboard.Prefix + "{file...}", servePage},
}

// servePage is GET / and what that page asks for.
func servePage(w http.ResponseWriter, r *http.Request) {
	if !dashboard.Serve(w, r, cmp.Or(r.PathValue("file"), "index.html")) {
		resource{}.ServeHTTP(w, r)
	}
}

// caPEM is GET /ca.pem.
func (s *server) caPEM(w http.ResponseWriter, _ *http.Request) {
	writeBytes(w, "application/x-pem-file", s.ca)
}

// proxyPAC is GET /proxy.pac.
func (s *server) proxyPAC(w http.ResponseWriter, _ *http.Request) {
	writeBytes(w, "application/x-ns-proxy-autoconfig", pac(s.proxy(), s.sites()))
}

// pac writes the proxy auto-configuration: clients send the declared hosts
// through the proxy, without a way around it when it is down, and nothing else.
func pac(proxy Listener, sites []config.Site) []byte {
	var declared []byte
	for _, s := range sites {
		for _, p := range s.Patterns {
			if declared != nil {
				declared = append(declared, ',')
			}
			declared = fmt.Appendf(declared, "\n    {host: %s, below: %t, port: %s}", literal(p.Host), p.Wildcard, literal(p.Port))
		}
	}
	kind := "PROXY "
	if proxy.TLS {
		kind = "HTTPS "
	}
	return fmt.Appendf(nil, pacScript, literal(kind+proxy.Addr), declared)
}

// literal is s as a JavaScript string. encoding/json also escapes what could
// end the script in a page, and the line separators that JavaScript before
// ES2019 takes for the end of a string's line.
func literal(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // every string can be marshalled
	}
	return b
}

// pacScript reads host patterns as [config.Pattern] does. It is ECMAScript 3,
// which is what Windows has for PAC files. Some clients pass an IPv6 address
// in brackets, some bare.
const pacScript = `// The hosts that sessionproxy declares go through it, others do not.
function FindProxyForURL(url, host) {
  var proxy = %s;
  var declared = [%s];
  var parts = /^(http|ws)(s?):\/\/(?:[^\/?#@]*@)?(?:\[[^\]]*\]|[^\/?#:]*)(?::(\d+))?/i.exec(url);
  if (!parts) {
    return "DIRECT";
  }
  var port = parts[3] || (parts[2] ? "443" : "80");
  host = host.toLowerCase().replace(/^\[|\]$|\.$/g, "");
  for (var i = 0; i < declared.length; i++) {
    var d = declared[i], rest = host.length - d.host.length;
    var fits = d.below ? rest > 1 && host.slice(rest - 1) === "." + d.host : host === d.host;
    if (fits && (d.port === "" || d.port === port)) {
      return proxy;
    }
  }
  return "DIRECT";
}
`
