// Package dashboard is the page at / of the admin listener: files that a
// browser runs, built by nothing. They hold no data; what the page shows it
// asks of the API, as whoever is logged in.
package dashboard

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"time"
)

//go:embed assets
var embedded embed.FS

// Prefix is the path below which the page's files are.
const Prefix = "/dashboard/"

// Policy is the Content-Security-Policy of the page: it runs and shows nothing
// but its own files, and no text of a session becomes markup in it.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"frame-ancestors 'none'; base-uri 'none'; form-action 'self'; require-trusted-types-for 'script'"

// asset is one file.
type asset struct {
	content []byte
	kind    string
	tag     string // RFC 9110 section 8.8.3
}

// kinds are the types of the files: a machine's own table may know others.
var kinds = map[string]string{
	".html": "text/html; charset=utf-8",
	".css":  "text/css; charset=utf-8",
	".js":   "text/javascript; charset=utf-8",
	".svg":  "image/svg+xml",
}

// files are all, by their paths below assets.
var files = func() map[string]asset {
	all := map[string]asset{}
	err := fs.WalkDir(embedded, "assets", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := embedded.ReadFile(name)
		sum := sha256.Sum256(content)
		all[name[len("assets/"):]] = asset{content, kinds[path.Ext(name)], `"` + hex.EncodeToString(sum[:8]) + `"`}
		return err
	})
	if err != nil {
		panic(err) // what is embedded can be read
	}
	return all
}()

// Serve answers with a file, "index.html" for the page, and says whether there
// is one of that name.
func Serve(w http.ResponseWriter, r *http.Request, name string) bool {
	a, ok := files[name]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Security-Policy", Policy)
	h.Set("Content-Type", a.kind)
	h.Set("Cache-Control", "no-cache") // kept, and asked about each time
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("ETag", a.tag)
	h.Set("Referrer-Policy", "no-referrer")
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(a.content))
	return true
}
