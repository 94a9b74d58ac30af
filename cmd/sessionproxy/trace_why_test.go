package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// whyWorld is a proxy that serves a few sites, all of one origin.
type whyWorld struct {
	running
	proxy    string
	roots    *x509.CertPool
	origin   *httptest.Server
	arrived  chan struct{} // a request came to /wait
	released chan struct{} // closed: it is answered
}

const whyConfig = `
listen: [{addr: "127.0.0.1:0", auth: none}]
admin: 127.0.0.1:0
ops: 127.0.0.1:0
egress: {allow: [127.0.0.0/8, "::1/128"]}
clients:
  - {name: crawler, password: x, sites: [shop, form, exit]}
  - {name: reader, password: x, sites: [shop], access: read}
upstreams:
  eu: {proxies: ["http://127.0.0.1:%d"], wait: 200ms}
sites:
  - name: shop
    hosts: [shop.test]
    origin: {ca: origin.pem, resolve: {shop.test: "%[2]s"}}
    login: {request: {method: POST, path: /login}, logged_out: {redirect: "*/login*"}}
  - name: form
    hosts: [form.test]
    origin: {ca: origin.pem, resolve: {form.test: "%[2]s"}}
    captcha: [{type: recaptcha_v2, path: /send, page: "https://form.test/send", sitekey: 6LcWHYDEFMOoqu5kQfgEHVR2oAbTESTKEYofOURS, when: missing}]
  - {name: exit, hosts: [exit.test], upstream: eu, origin: {ca: origin.pem}}
  - {name: bank, hosts: [bank.test], origin: {ca: origin.pem}}
`

func newWhyWorld(t *testing.T) *whyWorld {
	t.Helper()
	w := &whyWorld{arrived: make(chan struct{}), released: make(chan struct{})}
	w.origin = httptest.NewTLSServer(w)
	t.Cleanup(w.origin.Close)
	cert, key := makeCA(t, false, time.Now().Add(time.Hour), "shop.test", "form.test", "localhost")
	pair, err := tls.X509KeyPair([]byte(cert), []byte(key))
	if err != nil {
		t.Fatal(err)
	}
	w.origin.TLS.Certificates = []tls.Certificate{pair}
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close() // so that nobody listens there
	i, _, _ := guardedInstance(t, map[string]string{
		"sessionproxy.yaml": fmt.Sprintf(whyConfig, closed.Addr().(*net.TCPAddr).Port, w.origin.Listener.Addr()),
		"origin.pem":        cert,
	})
	w.proxy = i.listeners[0].Addr().String()
	w.running = running{admin: i.admin.Addr().String(), state: i.config.State}
	w.roots = x509.NewCertPool()
	w.roots.AppendCertsFromPEM(i.authority.PEM())
	w.roots.AppendCertsFromPEM([]byte(cert))
	return w
}

// ServeHTTP is the origin.
func (w *whyWorld) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/start":
		for _, line := range []string{"sid=" + value + "; Path=/", "admin=" + value + "; Path=/admin", "lang=" + value + "; Path=/; Domain=elsewhere.test", "csrftoken=" + value} {
			rw.Header().Add("Set-Cookie", line)
		}
	case "/rotate":
		rw.Header().Add("Set-Cookie", "sid="+value+"2; Path=/")
	case "/wait":
		w.arrived <- struct{}{}
		<-w.released
	case "/slow":
		time.Sleep(1100 * time.Millisecond) // what it takes to be slow
	case "/account":
		http.Redirect(rw, r, "/login?next="+value, http.StatusFound)
	}
}

// as sends a request as a worker of a client, and returns the answer's ID where
// the proxy gave it.
func (w *whyWorld) as(t *testing.T, client, worker, method, target string, fields ...string) (id string) {
	t.Helper()
	var form io.Reader
	if method == http.MethodPost {
		form = strings.NewReader("name=a")
	}
	r, err := http.NewRequestWithContext(t.Context(), method, target, form)
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(fields); i += 2 {
		r.Header.Set(fields[i], fields[i+1])
	}
	transport := &http.Transport{
		Proxy:           http.ProxyURL(&url.URL{Scheme: "http", User: url.UserPassword(client+"-worker-"+worker, "x"), Host: w.proxy}),
		TLSClientConfig: &tls.Config{RootCAs: w.roots},
	}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}).Do(r)
	if err != nil {
		t.Fatalf("%s %s: %v", method, target, err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.Header.Get("X-Exchange-Id")
}

// Each question that people ask of a proxy that holds their sessions is answered
// by trace or explain, in these words, which docs/trace.md has too.
func TestTenWhys(t *testing.T) {
	t.Parallel()
	w := newWhyWorld(t)
	docs, err := os.ReadFile("../../docs/trace.md")
	if err != nil {
		t.Fatal(err)
	}
	w.as(t, "crawler", "first", "GET", "https://shop.test/start")
	for _, tt := range []struct {
		question string
		act      func(t *testing.T)
		command  []string
		want     string // a regular expression
		words    string // that the page has
	}{
		{"Why was a cookie not sent?", func(t *testing.T) { w.as(t, "crawler", "w1", "GET", "https://shop.test/") },
			[]string{"trace", "--worker", "w1"}, ` ok .* shop/default +1 +1 +- .*\n  not sent: admin: other path: it is for /admin and below\n`, "not sent: admin: other path: it is for /admin and below"},
		{"Why would a cookie not be sent?", func(*testing.T) {},
			[]string{"explain", "https://shop.test/", "--client", "crawler"}, `admin +no +other path: it is for /admin and below\n`, "admin   no    other path: it is for /admin and below"},
		{"Why was an old one sent?", func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.as(t, "crawler", "w2", "GET", "https://shop.test/wait")
			}()
			<-w.arrived
			w.as(t, "crawler", "first", "GET", "https://shop.test/rotate")
			close(w.released)
			<-done
		}, []string{"trace", "--worker", "w2"}, `  sid went with a value that has become old on the way: it was replaced at \d{4}-\d\d-\d\dT[\d:.]+Z\.\n`, "sid went with a value that has become old on the way: it was replaced at"},
		{"Why was I logged out?", func(t *testing.T) { w.as(t, "crawler", "w3", "GET", "https://shop.test/account") },
			[]string{"trace", "--worker", "w3"}, ` 302 .*\n  The reply shows that the session is logged out \(logged_out\.redirect\)\.\n`, "The reply shows that the session is logged out (logged_out.redirect)."},
		{"Why is there no exit?", func(t *testing.T) {
			w.as(t, "crawler", "w4", "GET", "https://exit.test/")
			w.as(t, "crawler", "w4", "GET", "https://exit.test/")
		}, []string{"trace", "--worker", "w4"}, ` 503 .*\n  lease_exhausted: No upstream of the pool eu came free in time: those that are free rest after failures\. Try again in \d+ s\.\n`, "lease_exhausted: No upstream of the pool eu came free in time: those that are free rest after failures."},
		{"Why did the form get no token?", func(t *testing.T) {
			w.as(t, "crawler", "w5", "POST", "https://form.test/send", "Content-Type", "application/x-www-form-urlencoded")
		}, []string{"trace", "--worker", "w5"}, ` 503 .*\n  captcha_failed: This form needs a captcha token, and the proxy has none: nobody is configured to solve it\.\n  no token for recaptcha_v2: no_solver\n`, "captcha_failed: This form needs a captcha token, and the proxy has none: nobody is configured to solve it."},
		{"Why is it slow?", func(t *testing.T) { w.as(t, "crawler", "w6", "GET", "https://shop.test/slow") },
			[]string{"trace", "--worker", "w6"}, `  (\d+\.\d s) of (\d+\.\d s) went by until the head of the site's answer came\.\n`, "went by until the head of the site's answer came."},
		{"Why was it refused?", func(t *testing.T) { w.as(t, "crawler", "w7", "GET", "https://bank.test/") },
			[]string{"trace", "--worker", "w7"}, ` refused +403 .*\n  site_not_allowed: The proxy client crawler may not use the site bank\.\n`, "site_not_allowed: The proxy client crawler may not use the site bank."},
		{"Why was it another session?", func(t *testing.T) {
			w.as(t, "crawler", "w8", "GET", "https://shop.test/", "X-Proxy-Session", "qa1")
		}, []string{"trace", "--worker", "w8"}, ` shop/default .*\n  X-Proxy-Session was ignored: it selects a session on CONNECT, or on plain http\.\n`, "X-Proxy-Session was ignored: it selects a session on CONNECT, or on plain http."},
		{"Why was it not intercepted?", func(t *testing.T) {
			w.as(t, "crawler", "w9", "GET", "https://localhost:"+port(w.origin.Listener.Addr())+"/")
		}, []string{"trace", "--worker", "w9"}, ` CONNECT +localhost:\d+ .*\n  No site declares localhost: the tunnel passed as it is, and nothing in it was looked at\. To have it intercepted, name the host in a site's hosts\.\n`, "the tunnel passed as it is, and nothing in it was looked at. To have it intercepted, name the host in a site's hosts."},
		{"Why was a cookie not captured?", func(*testing.T) {},
			[]string{"trace", "--worker", "first", "--last", "2"}, `  not captured: lang: refused: its Domain is not the host's own, or a public suffix\n`, "not captured: lang: refused: its Domain is not the host's own, or a public suffix"},
		{"Why did a reader's reply set nothing?", func(t *testing.T) { w.as(t, "reader", "w10", "GET", "https://shop.test/start") },
			[]string{"trace", "--worker", "w10"}, `  not captured: sid, admin, csrftoken: the client reader has access: read\n`, "the client reader has access: read"},
	} {
		tt.act(t)
		args := tt.command
		if args[0] == "trace" && len(args) == 3 {
			args = append(args, "--last", "1")
		}
		want, stdout := regexp.MustCompile(tt.want), ""
		for end := time.Now().Add(10 * time.Second); !want.MatchString(stdout); time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) { // the client has its answer before the record is there, but not so long
				t.Fatalf("%s\n%s\nwant %s", tt.question, stdout, want)
			}
			var code int
			var stderr string
			if code, stdout, stderr = w.command(t, args...); code != exitDone {
				t.Fatalf("%s: %d %s", tt.question, code, stderr)
			}
		}
		t.Logf("%s\nsessionproxy %s\n%s", tt.question, strings.Join(args, " "), stdout)
		if !strings.Contains(string(docs), tt.question) || !strings.Contains(string(docs), tt.words) {
			t.Errorf("docs/trace.md lacks %q, or its answer %q", tt.question, tt.words)
		}
	}
}

func port(a net.Addr) string {
	_, p, _ := net.SplitHostPort(a.String())
	return p
}
