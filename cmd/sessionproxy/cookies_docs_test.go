package main

import (
	"os"
	"strings"
	"testing"

	"github.com/sessionproxy/sessionproxy/session/cookiefile"
)

// The page says of each tool what the export prints.
func TestTheDocsHaveEachToolsLine(t *testing.T) {
	page, err := os.ReadFile("../../docs/cookies.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range cookiefile.Tools {
		file := map[cookiefile.Format]string{cookiefile.Netscape: "cookies.txt", cookiefile.Playwright: "state.json"}[tool.Format]
		if file == "" {
			file = "cookies.json"
		}
		for line := range strings.SplitSeq(tool.Use(file, "shop.example.com"), "\n") {
			if !strings.Contains(string(page), "`"+line+"`") {
				t.Errorf("docs/cookies.md lacks %s's `%s`", tool.Name, line)
			}
		}
	}
	for _, f := range cookiefile.Formats() {
		if !strings.Contains(string(page), "`"+string(f)+"`") {
			t.Errorf("docs/cookies.md lacks the format `%s`", f)
		}
	}
}
