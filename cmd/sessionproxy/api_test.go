package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/freeport"
	"github.com/sessionproxy/sessionproxy/proxy/admin"
)

// value is in the value of each cookie that the tests set.
const value = "THEVALUE"

// running is a proxy that serves, and what it logs.
type running struct {
	admin, state string
	log          *bytes.Buffer // to be read once the proxy has ended
}

// startProxy serves the sites shop and bank, or the hosts of share.
func startProxy(t *testing.T, share ...string) running {
	t.Helper()
	dir := t.TempDir()
	source := config.Source{LookupEnv: noEnv, Flags: config.Flags{
		Listen: []string{"127.0.0.1:0"}, Admin: "127.0.0.1:0", Ops: "127.0.0.1:0", State: filepath.Join(dir, "state"), Share: share,
	}}
	if len(share) == 0 {
		source.File = filepath.Join(dir, "sessionproxy.yaml")
		if err := os.WriteFile(source.File, []byte(`
clients:
  - {name: crawler, password: x, sites: [shop]}
sites:
  - {name: shop, hosts: [shop.test, "*.shop.test"]}
  - {name: bank, hosts: [bank.test]}
`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := config.Load(source)
	if err != nil {
		t.Fatal(err)
	}
	r := running{state: source.Flags.State, log: new(bytes.Buffer)}
	i, err := openInstance(c, slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})), io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	r.admin = i.admin.Addr().String()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- i.serve(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("serve: %v", err)
		}
		i.close()
		if strings.Contains(r.log.String(), value) {
			t.Errorf("the log holds a value:\n%s", r.log)
		}
	})
	return r
}

// command runs a command against the proxy.
func (r running) command(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	args = append(args, "--admin", r.admin, "--state", r.state)
	code, stdout, stderr = sessionproxy(t.Context(), args...)
	if strings.Contains(stdout+stderr, value) {
		t.Errorf("%s: a value is shown:\n%s%s", args, stdout, stderr)
	}
	return code, stdout, stderr
}

func TestAnOperatorsDay(t *testing.T) {
	r := startProxy(t, "shop.test")
	for _, step := range []struct {
		name string
		args []string
		want string // what stdout is, as a regular expression
	}{
		{"nothing is there", []string{"sessions", "list"}, `SITE +SESSION +STATE +COOKIES +AGE +LAST-USED +BY +ENDS-IN +LOGIN\n`},
		{"a cookie is set", []string{"cookies", "set", "theme=" + value + "; Path=/"},
			`Set the cookie theme for shop\.test/ in the session default of shop\.test\.\n`},
		{"another, by another host", []string{"cookies", "set", "sid=" + value + "; Domain=shop.test; Secure; HttpOnly; SameSite=Lax; Max-Age=7300", "--url", "https://www.shop.test/cart/1"},
			`Set the cookie sid for shop\.test/cart in the session default of shop\.test\.\n`},
		{"one without a name, in another session", []string{"cookies", "set", "=" + value, "--session", "qa1"},
			`Set the cookie \(nameless\) for shop\.test/ in the session qa1 of shop\.test\.\n`},
		{"they are listed", []string{"sessions", "list"},
			`SITE +SESSION +STATE +COOKIES +AGE +LAST-USED +BY +ENDS-IN +LOGIN\n` +
				`shop\.test  default +live +2 +\d+s +\d+s ago +- +1h +unknown\n` +
				`shop\.test  qa1 +live +1 +\d+s +\d+s ago +- +\d+m +unknown\n`},
		{"those of one ID", []string{"sessions", "list", "--session", "qa1", "--site", "shop.test"}, `SITE .*\nshop\.test  qa1 .*\n`},
		{"one is shown", []string{"sessions", "show"},
			`site +shop\.test\nsession +default\nstate +live\nage +\d+s\nends in +1h, unless it is used\nlast used +\d+s ago\n\n` +
				`COOKIE +VALUE +DOMAIN +PATH +ATTRIBUTES +ENDS-IN +SET-BY\n` +
				`sid +\(8 B\) +\.shop\.test +/cart +Secure HttpOnly SameSite=Lax +2h +operator\n` +
				`theme +\(8 B\) +shop\.test +/ +- +session +operator\n`},
		{"a request is explained", []string{"explain", "https://shop.test/cart"},
			`COOKIE +SENT +WHY\nsid +yes +it is for shop\.test and its subdomains, /cart and below\ntheme +yes +it is for shop\.test alone, / and below\n`},
		{"one that gets less", []string{"explain", "http://www.shop.test/cart", "--site", "shop.test"},
			`COOKIE +SENT +WHY\nsid +no +Secure: it goes over https only\ntheme +no +other host: it is for shop\.test alone\n`},
		{"one that gets nothing", []string{"explain", "https://evil.test/"}, `No site declares evil\.test: its requests pass as they are\.\n`},
		{"one of an empty session", []string{"explain", "https://shop.test/", "--session", "qa2"}, `The session qa2 of shop\.test holds no cookies\.\n`},
		{"a cookie is removed", []string{"cookies", "rm", "sid", "--domain", ".shop.test", "--path", "/cart"},
			`Removed 1 cookie named sid from the session default of shop\.test\.\n`},
		{"a session is cleared", []string{"sessions", "clear"}, `Cleared the session default of shop\.test: it held 1 cookie\.\n`},
		{"another is revoked", []string{"sessions", "revoke", "--session", "qa1"}, `Revoked the session qa1 of shop\.test: it held 1 cookie\.\n`},
		{"again", []string{"sessions", "revoke", "--session", "qa1"}, `Revoked the session qa1 of shop\.test: it held no cookies\.\n`},
		{"one that never was", []string{"sessions", "revoke", "--session", "qa8"}, `Revoked the session qa8 of shop\.test: no such session was there\.\n`},
		{"the same is cleared", []string{"sessions", "clear", "--session", "qa9"}, `Cleared the session qa9 of shop\.test: no such session was there\.\n`},
		{"nothing is left", []string{"sessions", "list", "--json"}, `\{"sessions":\[\],"total":0\}\n`},
	} {
		code, stdout, stderr := r.command(t, step.args...)
		if code != exitDone || !regexp.MustCompile(`^`+step.want+`$`).MatchString(stdout) {
			t.Fatalf("%s: %s: exit code %d\n%s%swant %s", step.name, step.args, code, stdout, stderr, step.want)
		}
	}
}

func TestJSONIsTheAPIsOwn(t *testing.T) {
	r := startProxy(t, "shop.test")
	for _, args := range [][]string{
		{"cookies", "set", "sid=" + value},
		{"sessions", "list"},
		{"sessions", "show"},
		{"explain", "https://shop.test/"},
		{"cookies", "rm", "sid"},
		{"sessions", "clear"},
		{"sessions", "revoke"},
	} {
		code, stdout, stderr := r.command(t, append(args, "--json")...)
		var v map[string]any
		if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exitDone {
			t.Errorf("%s: exit code %d, %v\n%s%s", args, code, err, stdout, stderr)
		}
	}
}

func TestWhatAnOperatorIsRefused(t *testing.T) {
	r := startProxy(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // in stderr
	}{
		{"two sites, and none is named", []string{"sessions", "show"}, 2, "say with --site which is meant: shop, bank\nTry \"sessionproxy sessions show --help\"."},
		{"no such site", []string{"sessions", "revoke", "--site", "shp"}, 1, `No site has the name "shp". Declared: "shop", "bank".`},
		{"a session that holds nothing", []string{"sessions", "show", "--site", "shop", "--session", "qa1"}, 1, `The site "shop" has no session "qa1" that holds cookies.`},
		{"the session none", []string{"cookies", "set", "a=1", "--site", "shop", "--session", "none"}, 1, `No session can have the ID "none".`},
		{"a private cookie", []string{"cookies", "set", "csrftoken=" + value, "--site", "shop"}, 1, `"csrftoken" belongs to one worker`},
		{"a host of another site", []string{"cookies", "set", "a=" + value, "--site", "shop", "--url", "https://bank.test/"}, 1, `bank.test is no host of the site "shop".`},
		{"a cookie that is not there", []string{"cookies", "rm", "sid", "--site", "shop"}, 1, "no such cookie"},
		{"a value that is no UTF-8", []string{"cookies", "set", "a=\xff", "--site", "shop"}, 2, "no UTF-8"},
		{"a URL that is not whole", []string{"explain", "shop.test/cart"}, 2, "write the URL in full, such as https://shop.example.com/"},
		{"a URL of another site", []string{"explain", "https://bank.test/", "--site", "shop"}, 1, "it does not belong to the site shop"},
		{"nothing to do", []string{"sessions"}, 2, "say what to do: list, show, login, clear or revoke"},
		{"nothing to do with cookies", []string{"cookies"}, 2, "say what to do: import, export, set or rm"},
		{"something unknown", []string{"sessions", "lst"}, 2, `unknown command "lst" for "sessionproxy sessions"`},
		{"a session without its flag", []string{"sessions", "show", "qa1"}, 2, "sessions show takes no argument: a session is given with --session ID, its site with --site NAME\n"},
		{"no cookie", []string{"cookies", "set"}, 2, "cookies set: write the cookie in quotes, such as 'theme=dark; Path=/'\n"},
		{"a cookie that the shell took apart", []string{"cookies", "set", "a=1", "Path=/"}, 2, "cookies set takes one argument, not 2: write the cookie in quotes"},
		{"no name", []string{"cookies", "rm"}, 2, "cookies rm: name the cookie\n"},
		{"no URL", []string{"explain"}, 2, "explain: name the URL, such as https://shop.example.com/\n"},
		{"an unknown flag", []string{"sessions", "list", "--sit", "shop"}, 2, "unknown flag: --sit"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := r.command(t, tt.args...)
			if code != tt.code || stdout != "" || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit code %d, stdout %q, stderr\n%swant %d and %q", code, stdout, stderr, tt.code, tt.want)
			}
		})
	}
	t.Run("an address that is none", func(t *testing.T) {
		code, _, stderr := sessionproxy(t.Context(), "sessions", "list", "--admin", "8081")
		if want := `"8081" is no address: write HOST:PORT`; code != exitUsage || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d, stderr\n%swant %d and %q", code, stderr, exitUsage, want)
		}
	})
	t.Run("the client's rules are explained", func(t *testing.T) {
		if _, stdout, _ := r.command(t, "explain", "https://bank.test/", "--client", "crawler"); stdout != "The proxy client crawler may not use the site bank.\n" {
			t.Errorf("stdout %q", stdout)
		}
	})
}

func TestWhereNoProxyAnswers(t *testing.T) {
	r := startProxy(t, "shop.test")
	_, port, err := net.SplitHostPort(r.admin)
	if err != nil {
		t.Fatal(err)
	}
	other, open := t.TempDir(), t.TempDir()
	if _, err := admin.Token(other); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(open, "admin.token"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	closed := freeport.Addr(t)
	for _, tt := range []struct{ name, admin, state, token, want string }{
		{"none runs", closed, r.state, "", "ask the proxy at " + closed + ": connect: connection refused; start it, or name its admin API with --admin"},
		{"none has run", r.admin, filepath.Join(other, "none"), "", "no such file or directory; no proxy has run with this directory: name another with --state"},
		{"the token is open to others", r.admin, open, "", "mode 0644 opens the token to other users"},
		{"the state of another proxy", r.admin, other, "", "it takes another token; name the state directory of the proxy that runs there with --state"},
		{"another token", r.admin, other, "x", "it takes another token than that of --token"},
		{"a name that it does not know", "[::ffff:127.0.0.1]:" + port, r.state, "", "This server does not answer to that name. Call it localhost or 127.0.0.1"},
		{"another program", strings.TrimPrefix(stranger.URL, "http://"), r.state, "", "answered 404 Not Found; this is no admin API of a sessionproxy: name it with --admin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"--admin", tt.admin, "--state", tt.state}
			if tt.token != "" {
				args = append(args, "--token", tt.token)
			}
			for _, command := range [][]string{{"sessions", "list"}, {"sessions", "revoke"}, {"cookies", "set", "a=1"}, {"explain", "https://shop.test/"}} {
				code, stdout, stderr := sessionproxy(t.Context(), append(command, args...)...)
				if code != exitFailed || stdout != "" || !strings.Contains(stderr, tt.want) {
					t.Errorf("%s: exit code %d, stdout %q, stderr\n%swant %q", command, code, stdout, stderr, tt.want)
				}
			}
		})
	}
	t.Run("the token of the proxy, and no state", func(t *testing.T) {
		token, err := admin.ReadToken(r.state)
		if err != nil {
			t.Fatal(err)
		}
		if code, _, stderr := sessionproxy(t.Context(), "sessions", "list", "--admin", r.admin, "--state", "/none", "--token", token); code != exitDone {
			t.Errorf("exit code %d\n%s", code, stderr)
		}
	})
}

func TestTables(t *testing.T) {
	now := time.Now()
	unknown := admin.LoginState{Verdict: "unknown"}
	var b bytes.Buffer
	if err := showSessions(&b, admin.Sessions{Sessions: []admin.Session{
		{Site: "shop", Session: "default", State: admin.Live, Cookies: 12, Created: now.Add(-50 * time.Hour), Used: now.Add(-90 * time.Second), Expires: now.Add(30*time.Hour + time.Minute),
			LastUse: &admin.LastUse{At: now.Add(-5 * time.Second), Client: "crawler", Worker: "w1"}, Login: admin.LoginState{Verdict: "out", Rule: "logged_out.status"}},
		{Site: "shop", Session: "qa1", State: admin.Live, Cookies: 1, Created: now.Add(-3 * time.Minute), Used: now.Add(time.Hour), Expires: now.Add(-time.Hour), Login: unknown},
		{Site: "shop", Session: "qa2", State: admin.Live, Cookies: 1, Created: now.Add(-3 * time.Minute), Used: now.Add(-10 * time.Second), Expires: now.Add(time.Hour + time.Minute),
			LastUse: &admin.LastUse{At: now.Add(-time.Minute), Client: "crawler", Worker: "w1"}, Login: unknown},
		{Site: "shop", Session: "qa3", State: admin.Revoked, Revoked: now.Add(-time.Hour), LastUse: &admin.LastUse{At: now.Add(-time.Minute), Worker: "127.0.0.1"}, Login: unknown},
		{Site: "shop", Session: "qa4", State: admin.Empty,
			Login: admin.LoginState{Verdict: "unknown", Failures: 5, Error: "step 2: no", NextTry: now.Add(23*time.Hour + time.Minute)}},
	}}); err != nil {
		t.Fatal(err)
	}
	if want := `SITE  SESSION  STATE    COOKIES  AGE  LAST-USED  BY          ENDS-IN  LOGIN
shop  default  live     12       2d   5s ago     crawler/w1  30h      out (logged_out.status)
shop  qa1      live     1        3m   0s ago     -           0s       unknown
shop  qa2      live     1        3m   10s ago    -           1h       unknown
shop  qa3      revoked  0        -    1m ago     127.0.0.1   -        unknown
shop  qa4      empty    0        -    -          -           -        unknown; the recipe rests for 23h after 5 failures: step 2: no
`; b.String() != want {
		t.Errorf("sessions\n%swant\n%s", &b, want)
	}
	b.Reset()
	if err := showSession(&b, admin.SessionDetail{Session: admin.Session{Site: "shop", Session: "qa3", State: admin.Revoked, Revoked: now.Add(-time.Hour), LastUse: &admin.LastUse{At: now.Add(-time.Minute), Client: "qa", Worker: "127.0.0.1"}}}); err != nil {
		t.Fatal(err)
	}
	if want := `site       shop
session    qa3
state      revoked
revoked    1h ago
last used  1m ago by qa/127.0.0.1
`; b.String() != want {
		t.Errorf("session\n%swant\n%s", &b, want)
	}
	b.Reset()
	// What a hostile site put into names and paths moves no cursor.
	if err := showExplanation(&b, admin.Explanation{Cookies: []admin.Verdict{
		{Name: "a\u009b2J", Reason: "other path: it is for /\u202egnp.exe and below"},
		{Name: "", Sent: true, Reason: "fine"},
		{Name: "größe 1", Sent: true, Reason: "fine"},
	}}); err != nil {
		t.Fatal(err)
	}
	if want := `COOKIE       SENT  WHY
"a\u009b2J"  no    "other path: it is for /\u202egnp.exe and below"
(nameless)   yes   fine
größe 1      yes   fine
`; b.String() != want {
		t.Errorf("verdicts\n%swant\n%s", &b, want)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		-time.Second:             "0s",
		59*time.Second + 999:     "59s",
		time.Minute:              "1m",
		time.Hour - 1:            "59m",
		time.Hour:                "1h",
		48*time.Hour - 1:         "47h",
		48 * time.Hour:           "2d",
		400 * 24 * time.Hour:     "400d",
		time.Duration(1<<63 - 1): fmt.Sprintf("%dd", 106751),
	} {
		if got := span(d); got != want {
			t.Errorf("%d: %s, want %s", d, got, want)
		}
	}
}
