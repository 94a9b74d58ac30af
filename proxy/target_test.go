package proxy_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// hello answers with the Host that it saw.
var hello = handler(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, "hello "+r.Host) })

// The host that TLS verified decides whose cookies a request may carry, so a
// Host that names another is refused: RFC 9110 section 15.5.20.
func TestTheHostOfATunnelIsItsTargets(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: func(c *config.Config) {
		c.Sites = append(c.Sites, world.Site("bank", "bank.test"))
	}})
	for _, tt := range []struct {
		name, host string
		status     int
	}{
		{"itself", "shop.test", 200},
		{"with its port", "shop.test:443", 200},
		{"with another port", "shop.test:8443", 200},
		{"with a final dot", "shop.test.", 200},
		{"with a final dot and a port", "shop.test.:443", 200},
		{"in capitals", "SHOP.Test", 200},
		{"another site", "bank.test", 421},
		{"a subdomain", "www.shop.test", 421},
		{"the domain above", "test", 421},
		{"a host that begins so", "shop.test.evil.test", 421},
		{"an address", "127.0.0.1", 421},
		{"an IPv6 address", "[::1]", 421},
		{"in brackets, which are an address's", "[shop.test]", 421},
		{"in brackets with a port", "[shop.test]:443", 421},
		{"an empty name with a port", ":443", 421},
	} {
		t.Run(tt.name, func(t *testing.T) {
			for _, via := range []world.Way{world.TunnelPlain, world.TunnelH1} {
				c := w.Raw(t, via)
				c.Send("GET / HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n")
				a := c.Answer("GET")
				if a.StatusCode != tt.status {
					t.Errorf("%s: %d %s, want %d", via.Name, a.StatusCode, a.Text, tt.status)
				}
				if a.StatusCode == 200 && a.Text != "hello "+tt.host {
					t.Errorf("%s: the origin said %q", via.Name, a.Text)
				}
			}
			r := world.Request(t, "GET", world.TunnelH2.URL("/"), nil)
			r.Host = tt.host
			if a := world.Do(t, w.Client(world.TunnelH2), r); a.StatusCode != tt.status {
				t.Errorf("tunnel-h2: %d %s, want %d", a.StatusCode, a.Text, tt.status)
			}
		})
	}
	for _, host := range []string{"a@evil.test", "shop.test@evil.test", "evil.test/y", "evil test", "shop.test,evil.test"} {
		t.Run(host, func(t *testing.T) {
			c := w.Raw(t, world.TunnelH1)
			c.Send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
			if a := c.Answer("GET"); a.StatusCode != 421 && a.StatusCode != 400 {
				t.Errorf("%d %s, want 421 or 400", a.StatusCode, a.Text)
			}
		})
	}
	for _, via := range []world.Way{world.TunnelPlain, world.TunnelH1} {
		t.Run("absolute form by "+via.Name, func(t *testing.T) {
			c := w.Raw(t, via)
			for url, status := range map[string]int{
				via.URL("/x"): 200, via.URLOf("bank.test", "/x"): 421, "http://shop.test:81/": 200,
			} {
				c.Send("GET " + url + " HTTP/1.1\r\nHost: shop.test\r\n\r\n")
				if a := c.Answer("GET"); a.StatusCode != status {
					t.Errorf("%s: %d %s, want %d", url, a.StatusCode, a.Text, status)
				}
			}
		})
	}
	a := w.Raw(t, world.TunnelH1)
	a.Send("GET / HTTP/1.1\r\nHost: bank.test\r\n\r\n")
	wantRefusal(t, a.Answer("GET"), 421, "http_request_error", "misdirected")
}

func TestTheServerNameOfATunnelIsItsTargets(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: func(c *config.Config) {
		c.Sites = append(c.Sites, world.Site("bank", "bank.test"))
	}})
	get := func(c *world.Conn, host string) *world.Answer {
		c.Send("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n")
		return c.Answer("GET")
	}
	t.Run("another name is refused, whatever the Host", func(t *testing.T) {
		for _, host := range []string{"shop.test", "bank.test"} {
			c := w.Connect(t, "shop.test:443").TLS("bank.test")
			wantRefusal(t, get(c, host), 421, "http_request_error", "misdirected")
		}
	})
	t.Run("capitals make no difference", func(t *testing.T) {
		if a := get(w.Connect(t, "SHOP.test:443").TLS("Shop.TEST"), "shop.test"); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
	})
	t.Run("no name is the target's", func(t *testing.T) {
		c, err := w.Connect(t, "shop.test:443").TryTLS(&tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		if leaf := peer(c); leaf.DNSNames[0] != "shop.test" {
			t.Errorf("the leaf names %v", leaf.DNSNames)
		}
		if a := get(c, "shop.test"); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
	})
	t.Run("an address leaves it to the name", func(t *testing.T) {
		c := w.Connect(t, w.Origin.Addr("443")).TLS("shop.test") // trusts our CA: it is intercepted
		if a := get(c, "shop.test"); a.StatusCode != 200 || a.Text != "hello shop.test" {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
		if a := get(c, "bank.test"); a.StatusCode != 421 {
			t.Errorf("another Host: %d %s", a.StatusCode, a.Text)
		}
		w.WantRecord(t, "exchange", "mode", "h1", "host", "shop.test", "status", 200)
	})
}

func TestTargetsOfEveryForm(t *testing.T) {
	t.Parallel()
	v6 := world.Site("v6", "::1")
	v6.Origin.Insecure = true                                            // the origin listens on 127.0.0.1, and says so
	long := strings.Repeat("label-of-twenty-five-oct.", 3) + "shop.test" // over the 64 characters of a common name
	w := world.New(t, world.Options{Handler: hello, Config: func(c *config.Config) {
		c.Sites[0].Hosts = append(c.Sites[0].Hosts, long, "xn--bcher-kva.shop.test", "under_score.shop.test")
		c.Sites = append(c.Sites, world.Site("v4", "127.0.0.1"), v6, world.Site("single", "intranet"))
	}})
	for _, tt := range []struct{ name, host, sni string }{
		{"a final dot", "shop.test.", "shop.test"},
		{"capitals", "Shop.Test", "shop.test"},
		{"a name over 64 characters", long, long},
		{"an A-label", "xn--bcher-kva.shop.test", "xn--bcher-kva.shop.test"},
		{"an underscore", "under_score.shop.test", "under_score.shop.test"},
		{"a single label", "intranet", "intranet"},
		{"an IPv4 address", "127.0.0.1", "127.0.0.1"},
		{"an IPv6 address", "[::1]", "::1"},
		{"an IPv6 address at length", "[0:0:0:0:0:0:0:1]", "::1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := w.Connect(t, tt.host+":443").TLS(tt.sni)
			leaf := peer(c)
			if len(leaf.DNSNames)+len(leaf.IPAddresses) != 1 || leaf.Subject.CommonName != "" {
				t.Errorf("the leaf is for %v %v, common name %q; want one name", leaf.DNSNames, leaf.IPAddresses, leaf.Subject.CommonName)
			}
			c.Send("GET / HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n")
			if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "hello "+tt.host {
				t.Errorf("%d %q", a.StatusCode, a.Text)
			}
			plain := w.Dial(t)
			plain.Send("GET http://" + tt.host + "/ HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n")
			if a := plain.Answer("GET"); a.StatusCode != 200 || a.Text != "hello "+tt.host {
				t.Errorf("outside a tunnel: %d %q", a.StatusCode, a.Text)
			}
		})
	}
}

// A host in Unicode is the same as its A-label, for whoever sends it so.
func TestHostsInUnicode(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: login, Config: func(c *config.Config) {
		c.Sites[0].Hosts = append(c.Sites[0].Hosts, "bücher.shop.test")
	}})
	const label = "xn--bcher-kva.shop.test"
	c := w.Dial(t)
	c.Send("GET http://" + label + set("sid=a1; Path=/") + " HTTP/1.1\r\nHost: " + label + "\r\n\r\n")
	c.Answer("GET")
	for _, host := range []string{label, "XN--BCHER-KVA.shop.test"} {
		c.Send("GET http://" + host + "/ HTTP/1.1\r\nHost: " + label + "\r\n\r\n")
		if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "sid=a1" {
			t.Errorf("%s: %d %q", host, a.StatusCode, a.Text)
		}
	}
	if a := w.Dial(t).Connect("bücher.shop.test:443"); a.StatusCode != 400 { // net/http lets no such bytes in
		t.Errorf("CONNECT in Unicode: %s", a.Status)
	}
	tc := w.Connect(t, label+":443").TLS(label)
	tc.Send("GET / HTTP/1.1\r\nHost: " + label + "\r\n\r\n")
	if a := tc.Answer("GET"); a.StatusCode != 200 || a.Text != "sid=a1" {
		t.Errorf("https: %d %q", a.StatusCode, a.Text)
	}
}

func TestTargetsThatAreNone(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	for _, target := range []string{
		"shop.test", "shop.test:", "shop.test:0", "shop.test:65536", "shop.test:https", "shop.test:+443", "shop.test:443:443",
		":443", "a@shop.test:443", "shop..test:443", "[::1:443", "[::1%25lo]:443", "2130706433:443", "0x7f.1:443", "127.1:443", "sh%6fp.test:443",
	} {
		t.Run("CONNECT "+target, func(t *testing.T) {
			if a := w.Dial(t).Connect(target); a.StatusCode != 400 {
				t.Errorf("%s %s, want 400", a.Status, a.Text)
			}
		})
	}
	for _, url := range []string{
		"http://user@shop.test/", "ftp://shop.test/", "http://shop.test:0/", "http://shop.test:65536/", "http://2130706433/", "http:///x", "shop.test/x",
	} {
		t.Run("GET "+url, func(t *testing.T) {
			c := w.Dial(t)
			c.Send("GET " + url + " HTTP/1.1\r\nHost: shop.test\r\n\r\n")
			if a := c.Answer("GET"); a.StatusCode != 400 {
				t.Errorf("%s %s, want 400", a.Status, a.Text)
			}
		})
	}
}

func TestThePortIsAProxysAndNoWebServers(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{})
	c := w.Dial(t)
	c.Send("GET / HTTP/1.1\r\nHost: " + w.Addr + "\r\n\r\n")
	if a := c.Answer("GET"); a.StatusCode != 400 || !strings.Contains(a.Text, "proxy port") {
		t.Errorf("%d %q", a.StatusCode, a.Text)
	}
	c.Send("GET http://sessionproxy.internal/ca.pem HTTP/1.1\r\nHost: sessionproxy.internal\r\n\r\n")
	if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != string(w.CA) {
		t.Errorf("ca.pem: %d %q", a.StatusCode, a.Text)
	}
	inside := w.Connect(t, "sessionproxy.internal:443").TLS("sessionproxy.internal")
	inside.Send("GET / HTTP/1.1\r\nHost: sessionproxy.internal\r\n\r\n")
	if a := inside.Answer("GET"); a.StatusCode != 200 || !strings.Contains(a.Text, "ca.pem") {
		t.Errorf("https://sessionproxy.internal/: %d %q", a.StatusCode, a.Text)
	}
}

// LWP and other old clients leave TLS to the proxy.
func TestAnHTTPSURLOutsideATunnel(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	c := w.Dial(t)
	c.Send("GET https://shop.test/ HTTP/1.1\r\nHost: shop.test\r\n\r\n")
	if a := c.Answer("GET"); a.StatusCode != 200 || a.Text != "hello shop.test" {
		t.Errorf("%d %q", a.StatusCode, a.Text)
	}
}

func TestMethodsThatAreRefused(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		wantRefusal(t, world.Do(t, w.Client(via), world.Request(t, "TRACE", via.URL("/"), nil)), 405, "http_request_denied", "trace")
	})
	for _, via := range []world.Way{world.TunnelPlain, world.TunnelH1} {
		t.Run("CONNECT within "+via.Name, func(t *testing.T) {
			for _, target := range []string{"shop.test:443", "shop.test:80", "evil.test:443"} {
				wantRefusal(t, w.Raw(t, via).Connect(target), 405, "http_request_denied", "nested_connect")
			}
		})
	}
	t.Run("CONNECT within tunnel-h2", func(t *testing.T) {
		r := &http.Request{Method: "CONNECT", URL: world.Request(t, "GET", world.TunnelH2.URL(""), nil).URL, Host: "shop.test:443"}
		a := world.Do(t, w.Client(world.TunnelH2), r.WithContext(t.Context()))
		wantRefusal(t, a, 405, "http_request_denied", "nested_connect")
	})
}

func TestPlainHTTPIsSentToHTTPS(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello, Config: func(c *config.Config) { c.Sites[0].Origin.HTTPSOnly = true }})
	for _, via := range []world.Way{world.Plain, world.TunnelPlain} {
		a := w.Get(t, via, "/a?b=c")
		if a.StatusCode != 307 || a.Header.Get("Location") != "https://shop.test/a?b=c" {
			t.Errorf("%s: %d to %s", via.Name, a.StatusCode, a.Header.Get("Location"))
		}
	}
	if a := w.Get(t, world.TunnelH1, "/"); a.StatusCode != 200 {
		t.Errorf("https: %d", a.StatusCode)
	}
}

// No handshake after the first needs the CA's key.
func TestClientsResumeTheirTLSSessions(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	conf := &tls.Config{ServerName: world.Host, ClientSessionCache: tls.NewLRUClientSessionCache(1)}
	for i := range 3 {
		c, err := w.Connect(t, "shop.test:443").TryTLS(conf)
		if err != nil {
			t.Fatal(err)
		}
		c.Send("GET / HTTP/1.1\r\nHost: shop.test\r\n\r\n") // the ticket comes with the answer
		c.Answer("GET")
		if resumed := c.Conn.(*tls.Conn).ConnectionState().DidResume; resumed != (i > 0) {
			t.Errorf("handshake %d: resumed %t", i, resumed)
		}
	}
}

func TestHTTP10ClientsGetTunnels(t *testing.T) {
	t.Parallel()
	w := world.New(t, world.Options{Handler: hello})
	c := w.Dial(t)
	c.Send("CONNECT shop.test:443 HTTP/1.0\r\n\r\n")
	if head := c.Head(); !strings.HasPrefix(head, "HTTP/1.") || !strings.Contains(head, " 200 ") {
		t.Fatalf("got %q", head)
	}
	tc := c.TLS(world.Host)
	tc.Send("GET / HTTP/1.0\r\nHost: shop.test\r\n\r\n")
	if all := tc.Rest(); !strings.HasSuffix(all, "hello shop.test") {
		t.Errorf("got %q", all)
	}
}

func TestTheEnvironmentsProxyIsIgnored(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://"+closedPort(t))
	t.Setenv("HTTP_PROXY", "http://"+closedPort(t))
	t.Setenv("ALL_PROXY", "http://"+closedPort(t))
	w := world.New(t, world.Options{Handler: hello})
	onEach(t, world.Ways, func(t *testing.T, via world.Way) {
		if a := w.Get(t, via, "/"); a.StatusCode != 200 {
			t.Errorf("%d %s", a.StatusCode, a.Text)
		}
	})
	c := w.Connect(t, w.Origin.Addr("80")) // of no site: a blind tunnel
	c.Send("GET / HTTP/1.1\r\nHost: x\r\n\r\n")
	if a := c.Answer("GET"); a.StatusCode != 200 {
		t.Errorf("a blind tunnel: %d %s", a.StatusCode, a.Text)
	}
}
