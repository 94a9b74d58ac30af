package e2e_test

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/redistest"
)

// fortress is two proxies on one Redis, with an operator, two clients with a
// session each, and a site whose session "boss" is logged in.
type fortress struct {
	a, b   *instance
	state  string
	audits map[*instance]string // files
}

const (
	anaPassword  = "s3cret-of-ana"
	qaPassword   = "s3cret-of-qa"
	bossPassword = "s3cret-of-boss"
	bossCookie   = "boss-is-logged-in"
)

func newFortress(t *testing.T) (*fortress, *origin) {
	t.Helper()
	o := newOrigin(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		switch r.URL.Path {
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<!doctype html><title>A page</title><body>")
		case "/login":
			w.Header().Set("Set-Cookie", "sid="+bossCookie+"; Path=/; Max-Age=3600")
		case "/echo":
			io.WriteString(w, "cookie: "+r.Header.Get("Cookie"))
		}
	}))
	server := redistest.Single(t)
	dir := t.TempDir()
	f := &fortress{state: filepath.Join(dir, "state"), audits: map[*instance]string{}}
	begin := func(name string) *instance {
		config, log := filepath.Join(dir, name+".yaml"), filepath.Join(dir, name+".jsonl")
		write(t, config, fmt.Appendf(nil, `store: %[1]s
audit: {to: %[2]s}
auth: {operators: [{name: ana, password: %[3]s, role: operator}]}
clients:
  - {name: qa, password: %[4]s, sessions: [default]}
  - {name: boss, password: %[5]s, sessions: [boss]}
sites:
  - name: shop
    hosts: [shop.test, evil.test]
    origin: {ca: %[6]s, resolve: {"shop.test:443": %[7]q, "evil.test:443": %[7]q, "shop.test:80": %[8]q, "evil.test:80": %[8]q}}
`, server.URL(), log, anaPassword, qaPassword, bossPassword, o.ca, o.tls, o.plain))
		i := start(t, "serve", "--config", config, "--state", f.state)
		f.audits[i] = log
		return i
	}
	f.a, f.b = begin("a"), begin("b")
	if head, _ := f.as("boss-session-boss", bossPassword, "https://shop.test/login"); !strings.Contains(head, bossCookie) {
		t.Fatalf("the boss can't log in: %s", head)
	}
	return f, o
}

// as asks for a URL by the proxy a, and returns the head and body of the answer.
func (f *fortress) as(user, password, url string) (head, body string) {
	out, err := exec.Command("curl", "-sSi", "--suppress-connect-headers", "--cacert", filepath.Join(f.state, "ca.pem"),
		"-x", "http://"+user+":"+password+"@"+f.a.proxy, url).CombinedOutput()
	if err != nil {
		return err.Error(), string(out)
	}
	head, body, _ = strings.Cut(string(out), "\r\n\r\n")
	return head, body
}

// call uses the admin API of i; into may be nil.
func call(t *testing.T, i *instance, method, path, token string, body, into any) (status int) {
	t.Helper()
	in, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, "http://"+i.admin+"/api/v1/"+path, bytes.NewReader(in))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if into != nil && resp.StatusCode < 300 {
		if err := json.NewDecoder(resp.Body).Decode(into); err != nil {
			t.Fatal(err)
		}
	}
	return resp.StatusCode
}

// wantLine waits for a line of i's audit log with all the parts.
func (f *fortress) wantLine(t *testing.T, i *instance, parts ...string) {
	t.Helper()
	var all string
	waitUntil(t, fmt.Sprintf("a line with %q in the audit log", parts), func() bool {
		b, err := os.ReadFile(f.audits[i])
		if err != nil {
			t.Fatal(err)
		}
		all = string(b)
	lines:
		for line := range strings.Lines(all) {
			for _, p := range parts {
				if !strings.Contains(line, p) {
					continue lines
				}
			}
			return true
		}
		return false
	})
	for _, secret := range []string{anaPassword, qaPassword, bossPassword, bossCookie} {
		if strings.Contains(all, secret) {
			t.Error("a secret is in the audit log")
		}
	}
}

// counted sums i's counter over all series that have the labels.
func counted(t *testing.T, i *instance, name string, labels ...string) (sum float64) {
	t.Helper()
	resp, err := http.Get("http://" + i.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
series:
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		m := regexp.MustCompile(`^` + name + `(\{.*\})? (\S+)$`).FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		for _, l := range labels {
			if !strings.Contains(m[1], l) {
				continue series
			}
		}
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		sum += n
	}
	return sum
}

// wantMore wants the counter to have grown since it was before.
func wantMore(t *testing.T, i *instance, before, by float64, name string, labels ...string) {
	t.Helper()
	if got := counted(t, i, name, labels...); got < before+by {
		t.Errorf("%s%v is %v, and was %v: want %v more", name, labels, got, before, by)
	}
}

type tokens struct {
	Access  string `json:"access_token"`
	Refresh string `json:"refresh_token"`
}

func logIn(t *testing.T, i *instance) tokens {
	t.Helper()
	var in tokens
	if status := call(t, i, "POST", "login", "", map[string]any{"name": "ana", "password": anaPassword}, &in); status != 200 {
		t.Fatalf("log in: %d", status)
	}
	return in
}

// A hostile page in the browser of an operator, who is a client of the proxy
// too, and the admin API through the proxy itself.
func TestAHostilePageInTheBrowserOfAnOperator(t *testing.T) {
	f, o := newFortress(t)
	plan, err := json.Marshal(map[string]any{
		"proxy": "http://" + f.a.proxy, "client": map[string]string{"username": "qa", "password": qaPassword},
		"admin": "http://" + f.a.admin, "operator": map[string]string{"name": "ana", "password": anaPassword},
		"pages": []string{"https://evil.test/page", "http://evil.test/page"},
		// Of another port: the same site to the browser, which sends the cookie.
		"own": "http://" + o.plain,
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "attacks.mjs")
	cmd.Env = append(os.Environ(), "HOME="+trustingHome(t, filepath.Join(f.state, "ca.pem")), "CHROMIUM="+chromium)
	var stderr strings.Builder
	cmd.Stdin, cmd.Stderr = bytes.NewReader(plan), &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("node attacks.mjs: %v\n%s", err, &stderr)
	}
	var saw struct {
		Login    int
		Tabs     [][]int
		Pages    map[string]map[string]any
		Sessions map[string]string
		Rebound  []any
		Through  map[string][]any
	}
	if err := json.Unmarshal(out, &saw); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if saw.Login != 200 || fmt.Sprint(saw.Tabs) != "[[200 200 200] [200 200 200]]" {
		t.Errorf("the operator logs in: %d, and her two tabs get %v", saw.Login, saw.Tabs)
	}
	for url, attempts := range saw.Pages {
		if got := fmt.Sprintf("%v %v %v", attempts["read"], attempts["json"], attempts["navigation"]); got != "TypeError TypeError 403" {
			t.Errorf("a page of %s: %v", url, attempts)
		}
	}
	if len(saw.Pages) != 3 {
		t.Errorf("%d pages tried", len(saw.Pages))
	}
	// Each page sends five POSTs that no preflight stops, and a GET.
	wantMore(t, f.a, 0, 3*4, "sessionproxy_admin_refusals_total", `code="foreign_origin"`)
	wantMore(t, f.a, 0, 1, "sessionproxy_audit_events_total", `reason="foreign_origin"`)
	f.wantLine(t, f.a, `"outcome":"refused"`, `"reason":"foreign_origin"`, `"call":"POST`)
	if _, body := f.as("boss-session-boss", bossPassword, "https://shop.test/echo"); !strings.Contains(body, bossCookie) {
		t.Errorf("a page has ended the session: the boss sends %q", body)
	}

	for url, got := range saw.Sessions {
		if got != "cookie: " {
			t.Errorf("a script of %s that asks for another's session sends %q", url, got)
		}
	}
	f.wantLine(t, f.a, `"action":"client_refused","outcome":"refused","reason":"selector_ignored"`, `"by":"qa"`, `"session":"default"`, `"host":"evil.test"`)
	wantMore(t, f.a, 0, 1, "sessionproxy_audit_events_total", `reason="selector_ignored"`)

	if status, _ := saw.Rebound[0].(float64); status != 421 {
		t.Errorf("a page that rebound its name: %v", saw.Rebound)
	}
	f.wantLine(t, f.a, `"outcome":"refused","reason":"unknown_host"`)
	wantMore(t, f.a, 0, 1, "sessionproxy_admin_refusals_total", `code="unknown_host"`)

	for host, got := range saw.Through {
		if status, _ := got[0].(float64); status != 403 || !strings.Contains(fmt.Sprint(got[1]), "proxy_loop_detected") {
			t.Errorf("the admin through the proxy as %s: %v", host, got)
		}
	}
	f.wantLine(t, f.a, `"action":"client_refused"`, `"reason":"own_listener"`, `"host":"127.0.0.1"`)
	f.wantLine(t, f.a, `"action":"client_refused"`, `"reason":"own_listener"`, `"host":"localhost"`)
	wantMore(t, f.a, 0, float64(len(saw.Through)), "sessionproxy_exchanges_total", `outcome="refused"`)
}

// The admin API is reached through the proxy in no spelling of its address, as
// no browser would send it, and neither is the other proxy's.
func TestTheAdminIsNotReachedThroughTheProxy(t *testing.T) {
	f, _ := newFortress(t)
	_, port, _ := strings.Cut(f.a.admin, ":")
	credentials := "Proxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("qa:"+qaPassword)) + "\r\n"
	for _, tt := range []struct {
		host   string
		status int
		reason string
	}{
		{"127.0.0.1", 403, "own_listener"},
		{"localhost", 403, "own_listener"},
		{"LOCALHOST", 403, "own_listener"},
		{"[::ffff:127.0.0.1]", 403, "own_listener"},
		{"[::ffff:7f00:1]", 403, "own_listener"},
		{"[0:0:0:0:0:ffff:7f00:0001]", 403, "own_listener"},
		{"0.0.0.0", 403, "own_listener"},
		{"[::]", 403, "own_listener"},
		{"2130706433", 400, "target"},
		{"017700000001", 400, "target"},
		{"0x7f000001", 400, "target"},
		{"0x7f.0.0.1", 400, "target"},
		{"0177.0.0.1", 400, "target"},
		{"127.1", 400, "target"},
		{"169.254.169.254", 403, "egress"},
	} {
		for method, head := range map[string]string{
			"GET":     "GET http://%[1]s:%[2]s/api/v1/me HTTP/1.1\r\nHost: %[1]s:%[2]s\r\n%[3]s\r\n",
			"CONNECT": "CONNECT %[1]s:%[2]s HTTP/1.1\r\nHost: %[1]s:%[2]s\r\n%[3]s\r\n",
		} {
			t.Run(method+" "+tt.host, func(t *testing.T) {
				before := counted(t, f.a, "sessionproxy_exchanges_total", `outcome="refused"`)
				c, err := net.Dial("tcp", f.a.proxy)
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				fmt.Fprintf(c, head, tt.host, port, credentials)
				resp, err := http.ReadResponse(bufio.NewReader(c), nil)
				if err != nil {
					t.Fatal(err)
				}
				resp.Body.Close()
				if resp.StatusCode != tt.status || !strings.Contains(resp.Header.Get("Proxy-Status"), tt.reason+":") {
					t.Errorf("%s, Proxy-Status %s; want %d %s", resp.Status, resp.Header.Get("Proxy-Status"), tt.status, tt.reason)
				}
				wantMore(t, f.a, before, 1, "sessionproxy_exchanges_total", `outcome="refused"`)
			})
		}
		f.wantLine(t, f.a, `"action":"client_refused","outcome":"refused","reason":"`+tt.reason+`"`, `"by":"qa"`)
	}
}

// What is stolen at one proxy is found out at the other, and what is revoked at
// one ends at the other.
func TestStolenAndRevokedTokensAtTwoProxies(t *testing.T) {
	f, _ := newFortress(t)

	t.Run("two tabs that refresh at once stay logged in", func(t *testing.T) {
		in := logIn(t, f.a)
		var got [6]tokens
		var wg sync.WaitGroup
		for n := range got {
			wg.Go(func() {
				if status := call(t, []*instance{f.a, f.b}[n%2], "POST", "refresh", "", map[string]string{"refresh_token": in.Refresh}, &got[n]); status != 200 {
					t.Errorf("%d", status)
				}
			})
		}
		wg.Wait()
		for _, g := range got {
			if g.Refresh != got[0].Refresh || call(t, f.b, "GET", "me", g.Access, nil, nil) != 200 {
				t.Error("a tab has other tokens, or ones that are not good")
			}
		}
		if status := call(t, f.a, "POST", "refresh", "", map[string]string{"refresh_token": got[5].Refresh}, nil); status != 200 {
			t.Errorf("the next refresh: %d", status)
		}
	})

	t.Run("a stolen refresh token", func(t *testing.T) {
		before := counted(t, f.a, "sessionproxy_audit_events_total", `action="token_reuse"`)
		victim := logIn(t, f.a)
		thief := victim
		for range 2 { // at the other proxy; twice, so that it is no two tabs
			if status := call(t, f.b, "POST", "refresh", "", map[string]string{"refresh_token": thief.Refresh}, &thief); status != 200 {
				t.Fatalf("the thief: %d", status)
			}
		}
		if status := call(t, f.a, "POST", "refresh", "", map[string]string{"refresh_token": victim.Refresh}, nil); status != 401 {
			t.Errorf("the victim refreshes: %d", status)
		}
		if status := call(t, f.b, "POST", "refresh", "", map[string]string{"refresh_token": thief.Refresh}, nil); status != 401 {
			t.Errorf("the thief goes on: %d", status)
		}
		waitUntil(t, "refused at the other proxy", func() bool { return call(t, f.b, "GET", "me", thief.Access, nil, nil) == 401 })
		f.wantLine(t, f.a, `"action":"token_reuse","outcome":"refused","reason":"reuse"`, `"by":"ana"`)
		wantMore(t, f.a, before, 1, "sessionproxy_audit_events_total", `action="token_reuse"`)
	})

	t.Run("a revoked token of a client closes its tunnel", func(t *testing.T) {
		ana := logIn(t, f.a).Access
		var grant struct{ ID, Token string }
		if status := call(t, f.a, "POST", "access", ana, map[string]any{"client": "qa"}, &grant); status != 201 {
			t.Fatalf("issue: %d", status)
		}
		connect := func() (net.Conn, *http.Response) {
			c, err := net.Dial("tcp", f.b.proxy)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(20 * time.Second))
			fmt.Fprintf(c, "CONNECT shop.test:443 HTTP/1.1\r\nHost: shop.test:443\r\nProxy-Authorization: Basic %s\r\n\r\n",
				base64.StdEncoding.EncodeToString([]byte("qa:"+grant.Token)))
			resp, err := http.ReadResponse(bufio.NewReader(c), nil)
			if err != nil {
				t.Fatal(err)
			}
			return c, resp
		}
		c, resp := connect()
		if resp.StatusCode != 200 {
			t.Fatalf("the token at the other proxy: %s", resp.Status)
		}
		inside := tls.Client(c, &tls.Config{InsecureSkipVerify: true, ServerName: "shop.test"})
		fmt.Fprintf(inside, "GET /echo HTTP/1.1\r\nHost: shop.test\r\n\r\n")
		in := bufio.NewReader(inside)
		resp, err := http.ReadResponse(in, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		if status := call(t, f.a, "DELETE", "access/"+grant.ID, ana, nil, nil); status != 204 {
			t.Fatalf("revoke: %d", status)
		}
		if b, err := in.ReadByte(); err != io.EOF {
			t.Errorf("the tunnel goes on: %q, %v", b, err)
		}
		f.wantLine(t, f.a, `"call":"DELETE /api/v1/access/{id}"`, `"outcome":"done"`, `"target":"`+grant.ID+`"`)
		before := counted(t, f.b, "sessionproxy_auth_failures_total", `reason="token"`)
		if _, resp := connect(); resp.StatusCode != 407 {
			t.Errorf("the token again: %s", resp.Status)
		}
		f.wantLine(t, f.b, `"action":"client_login","outcome":"refused","reason":"credentials"`, `"by":"qa"`)
		wantMore(t, f.b, before, 1, "sessionproxy_auth_failures_total", `reason="token"`)
	})
}
