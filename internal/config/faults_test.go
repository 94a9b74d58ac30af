package config

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write golden files and docs/configuration.md anew")

// environment is what the tests' configurations see.
var environment = map[string]string{
	"CRAWLER_PASSWORD": "hunter2", "CAPTCHA_KEY": "hunter2hunter2hunter2hunter2hunt", "EMPTY": "",
	"SHOP_PASSWORD": "hunter3", "SHOP_TOTP": "JBSW Y3DP EHPK 3PXP",
}

func lookup(env map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := env[name]
		return value, ok
	}
}

// Each testdata/faults/NAME.yaml is a wrong configuration, and NAME.txt what
// its author reads.
func TestFaults(t *testing.T) {
	files, err := filepath.Glob("testdata/faults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatal("no wrong configurations", err)
	}
	goldens, err := filepath.Abs("testdata/faults")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeKeys(t, dir)
	t.Chdir(dir)
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(goldens, name+".yaml"))
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile("shop.yaml", text, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = Load(Source{File: "shop.yaml", LookupEnv: lookup(environment)})
			if err == nil {
				t.Fatal("Load found no fault")
			}
			faults, ok := errors.AsType[Faults](err)
			if !ok {
				t.Fatalf("Load: %v, want Faults", err)
			}
			for _, f := range faults {
				if f.Remedy == "" {
					t.Errorf("%s says not what would be right", f.Message)
				}
			}
			golden(t, filepath.Join(goldens, name+".txt"), err.Error()+"\n")
			if strings.Contains(err.Error(), "hunter") {
				t.Error("a secret is shown")
			}
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s (write it anew with -update):\ngot\n%s\nwant\n%s", filepath.Base(file), got, want)
	}
}
