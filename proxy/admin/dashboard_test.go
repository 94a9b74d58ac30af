package admin

import (
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/proxy/admin/dashboard"
)

// from gives a request the fields by which a browser says what it is for.
func from(site, mode, dest string) func(*http.Request) {
	return func(r *http.Request) {
		noToken(r)
		r.Header["Sec-Fetch-Site"], r.Header["Sec-Fetch-Mode"], r.Header["Sec-Fetch-Dest"] = []string{site}, []string{mode}, []string{dest}
	}
}

// The page and its files are for everybody, and hold nothing; no other page may
// load them, and whoever follows a link to the page gets it.
func TestWhoGetsTheDashboard(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t))
	for _, tt := range []struct {
		name, path string
		change     func(*http.Request)
		want       int
		code       string
	}{
		{"a browser", "/", from("none", "navigate", "document"), 200, ""},
		{"its page for its files", "/dashboard/main.js", from("same-origin", "cors", "script"), 200, ""},
		{"who follows a link of another site", "/", from("cross-site", "navigate", "document"), 200, ""},
		{"not a frame of another site", "/", from("cross-site", "navigate", "iframe"), 403, "foreign_origin"},
		{"not a script of another site", "/", from("cross-site", "no-cors", "empty"), 403, "foreign_origin"},
		{"nor for a file", "/dashboard/main.js", from("cross-site", "no-cors", "script"), 403, "foreign_origin"},
		{"not a link of another site to anything else", "/api/v1/version", from("cross-site", "navigate", "document"), 403, "foreign_origin"},
		{"nor to the CA", "/ca.pem", from("cross-site", "navigate", "document"), 403, "foreign_origin"},
		{"not under a rebound name", "/", func(r *http.Request) { r.Host = "rebound.test:8081" }, 421, "unknown_host"},
		{"not a form of another site", "/", func(r *http.Request) { from("cross-site", "navigate", "document")(r); r.Method = "POST" }, 403, "foreign_origin"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(api, "GET", tt.path, tt.change)
			if tt.code != "" {
				wantProblem(t, w, tt.want, tt.code)
				return
			}
			if w.Code != tt.want || w.Body.Len() == 0 {
				t.Errorf("%d, want %d; %d bytes", w.Code, tt.want, w.Body.Len())
			}
			for name, want := range map[string]string{
				"Content-Security-Policy":      dashboard.Policy,
				"Cross-Origin-Resource-Policy": "same-origin",
				"X-Content-Type-Options":       "nosniff",
				"X-Frame-Options":              "DENY",
				"Referrer-Policy":              "no-referrer",
			} {
				if got := w.Header().Get(name); got != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
			}
			again := ask(api, "GET", tt.path, tt.change, with("If-None-Match", w.Header().Get("ETag")))
			if again.Code != http.StatusNotModified {
				t.Errorf("a second time: %d, want 304", again.Code)
			}
		})
	}
}

// All that the files name is there, and is nobody else's; nothing stands in the
// page that the policy would not let run or show.
func TestTheDashboardIsWhole(t *testing.T) {
	t.Parallel()
	api := New(testOptions(t))
	kinds := map[string]string{"html": "text/html; charset=utf-8", "js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
	reference := regexp.MustCompile(`(?:from|src=|href=|url\() ?"?(\.{0,2}/[^"#)]+)"`)
	foreign := regexp.MustCompile(`(?i)https?://[^\s"'<]+`)
	inline := regexp.MustCompile(`(?i)<script>|<style|\sstyle=|\son[a-z]+=|innerHTML|outerHTML|insertAdjacentHTML|\beval\(|new Function`)
	n := 0
	err := fs.WalkDir(os.DirFS("dashboard/assets"), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		n++
		path := dashboard.Prefix + name
		w := ask(api, "GET", path, noToken)
		kind := kinds[name[strings.LastIndexByte(name, '.')+1:]]
		if w.Code != 200 || w.Header().Get("Content-Type") != kind || kind == "" {
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		text := w.Body.String()
		for _, m := range reference.FindAllStringSubmatch(text, -1) {
			to := m[1]
			if strings.HasPrefix(to, ".") {
				to = clean(path, to)
			}
			if got := ask(api, "GET", to, noToken).Code; got != 200 {
				t.Errorf("%s names %s, which answers %d", name, m[1], got)
			}
		}
		if m := inline.FindString(text); m != "" {
			t.Errorf("%s holds %q", name, m)
		}
		for _, u := range foreign.FindAllString(text, -1) {
			if !strings.HasPrefix(u, "http://www.w3.org/2000/svg") && !regexp.MustCompile(`example|10\.0\.0|PASSWORD|//\$`).MatchString(u) {
				t.Errorf("%s names %s", name, u)
			}
		}
		if lines := strings.Count(text, "\n"); lines > 400 {
			t.Errorf("%s has %d lines", name, lines)
		}
		return nil
	})
	if err != nil || n < 10 {
		t.Errorf("%d files: %v", n, err)
	}
}

// clean is where a module's import leads.
func clean(from, to string) string {
	dir := from[:strings.LastIndexByte(from, '/')]
	for {
		if rest, ok := strings.CutPrefix(to, "../"); ok {
			dir, to = dir[:strings.LastIndexByte(dir, '/')], rest
			continue
		}
		return dir + "/" + strings.TrimPrefix(to, "./")
	}
}
