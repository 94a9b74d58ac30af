// Package check tests what this directory gives operators to deploy with.
package check

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
)

func file(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// image is what the Dockerfile says of itself.
type image struct{ uid int64 }

func dockerfile(t *testing.T) image {
	t.Helper()
	m := regexp.MustCompile(`(?m)^USER (\d+):`).FindSubmatch(file(t, "../../Dockerfile"))
	if m == nil {
		t.Fatal("the Dockerfile names no user")
	}
	uid, err := strconv.ParseInt(string(m[1]), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return image{uid}
}

// config has sessionproxy judge a configuration beside the secrets that
// secrets.sh makes.
func config(t *testing.T, path string) {
	t.Helper()
	dir := t.TempDir()
	run(t, "..", "sh", "secrets.sh", filepath.Join(dir, "secrets"))
	// The cluster's Redis brings a CA of its own.
	if err := os.WriteFile(filepath.Join(dir, "secrets", "redis-ca.pem"), file(t, filepath.Join(dir, "secrets", "ca.pem")), 0o600); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, "sessionproxy.yaml")
	if err := os.WriteFile(name, file(t, path), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, "../..", "go", "run", "./cmd/sessionproxy", "check", name)
}

func run(t *testing.T, dir, name string, args ...string) {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}
