package e2e_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/sessionproxy/sessionproxy/captcha/captchatest"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
)

// Two browsers send a login form whose captcha nobody solved, at once. One of
// them logs in, with the one token that is solved, and both are in; so are a
// browser that comes later, and curl.
func TestBrowsersAndCurlShareALoginWithACaptcha(t *testing.T) {
	const siteKey, key = "6LdemoDemoDemoDemoDemoDemoDemoDemoDemoDe", "0123456789abcdef0123456789abcdef"
	verifier := captchatest.NewVerifier(captchatest.Widget{SiteKey: siteKey, Secret: formSecret, Hostnames: []string{"shop.test"}})
	service, solver := solving(t, captchatest.Options{Key: key, Threads: 5, Verifier: verifier})
	site := loginsites.New(loginsites.Options{SiteKey: siteKey,
		Solved: func(token string) bool { return verifier.Check(formSecret, token).Success }})
	o := newOrigin(t, site)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "sessionproxy.yaml"), fmt.Appendf(nil, `
state: %s
sites:
  - name: shop
    hosts: [shop.test]
    origin: {ca: %s, resolve: {shop.test: %q}}
    login: {request: {path: /login}, ignore: [token], logged_out: {redirect: "*/login*", body: Please sign in}}
    captcha: [{type: auto, path: /login, prefetch: none, max_wait: 80s}]
captchaai: {key: %s, url: %q}
`, filepath.Join(dir, "state"), o.ca, o.tls, key, solver))
	i := start(t, "serve", "--config", filepath.Join(dir, "sessionproxy.yaml"))
	ca := filepath.Join(dir, "state", "ca.pem")

	var saw struct{ Before, A, B, C string }
	if err := json.Unmarshal([]byte(output(t, []string{"HOME=" + trustingHome(t, ca), "CHROMIUM=" + chromium}, "node", "logins.mjs", "http://"+i.proxy, "https://shop.test")), &saw); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, got, want string }{
		{"before the login a browser is sent to the form", saw.Before, "/login: Please sign in"},
		{"the first browser that sends it", saw.A, "/account: Hello alice"},
		{"the second", saw.B, "/account: Hello alice"},
		{"one that comes later", saw.C, "/account: Hello alice"},
		{"curl", output(t, nil, "curl", "-sx", "http://"+i.proxy, "--cacert", ca, "https://shop.test/account"), "<h1>Hello alice</h1>"},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: saw %q, want %q", tt.name, tt.got, tt.want)
		}
	}
	if site.Attempts() != 1 || site.Logins() != 1 || verifier.Asked() != 1 || len(service.Tasks()) != 1 {
		t.Errorf("%d login forms reached the site, %d logins succeeded, %d tokens were verified, %d captchas were solved, want 1 of each",
			site.Attempts(), site.Logins(), verifier.Asked(), len(service.Tasks()))
	}
}
