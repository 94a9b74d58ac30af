package layout_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The machine's clock is set while proxies run, by an hour at times. A time.Time
// knows how much has passed all the same; a number of nanoseconds since 1970 does not.
func TestNoDurationIsMeasuredByAClockThatPeopleSet(t *testing.T) {
	looked := 0
	for _, root := range []string{"captcha", "certs", "cmd", "proxy", "session"} {
		err := filepath.WalkDir(filepath.Join("../..", root), func(path string, _ os.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			text, err := os.ReadFile(path)
			if err == nil && strings.Contains(string(text), ".UnixNano()") {
				t.Errorf("%s keeps a moment by UnixNano: keep the time.Time, or the time.Duration since a fixed one", path)
			}
			looked++
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if looked < 100 {
		t.Errorf("%d files were looked at", looked)
	}
}
