package layout_test

import (
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var (
	fuzzTarget = regexp.MustCompile(`(?m)^func (Fuzz\w+)\(`)
	fuzzRow    = regexp.MustCompile("(?m)^\\| `([\\w/]+)` \\| (`Fuzz[^|]*) \\|")
)

// The page of hostile input has each fuzz target, and no other.
func TestFuzzTargetsAreDocumented(t *testing.T) {
	root := filepath.Join("..", "..")
	var want, got []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		dir, err := filepath.Rel(root, filepath.Dir(path))
		if err != nil {
			return err
		}
		for _, m := range fuzzTarget.FindAllStringSubmatch(read(t, path), -1) {
			want = append(want, filepath.ToSlash(dir)+" "+m[1])
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range fuzzRow.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "hostile-input.md")), -1) {
		for target := range strings.SplitSeq(row[2], ", ") {
			got = append(got, row[1]+" "+strings.Trim(target, "`"))
		}
	}
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("docs/hostile-input.md has the fuzz targets\n%q, want\n%q", got, want)
	}
}
