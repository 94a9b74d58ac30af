package e2e_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/freeport"
)

func TestTheDemosLinesRunAsPrinted(t *testing.T) {
	i := start(t, "demo")
	waitUntil(t, "introduced", func() bool { return strings.Contains(i.stdout.String(), "Ctrl-C") })
	var script []string
	for line := range strings.Lines(i.stdout.String()) {
		if command, ok := strings.CutPrefix(line, "  "); ok {
			script = append(script, command)
		}
	}
	dir := t.TempDir()
	got := output(t, []string{"HOME=" + dir}, "bash", "-euo", "pipefail", "-c", "cd "+dir+"\n"+strings.Join(script, ""))
	want := `303 https://shop.test/login?next=/account
303 https://shop.test/account
{"user":"alice"}
sessionproxy_logins_total{outcome="in",site="shop.test"} 1
sessionproxy_logins_total{outcome="shared",site="shop.test"} 9
{"error":"not signed in"}
data-sitekey="6LdemoDemoDemoDemoDemoDemoDemoDemoDemoDe"
303 https://shop.test/thanks
`
	if got != want {
		t.Errorf("the printed lines print\n%s\nwant\n%s", got, want)
	}
}

// What README shows is what one sees.
func TestTheSessionInREADMEIsReal(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	i := start(t, "demo")
	session := strings.NewReplacer("/tmp/sessionproxy-demo-…/ca.pem", caOf(t, i), "127.0.0.1:8080", i.proxy, "127.0.0.1:8082", i.ops).
		Replace(string(find(t, readme, "(?s)```console\n(.*?)```")))
	var script, want strings.Builder
	for line := range strings.Lines(session) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			script.WriteString(command)
		} else {
			want.WriteString(line)
		}
	}
	got := output(t, []string{"HOME=" + t.TempDir()}, "bash", "-euo", "pipefail", "-c", `cd "$HOME"`+"\n"+script.String())
	if want := strings.ReplaceAll(want.String(), "\n\n", "\n"); got != strings.TrimPrefix(want, "\n") {
		t.Errorf("README's lines print\n%s\nwant\n%s", got, want)
	}
}

func TestTwoBrowserContextsAndCurlShareALogin(t *testing.T) {
	asking := freeport.Addr(t)
	i := start(t, "demo", "--listen", asking+",ask")
	ca := caOf(t, i)
	home := trustingHome(t, ca)

	var saw struct {
		SentTo, A, B, QA1 string
		Admin             []string
	}
	if err := json.Unmarshal([]byte(output(t, []string{"HOME=" + home, "CHROMIUM=" + chromium}, "node", "road.mjs", "http://"+i.proxy, "http://"+asking, "http://"+i.admin)), &saw); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"a browser with no session is sent to the login page", saw.SentTo, "/login"},
		{"the context that logged in is logged in", saw.A, "alice"},
		{"a context with no cookies is logged in, too", saw.B, "alice"},
		{"another session is not", saw.QA1, "/login"},
		{"curl is logged in", output(t, nil, "curl", "-sx", "http://"+i.proxy, "--cacert", ca, "https://shop.test/api/me"), `"alice"`},
	} {
		if !strings.Contains(tt.got, tt.want) {
			t.Errorf("%s: saw %q, want %q in it", tt.name, tt.got, tt.want)
		}
	}
	for n, got := range saw.Admin {
		if got != "TypeError" && got != "opaque 0" { // neither can be read
			t.Errorf("attempt %d of a page on the admin API: %q, want nothing readable", n, got)
		}
	}
}

// caOf is the file that the demo prints.
func caOf(t *testing.T, i *instance) string {
	t.Helper()
	waitUntil(t, "introduced", func() bool { return strings.Contains(i.stdout.String(), "Ctrl-C") })
	m := regexp.MustCompile(`CURL_CA_BUNDLE=(\S+)`).FindStringSubmatch(i.stdout.String())
	if m == nil {
		t.Fatalf("the demo names no CA:\n%s", i.stdout)
	}
	return m[1]
}
