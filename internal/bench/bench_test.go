//go:build linux

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"
	"time"
)

// TestMain lets the test binary be a yardstick, as the command is.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == yardstickRole {
		main()
	}
	os.Exit(m.Run())
}

// The whole harness works. What it measures in so short a time says nothing.
func TestQuickRunMeasuresEveryRow(t *testing.T) {
	var stdout, stderr bytes.Buffer
	// Without stock goproxy: 16 clients at once wait long for its RSA keys, above all under -race.
	args := []string{"-quick", "-proxies", "sessionproxy,embedded,tuned,tuned-h2"}
	if code := run(t.Context(), args, &stdout, &stderr); code != 0 {
		t.Fatalf("exit code %d, want 0\n%s", code, &stderr)
	}
	for _, r := range rows {
		if !strings.Contains(stdout.String(), "\n"+r.name) && !strings.HasPrefix(stdout.String(), r.name) {
			t.Errorf("row %s is missing in:\n%s", r.name, &stdout)
		}
	}
	if got := strings.Count(stdout.String(), sessionproxy); got < len(rows) {
		t.Errorf("%s stands in %d rows, want %d:\n%s", sessionproxy, got, len(rows), &stdout)
	}
}

// A proxy that attaches no cookies cannot pass for one that does.
func TestClientsSeeThatCookiesAreMissing(t *testing.T) {
	b, err := makeBed(t.Context(), options{})
	t.Cleanup(func() { b.close() })
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		proxy string
		h2    bool
	}{{stock, false}, {tuned, false}, {tunedH2, true}} {
		p, err := b.start(t.Context(), tt.proxy)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.stop)
		get := func(cookies int) error {
			p.cookies = cookies
			c, err := dial(p, row{path: "/1k", h2: tt.h2}, nil)
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			return c.get()
		}
		if err := get(0); err != nil {
			t.Errorf("through %s, asking for no cookies: %v", tt.proxy, err)
		}
		if err := get(sessionCookies); err == nil || !strings.Contains(err.Error(), "400") {
			t.Errorf("through %s, asking for %d cookies: error %v, want a 400", tt.proxy, sessionCookies, err)
		}
	}
}

func TestWrongUsageNamesTheFlag(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ args, want string }{
		{"-rows keep-alive,warp", "-rows warp: "},
		{"-proxies squid", "-proxies squid: "},
		{"-rounds 0", "-rounds 0: "},
		{"-seconds 61", "-seconds 61: "},
	} {
		var stderr bytes.Buffer
		if code := run(t.Context(), strings.Fields(tt.args), nil, &stderr); code != 2 {
			t.Errorf("%s: exit code %d, want 2", tt.args, code)
		}
		if !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("%s: says %q, want %q", tt.args, &stderr, tt.want)
		}
	}
}

func TestCostIsJudgedByTheMedianOfPairs(t *testing.T) {
	t.Parallel()
	cpu := func(micros ...int) (samples []sample) {
		for _, m := range micros {
			samples = append(samples, sample{cpu: time.Duration(m) * time.Microsecond})
		}
		return samples
	}
	r := row{yardstick: tuned, budget: 1.1, goal: 0.7}
	for _, tt := range []struct {
		name            string
		ours, yardstick []sample
		spread, verdict string
	}{
		{"a busy spell that hits both of a pair changes nothing", cpu(30, 90, 30), cpu(50, 150, 50),
			"0.6 (0.6–0.6)", "≤ 1.1 ok, goal ≤ 0.7 ok"},
		{"one bad pair is outvoted", cpu(40, 40, 200), cpu(50, 50, 50),
			"0.8 (0.8–4)", "≤ 1.1 ok, goal ≤ 0.7 over"},
		{"above the budget", cpu(60, 60), cpu(50, 50),
			"1.2 (1.2–1.2)", "≤ 1.1 over, goal ≤ 0.7 over"},
		{"without a yardstick nothing is judged", cpu(60), nil, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			res := result{row: r, samples: map[string][]sample{sessionproxy: tt.ours}}
			if tt.yardstick != nil {
				res.samples[tuned] = tt.yardstick
			}
			cost := res.cost(sessionproxy)
			if got := spread(cost); got != tt.spread {
				t.Errorf("spread = %q, want %q", got, tt.spread)
			}
			if got := res.verdict(sessionproxy, cost); got != tt.verdict {
				t.Errorf("verdict = %q, want %q", got, tt.verdict)
			}
		})
	}
}

func TestProxyThatEndsAtOnceIsReportedWithItsLog(t *testing.T) {
	b, err := makeBed(t.Context(), options{})
	t.Cleanup(func() { b.close() })
	if err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\necho \"$3:1:1: listen: no such key\" >&2\nexit 2\n"
	if err := os.WriteFile(b.file(sessionproxy), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	b.program = b.file(sessionproxy)
	_, err = b.start(t.Context(), embedded)
	if err == nil || !strings.Contains(err.Error(), "exit status 2") || !strings.Contains(err.Error(), "no such key") {
		t.Errorf("start: error %v, want exit status 2 and the log", err)
	}
}
