//go:build linux

package main

import (
	"fmt"
	"html"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// The table stands between these lines of a page.
const (
	tableBegin = "<!-- measured: make bench-peers writes what follows -->\n"
	tableEnd   = "<!-- /measured -->\n"
)

// report writes the table into a markdown file, and a chart beside it.
func report(file string, rec record) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(page), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		return fmt.Errorf("write table into %s: it has no lines %q and %q", file, strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	if err := os.WriteFile(file, []byte(before+tableBegin+rec.table()+tableEnd+after), 0o644); err != nil {
		return err
	}
	chart := strings.TrimSuffix(file, filepath.Ext(file)) + ".svg"
	return os.WriteFile(chart, []byte(rec.chart()), 0o644)
}

func (rec record) table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\n", rec.Machine)
	for _, row := range rec.Rows {
		fmt.Fprintf(&b, "\n**%s**: %s. %s, %d rounds.\n\n", row.Name, row.Note, row.Date, row.Rounds)
		if row.Idle > 0 {
			fmt.Fprintf(&b, "| proxy | KiB each | RSS MiB with %d |\n|---|---:|---:|\n", row.Idle)
			for _, f := range row.Proxies {
				fmt.Fprintf(&b, "| %s | %.1f | %d |\n", f.Name, f.Each, f.Resident/1024)
			}
			continue
		}
		fmt.Fprintf(&b, "| proxy | requests/s | p50 ms | p99 ms | CPU µs/request | CPU to %s | RSS MiB |\n|---|---:|---:|---:|---:|---:|---:|\n", row.Yardstick)
		for _, f := range row.Proxies {
			fmt.Fprintf(&b, "| %s | %s | %.2f | %.2f | %.4g | %.3g (%.3g–%.3g) | %d |\n", f.Name, rate(f.PerSecond),
				millis(f.P50), millis(f.P99), 1e3*millis(f.CPU), f.Ratio, f.Least, f.Most, f.Resident/1024)
		}
	}
	return b.String()
}

func millis(d time.Duration) float64 { return 1e3 * d.Seconds() }

func rate(perSecond float64) string {
	if perSecond < 10 {
		return fmt.Sprintf("%.2g", perSecond)
	}
	return fmt.Sprintf("%.0f", perSecond)
}

// The chart's measures, in px.
const (
	chartLabel = 150 // of a proxy
	chartWidth = 380 // of the axis
	chartBar   = 14
	chartHead  = 34 // above the bars of a row
)

// chart draws the CPU of each proxy in each row, as a multiple of the
// yardstick's, on a logarithmic axis from 1/4 to 64 and more.
func (rec record) chart() string {
	var b strings.Builder
	y := 30
	for _, row := range rec.Rows {
		if row.Idle > 0 {
			continue
		}
		fmt.Fprintf(&b, `<text x="8" y="%d" class="head">%s</text>`+"\n", y+12, html.EscapeString(row.Name+": CPU, times "+row.Yardstick+"'s"))
		top := y + 20
		for i, f := range row.Proxies {
			at := top + i*(chartBar+4)
			one, end := axis(1), axis(f.Ratio)
			kind := "other"
			if f.Name == sessionproxy {
				kind = "ours"
			}
			fmt.Fprintf(&b, `<text x="%d" y="%d" class="name">%s</text><rect x="%.1f" y="%d" width="%.1f" height="%d" class="%s"/><text x="%.1f" y="%d">%.2g</text>`+"\n",
				chartLabel-8, at+11, html.EscapeString(f.Name), min(one, end), at, max(math.Abs(end-one), 1), chartBar, kind, max(one, end)+5, at+11, f.Ratio)
		}
		bottom := top + len(row.Proxies)*(chartBar+4)
		fmt.Fprintf(&b, `<line x1="%.1f" y1="%d" x2="%.1f" y2="%d"/>`+"\n", axis(1), top-4, axis(1), bottom)
		y = bottom + chartHead - 20
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="11">
<style>.head{font-weight:600;font-size:12px}.name{text-anchor:end}.ours{fill:#0b7285}.other{fill:#adb5bd}line{stroke:#495057}text{fill:#212529}
@media(prefers-color-scheme:dark){text{fill:#dee2e6}line{stroke:#adb5bd}.other{fill:#495057}.ours{fill:#3bc9db}}</style>
<text x="8" y="18">CPU time for each request as a multiple of the yardstick's: bars to the left cost less. Logarithmic.</text>
%s</svg>
`, chartLabel+chartWidth+60, y+10, b.String())
}

// axis is where a ratio stands.
func axis(ratio float64) float64 {
	const least, most = 0.25, 256
	at := math.Log(min(max(ratio, least), most)/least) / math.Log(most/least)
	return chartLabel + at*chartWidth
}
