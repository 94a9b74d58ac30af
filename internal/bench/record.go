//go:build linux

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A record is what a file of -record holds.
type record struct {
	Machine string
	Rows    []recordedRow
	Steps   []step
}

// recordedRow is a row's medians.
type recordedRow struct {
	Name, Note string
	Date       string // it was measured
	Rounds     int
	Yardstick  string
	Idle       int `json:",omitempty"` // connections that were held
	Goal       float64
	Proxies    []figures
}

// figures are a proxy's in one row.
type figures struct {
	Name      string
	PerSecond float64
	P50, P99  time.Duration
	CPU       time.Duration // for each request
	Resident  int           // KiB
	Each      float64       `json:",omitempty"` // KiB for each idle connection
	Ratio     float64       `json:",omitempty"` // of CPU, to the yardstick's in the same round
	Least     float64       `json:",omitempty"` // of the ratios
	Most      float64       `json:",omitempty"`
}

// keep writes results to -record's file, and a report of all that it holds.
func keep(opts options, results []result) error {
	if opts.record == "" {
		return nil
	}
	rec, err := readRecord(opts.record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, res := range results {
		row := res.record(opts)
		if i := slices.IndexFunc(rec.Rows, func(r recordedRow) bool { return r.Name == row.Name }); i >= 0 {
			rec.Rows[i] = row
		} else {
			rec.Rows = append(rec.Rows, row)
		}
	}
	order := rowNames(peerRows)
	slices.SortStableFunc(rec.Rows, func(a, b recordedRow) int {
		return slices.Index(order, a.Name) - slices.Index(order, b.Name)
	})
	return rec.write(opts)
}

// keepSteps is keep for the steps of all curves.
func keepSteps(opts options, steps []step) error {
	if opts.record == "" || steps == nil {
		return nil
	}
	rec, err := readRecord(opts.record)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	rec.Steps = steps
	return rec.write(opts)
}

func (rec record) write(opts options) error {
	rec.Machine = machine()
	text, err := json.MarshalIndent(rec, "", "\t")
	if err != nil {
		return err
	}
	if err := os.WriteFile(opts.record, append(text, '\n'), 0o644); err != nil {
		return err
	}
	switch {
	case opts.report == "":
		return nil
	case opts.scale:
		return reportSteps(opts.report, rec)
	}
	return report(opts.report, rec)
}

func readRecord(file string) (rec record, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return rec, err
	}
	if err := json.Unmarshal(text, &rec); err != nil {
		return rec, fmt.Errorf("read %s: %w", file, err)
	}
	return rec, nil
}

func (res result) record(opts options) recordedRow {
	row := recordedRow{
		Name: res.row.name, Note: res.row.note, Date: time.Now().UTC().Format(time.DateOnly),
		Rounds: len(res.samples[res.proxies[0]]), Yardstick: res.row.yardstick, Goal: res.row.goal,
	}
	if res.row.idle {
		row.Idle = opts.idle
	}
	for _, name := range res.proxies {
		samples := res.samples[name]
		f := figures{
			Name:      name,
			PerSecond: middle(samples, func(s sample) float64 { return s.perSecond }),
			P50:       middle(samples, func(s sample) time.Duration { return s.p50 }),
			P99:       middle(samples, func(s sample) time.Duration { return s.p99 }),
			CPU:       middle(samples, func(s sample) time.Duration { return s.cpu }),
			Resident:  middle(samples, func(s sample) int { return s.resident }),
			Each:      middle(samples, func(s sample) float64 { return s.idle }),
		}
		if cost := res.cost(name); cost != nil && !res.row.idle {
			f.Ratio, f.Least, f.Most = median(cost), slices.Min(cost), slices.Max(cost)
		}
		row.Proxies = append(row.Proxies, f)
	}
	return row
}

// judge fails where sessionproxy costs more, against the same yardstick, than
// the file says by over a tenth: what neighbours on the machine can do.
func judge(file string, results []result) error {
	if file == "" {
		return nil
	}
	rec, err := readRecord(file)
	if err != nil {
		return err
	}
	var errs []error
	for _, res := range results {
		cost := res.cost(sessionproxy)
		i := slices.IndexFunc(rec.Rows, func(r recordedRow) bool { return r.Name == res.row.name })
		if cost == nil || i < 0 || res.row.idle {
			continue
		}
		for _, f := range rec.Rows[i].Proxies {
			if now := median(cost); f.Name == sessionproxy && now > f.Ratio*1.1 {
				errs = append(errs, fmt.Errorf("%s: %.3g times %s's CPU, where %.3g is on record", res.row.name, now, res.row.yardstick, f.Ratio))
			}
		}
	}
	return errors.Join(errs...)
}

// machine says what was measured on.
func machine() string {
	name := "unknown CPU"
	cpuinfo, _ := os.ReadFile("/proc/cpuinfo") // without it there is no name
	for line := range strings.SplitSeq(string(cpuinfo), "\n") {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			name = strings.TrimSpace(value)
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%s, %d cores of a virtual machine, Linux %s, %s", name, runtime.NumCPU(), strings.TrimSpace(string(release)), runtime.Version())
}
