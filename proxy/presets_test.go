package proxy_test

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/internal/loginsites"
	"github.com/sessionproxy/sessionproxy/internal/world"
)

// The blocks of docs/login.md, as they stand there, against a site of each
// framework.
func TestFrameworks(t *testing.T) {
	t.Parallel()
	doc, err := os.ReadFile("../docs/login.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllSubmatch(doc, -1)
	sites := []struct {
		name  string
		site  *loginsites.Framework
		page  string // for who is logged in
		form  string // where clients log in; "" the page leads there
		token string // of the form
		user  string // names of the fields
		pass  string
	}{
		{"wordpress", loginsites.WordPress(), "https://blog.example.com/wp-admin/", "https://blog.example.com/wp-login.php", "", "log", "pwd"},
		{"django", loginsites.Django(), "https://admin.example.com/admin/", "https://admin.example.com/admin/login/", "csrfmiddlewaretoken", "username", "password"},
		{"rails", loginsites.Devise(), "https://app.example.com/", "https://app.example.com/users/sign_in", "authenticity_token", "user[email]", "user[password]"},
		{"laravel", loginsites.Laravel(), "https://app.example.com/dashboard", "https://app.example.com/login", "_token", "email", "password"},
		{"keycloak", loginsites.Keycloak("app.example.com", "sso.example.com"), "https://app.example.com/", "https://app.example.com/", "", "username", "password"},
	}
	if len(blocks) != len(sites) {
		t.Fatalf("%d blocks for %d sites", len(blocks), len(sites))
	}
	for i, tt := range sites {
		file := filepath.Join(t.TempDir(), "site.yaml")
		if err := os.WriteFile(file, blocks[i][1], 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(config.Source{File: file, LookupEnv: func(name string) (string, bool) {
			if name == "LOGIN_PASSWORD" {
				return loginsites.Password, true
			}
			return "", false
		}})
		if err != nil {
			t.Fatalf("%s:\n%v", tt.name, err)
		}
		if c.Sites[0].Name != tt.name {
			t.Fatalf("the block of %s is that of %s", tt.name, c.Sites[0].Name)
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clients := c.Sites[0]
			login := *clients.Login
			login.Recipe, login.Accounts = nil, nil
			clients.Login = &login
			t.Run("clients log in", func(t *testing.T) {
				w := world.New(t, world.Options{Handler: tt.site, Config: func(c *config.Config) { c.Sites = []config.Site{clients} }})
				fill := func(client *http.Client, password string) *world.Answer {
					page := world.Do(t, client, world.Request(t, http.MethodGet, tt.form, nil))
					form := url.Values{tt.user: {loginsites.User}, tt.pass: {password}}
					if tt.token != "" {
						m := regexp.MustCompile(`name="` + tt.token + `" value="([^"]*)"`).FindStringSubmatch(page.Text)
						if m == nil {
							return page // logged in already
						}
						form.Set(tt.token, m[1])
					}
					m := regexp.MustCompile(`<form[^>]* action="([^"]*)"`).FindStringSubmatch(page.Text)
					if m == nil {
						return page
					}
					action, err := page.Request.URL.Parse(strings.ReplaceAll(m[1], "&amp;", "&"))
					if err != nil {
						t.Fatal(err)
					}
					return world.Do(t, client, world.Request(t, http.MethodPost, action.String(), strings.NewReader(form.Encode()),
						"Content-Type", "application/x-www-form-urlencoded", "Referer", page.Request.URL.String()))
				}
				follows := func() *http.Client {
					client := *w.Client(world.TunnelH1)
					client.CheckRedirect = nil
					return &client
				}
				if a := fill(follows(), "wrong"); strings.Contains(a.Text, "Hello") {
					t.Errorf("a wrong password: %d %s", a.StatusCode, a.Text)
				}
				if a := fill(follows(), loginsites.Password); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Hello") {
					t.Errorf("the right one: %d %s %s", a.StatusCode, a.Request.URL, a.Text)
				}
				each(5, func(int) {
					if a := fill(follows(), loginsites.Password); a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Hello") {
						t.Errorf("another: %d %s %s", a.StatusCode, a.Request.URL, a.Text)
					}
				})
				if tt.site.Logins() != 1 {
					t.Errorf("%d logins reached the site, want one", tt.site.Logins())
				}
			})
			t.Run("the proxy logs in", func(t *testing.T) {
				before := tt.site.Tries()
				w := world.New(t, world.Options{Handler: tt.site, Config: func(c2 *config.Config) { c2.Sites = c.Sites }})
				for round := 1; round <= 2; round++ {
					tt.site.Expire()
					each(10, func(int) {
						a := world.Do(t, w.Client(world.TunnelH1), world.Request(t, http.MethodGet, tt.page, nil))
						if a.StatusCode != http.StatusOK || !strings.Contains(a.Text, "Hello") {
							t.Errorf("answered %d to %q %s", a.StatusCode, a.Header.Get("Location"), a.Text)
						}
					})
					if got := tt.site.Tries() - before; got != round {
						t.Errorf("%d logins reached the site in round %d", got, round)
					}
				}
			})
		})
	}
}
