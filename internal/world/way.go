package world

// Host is the site that every world declares, with all below it.
const Host = "shop.test"

// Way is one way in which a client's request reaches the origin.
type Way struct {
	Name   string
	Tunnel bool // inside a CONNECT
	TLS    bool // https
	H2     bool // the client speaks HTTP/2
	port   string
}

// The ways there are. An origin listens on port 80, on 443 for HTTP/1.1 and
// HTTP/2, and on 8443 for HTTP/1.1 alone.
var (
	Plain       = Way{Name: "plain"}
	TunnelPlain = Way{Name: "tunnel-plain", Tunnel: true}
	TunnelH1    = Way{Name: "tunnel-h1", Tunnel: true, TLS: true}
	TunnelH2    = Way{Name: "tunnel-h2", Tunnel: true, TLS: true, H2: true}
	TunnelH2H1  = Way{Name: "tunnel-h2-to-h1", Tunnel: true, TLS: true, H2: true, port: "8443"}
)

// Ways are all of them; H1Ways those on which a client can write HTTP/1.1 by
// hand, see [Proxy.Raw].
var (
	Ways   = []Way{Plain, TunnelPlain, TunnelH1, TunnelH2, TunnelH2H1}
	H1Ways = []Way{Plain, TunnelPlain, TunnelH1}
)

// URL is where the path is found at Host.
func (v Way) URL(path string) string { return v.URLOf(Host, path) }

// URLOf is where the path is found at another host.
func (v Way) URLOf(host, path string) string { return v.scheme() + "://" + v.authority(host) + path }

// Target is what stands in a request line that is written by hand.
func (v Way) Target(path string) string {
	if v.Tunnel {
		return path
	}
	return v.URL(path)
}

// Mode is how the proxy's record calls the way.
func (v Way) Mode() string {
	switch {
	case !v.Tunnel:
		return "plain"
	case v.H2:
		return "h2"
	}
	return "h1"
}

func (v Way) scheme() string {
	if v.TLS {
		return "https"
	}
	return "http"
}

func (v Way) authority(host string) string {
	if v.port == "" {
		return host
	}
	return host + ":" + v.port
}

// addr is what a CONNECT names.
func (v Way) addr(host string) string {
	switch {
	case v.port != "":
		return host + ":" + v.port
	case v.TLS:
		return host + ":443"
	}
	return host + ":80"
}
