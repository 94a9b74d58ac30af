package e2e_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The admin API lists who is logged in where. curl plays each way in.
func TestTheAdminAPIAnswersItsOwnerOnly(t *testing.T) {
	state := t.TempDir()
	i := start(t, "serve", "--share", "shop.test", "--state", state)
	b, err := os.ReadFile(filepath.Join(state, "admin.token"))
	if err != nil {
		t.Fatal(err)
	}
	token := "Authorization: Bearer " + strings.TrimSpace(string(b))
	_, port, _ := strings.Cut(i.admin, ":")
	sessions := "http://" + i.admin + "/api/v1/sessions"

	for _, tt := range []struct {
		name, want string
		args       []string
	}{
		{"with the token it answers", "200", []string{"-H", token, sessions}},
		{"without it, not", "401", []string{sessions}},
		{"with a wrong one, not", "401", []string{"-H", token + "x", sessions}},
		{"a page of another origin is refused before its token is looked at", "403", []string{"-H", token, "-H", "Origin: https://shop.test", sessions}},
		{"a page without an origin of its own, too", "403", []string{"-H", token, "-H", "Origin: null", sessions}},
		{"a cross-site navigation, too", "403", []string{"-H", token, "-H", "Sec-Fetch-Site: cross-site", sessions}},
		{"a rebound name is unknown", "421", []string{"-H", token, "--resolve", "rebound.test:" + port + ":127.0.0.1", "http://rebound.test:" + port + "/api/v1/sessions"}},
		{"through the proxy it is not reached by address", "403", []string{"-x", i.proxy, "-H", token, sessions}},
		{"nor by name", "403", []string{"-x", i.proxy, "-H", token, "http://localhost:" + port + "/api/v1/sessions"}},
		{"nor as an IPv4-mapped address", "403", []string{"-x", i.proxy, "-H", token, "http://[::ffff:127.0.0.1]:" + port + "/api/v1/sessions"}},
		{"nor as the unspecified address", "403", []string{"-x", i.proxy, "-H", token, "http://0.0.0.0:" + port + "/api/v1/sessions"}},
		{"nor through a tunnel", "000 403", []string{"-px", i.proxy, "-H", token, sessions}},
		{"the ops port is not reached either", "403", []string{"-x", i.proxy, "http://" + i.ops + "/metrics"}},
		{"nor is the proxy itself", "403", []string{"-x", i.proxy, "http://" + i.proxy + "/"}},
		{"the CA is for everybody", "200", []string{"http://" + i.admin + "/ca.pem"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			format := "%{http_code}"
			if strings.Contains(tt.want, " ") {
				format += " %{http_connect}"
			}
			args := append([]string{"-so", os.DevNull, "--globoff", "-w", format}, tt.args...)
			got, _ := curl(t, args...)
			if got != tt.want {
				t.Errorf("curl %s: %s, want %s", strings.Join(tt.args, " "), got, tt.want)
			}
		})
	}
	if strings.Contains(i.stderr.String()+i.stdout.String(), strings.TrimSpace(string(b))) {
		t.Error("the token was printed")
	}
}
