// Package layout_test keeps the shape of the repository: which package may
// know which, that each says what it is for, and that pages lead to each other.
package layout_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

const module = "github.com/sessionproxy/sessionproxy"

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
	GoFiles    []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Name,Doc,Imports,GoFiles", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("go list: %v", err)
		}
		if len(p.GoFiles) > 0 { // else tests only
			all = append(all, p)
		}
	}
	if len(all) < 8 {
		t.Fatalf("go list shows %d packages of the module, want all of them", len(all))
	}
	return all
}

// What may be imported from outside a part's own folder. cmd imports all.
var arrows = map[string][]string{
	"session": {},
	"certs":   {},
	"captcha": {},
	"proxy":   {"session", "captcha", "internal/config", "internal/password", "internal/spool"},
	// internal: config knows host names, widgets and upstreams, trust knows roots, and clientenv tells the programs of
	// others of a proxy that it asks; the rest are tools of tests, the demo and the bench.
	"internal/config":     {"session", "captcha", "proxy/upstream", "internal/password"},
	"internal/password":   {},
	"internal/trust":      {},
	"internal/clientenv":  {"internal/trust", "internal/config", "proxy/admin", "session"},
	"internal/shop":       {},
	"internal/spool":      {},
	"internal/loginsites": {},
	"internal/freeport":   {},
	"internal/redistest":  {"internal/freeport"},
	"internal/pebbletest": {"internal/freeport"},
	"internal/bench":      {"internal/freeport"},
	"internal/soak":       {"internal/freeport"},
	"internal/world":      {"session", "captcha", "certs", "proxy", "internal/config", "internal/spool"},
}

func TestImportArrows(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		part := partOf(from)
		if part == "cmd" {
			continue
		}
		allowed, ok := arrows[part]
		if !ok {
			t.Errorf("%s belongs to no part that the arrows know", from)
			continue
		}
		for _, i := range p.Imports {
			to, ours := strings.CutPrefix(i, module+"/")
			if !ours || partOf(to) == part {
				continue
			}
			fits := false
			for _, a := range allowed {
				fits = fits || to == a || strings.HasPrefix(to, a+"/")
			}
			if !fits {
				t.Errorf("%s imports %s; %s may import %v", from, to, part, allowed)
			}
		}
	}
}

func partOf(path string) string {
	parts := strings.SplitN(path, "/", 3)
	if parts[0] == "internal" && len(parts) > 1 {
		return parts[0] + "/" + parts[1]
	}
	return parts[0]
}

func TestEachPackageSaysWhatItIsFor(t *testing.T) {
	for _, p := range packages(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its package comment begins %q, want %q", p.ImportPath, p.Doc, want+"…")
		}
	}
}
