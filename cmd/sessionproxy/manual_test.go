package main

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

// The release's manual pages are made by the test that reads them, so that the
// program itself carries no writer of them.
var manual = flag.String("manual", "", "write the manual pages into this `directory`, which has to exist")

func TestManual(t *testing.T) {
	dir := *manual
	if dir == "" {
		dir = t.TempDir()
	}
	root := rootCommand(os.LookupEnv)
	root.InitDefaultCompletionCmd()
	root.DisableAutoGenTag = true
	// Their date is SOURCE_DATE_EPOCH.
	if err := doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "sessionproxy", Manual: "sessionproxy"}, dir); err != nil {
		t.Fatal(err)
	}
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		page, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Error(err)
		}
		for _, want := range []string{".SH NAME", ".SH SYNOPSIS", c.Short} {
			// The writer of pages masks what troff would read.
			if !strings.Contains(strings.ReplaceAll(string(page), `\`, ""), want) {
				t.Errorf("the page of %q has no %q", c.CommandPath(), want)
			}
		}
		for _, below := range c.Commands() {
			if below.IsAvailableCommand() {
				visit(below)
			}
		}
	}
	visit(root)
}
