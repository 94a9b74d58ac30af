//go:build linux

package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func measured(cpu ...time.Duration) result {
	r := row{name: "keep-alive", note: "kept", yardstick: tuned, goal: 0.7}
	res := result{row: r, proxies: []string{sessionproxy, tuned}, samples: map[string][]sample{}}
	for _, d := range cpu {
		res.samples[sessionproxy] = append(res.samples[sessionproxy], sample{cpu: d, perSecond: 1000})
		res.samples[tuned] = append(res.samples[tuned], sample{cpu: 100 * time.Microsecond, perSecond: 1000})
	}
	return res
}

// What is recorded is what the gate compares with, and what the pages show.
func TestRecordedFiguresAreShownAndComparedWith(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	page := filepath.Join(dir, "performance.md")
	if err := os.WriteFile(page, []byte("before\n"+tableBegin+"old\n"+tableEnd+"after\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := options{record: filepath.Join(dir, "performance.json"), report: page}
	for _, res := range []result{measured(300 * time.Microsecond), measured(90*time.Microsecond, 80*time.Microsecond, 70*time.Microsecond)} {
		if err := keep(opts, []result{res}); err != nil { // the second in the place of the first
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(text); !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") || strings.Contains(got, "old") ||
		!strings.Contains(got, "| sessionproxy | 1000 | 0.00 | 0.00 | 80 | 0.8 (0.7–0.9) | 0 |\n") || strings.Count(got, "**keep-alive**") != 1 {
		t.Errorf("the page is\n%s", got)
	}
	wellFormed(t, filepath.Join(dir, "performance.svg"))

	if err := judge(opts.record, []result{measured(87 * time.Microsecond)}); err != nil {
		t.Errorf("a tenth more: %v, want no fault", err)
	}
	if err := judge(opts.record, []result{measured(89 * time.Microsecond)}); err == nil || !strings.Contains(err.Error(), "keep-alive: 0.89 ") {
		t.Errorf("more than a tenth more: %v, want a fault", err)
	}
	if err := judge(filepath.Join(dir, "none"), nil); err == nil {
		t.Error("without a record: no fault")
	}
}

func TestCurvesAreShown(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "scaling.md")
	if err := os.WriteFile(page, []byte(tableBegin+tableEnd), 0o600); err != nil {
		t.Fatal(err)
	}
	opts := options{record: filepath.Join(filepath.Dir(page), "f.json"), report: page, scale: true}
	steps := []step{{Of: "clients", Count: 10, CPU: time.Millisecond}, {Of: "clients", Count: 100, CPU: 2 * time.Millisecond}, {Of: "proxies", Count: 1, CPU: 1}, {Of: "proxies", Count: 2}}
	if err := keepSteps(opts, steps); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), "| 100 | 2000.0 | 0.00 | 0.00 |\n") {
		t.Errorf("the page is\n%s", text)
	}
	wellFormed(t, filepath.Join(filepath.Dir(page), "scaling.svg"))
}

func wellFormed(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := xml.NewDecoder(f); ; {
		if _, err := d.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
	}
}
