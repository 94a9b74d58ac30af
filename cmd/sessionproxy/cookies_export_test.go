package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestReplaceFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for name, mode := range map[string]os.FileMode{"open": 0o644, "target": 0o600} {
		if err := os.WriteFile(in(name), []byte("old"), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("target", in("link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ name, write, read string }{
		{"a new file", "new", "new"},
		{"one that others could read", "open", "open"},
		{"what a link names", "link", "target"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := replaceFile(in(tt.write), []byte("cookies")); err != nil {
				t.Fatal(err)
			}
			info, err := os.Lstat(in(tt.read))
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(in(tt.read))
			if err != nil || string(b) != "cookies" || info.Mode() != 0o600 {
				t.Errorf("%q, %v, mode %v", b, err, info.Mode())
			}
		})
	}
	if info, err := os.Lstat(in("link")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	if err := replaceFile(os.DevNull, []byte("cookies")); err != nil {
		t.Errorf("what is no file: %v", err)
	}
	if err := replaceFile(in("none/file"), nil); err == nil {
		t.Error("a directory that is not there: no error")
	}
	if err := os.Mkdir(in("dir"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := replaceFile(in("dir"), nil); err == nil {
		t.Error("a directory: no error")
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".cookies-") {
			t.Errorf("%s is left behind", e.Name())
		}
	}
}
