package layout_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// link is one of Markdown: what it names, and a heading there.
var link = regexp.MustCompile(`\]\(([^)#\s]*)(?:#([^)\s]*))?\)`)

// A page that README does not name is read by nobody, and a link that leads
// nowhere is worse than none.
func TestLinksBetweenPagesLead(t *testing.T) {
	root := filepath.Join("..", "..")
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		t.Fatal(err)
	}
	docs, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	if err != nil || len(docs) == 0 {
		t.Fatal("no pages", err)
	}
	named := map[string]bool{}
	for _, page := range append(pages, docs...) {
		for _, m := range link.FindAllStringSubmatch(read(t, page), -1) {
			target, heading := m[1], m[2]
			if strings.Contains(target, ":") {
				continue // another site's
			}
			to := page
			if target != "" {
				to = filepath.Join(filepath.Dir(page), target)
			}
			if _, err := os.Stat(to); err != nil {
				t.Errorf("%s links to %s: %v", page, target, err)
				continue
			}
			if heading != "" && !headings(read(t, to))[heading] {
				t.Errorf("%s links to %s: no heading #%s", page, to, heading)
			}
			if filepath.Base(page) == "README.md" {
				named[to] = true
			}
		}
	}
	for _, page := range append(pages, docs...) {
		if filepath.Base(page) != "README.md" && !named[page] {
			t.Errorf("README does not name %s", page)
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

var (
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// headings returns a page's headings as GitHub's anchors.
func headings(text string) map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		all[strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-")] = true
	}
	return all
}
