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
	tableBegin = "<!-- measured: internal/bench writes what follows -->\n"
	tableEnd   = "<!-- /measured -->\n"
)

// report writes the table into a markdown file, and a chart beside it.
func report(file string, rec record) error {
	if err := fillTable(file, rec.table()); err != nil {
		return err
	}
	return os.WriteFile(chartOf(file), []byte(rec.chart()), 0o644)
}

// reportSteps writes the curves.
func reportSteps(file string, rec record) error {
	if err := fillTable(file, rec.stepTable()); err != nil {
		return err
	}
	return os.WriteFile(chartOf(file), []byte(rec.stepChart()), 0o644)
}

func chartOf(page string) string { return strings.TrimSuffix(page, filepath.Ext(page)) + ".svg" }

// fillTable puts a table in the place of the one that a page has.
func fillTable(file, table string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, found := strings.Cut(string(page), tableBegin)
	_, after, ended := strings.Cut(rest, tableEnd)
	if !found || !ended {
		return fmt.Errorf("write table into %s: it has no lines %q and %q", file, strings.TrimSpace(tableBegin), strings.TrimSpace(tableEnd))
	}
	return os.WriteFile(file, []byte(before+tableBegin+table+tableEnd+after), 0o644)
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

func (rec record) stepTable() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Machine: %s.\n", rec.Machine)
	of := ""
	for _, s := range rec.Steps {
		if s.Of != of {
			of = s.Of
			fmt.Fprintf(&b, "\n| %s | CPU µs/request | p50 ms | p99 ms |\n|---:|---:|---:|---:|\n", of)
		}
		fmt.Fprintf(&b, "| %d | %.1f | %.2f | %.2f |\n", s.Count, 1e3*millis(s.CPU), millis(s.P50), millis(s.P99))
	}
	return b.String()
}

// stepChart draws CPU for each request over the count of each curve, both from
// zero but for the counts, which are logarithmic.
func (rec record) stepChart() string {
	const width, height, gap = 160, 120, 60
	var most float64
	var curves [][]step
	for i, s := range rec.Steps {
		most = max(most, s.CPU.Seconds())
		if i == 0 || s.Of != rec.Steps[i-1].Of {
			curves = append(curves, nil)
		}
		curves[len(curves)-1] = append(curves[len(curves)-1], s)
	}
	var b strings.Builder
	for n, c := range curves {
		left := 20 + n*(width+gap)
		span := math.Log(float64(c[len(c)-1].Count) / float64(c[0].Count))
		fmt.Fprintf(&b, `<text x="%d" y="20" class="head">%s</text><path d="M%d 30v%d h%d" class="axis"/><polyline points="`, left, c[0].Of, left, height, width)
		var labels strings.Builder
		for _, s := range c {
			x := float64(left) + width*math.Log(float64(s.Count)/float64(c[0].Count))/span
			y := 30 + height*(1-s.CPU.Seconds()/(1.2*most))
			fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
			fmt.Fprintf(&labels, `<text x="%.1f" y="%.1f" class="mid">%.0f µs</text><text x="%.1f" y="%d" class="mid">%d</text>`, x, y-6, 1e3*millis(s.CPU), x, height+44, s.Count)
		}
		fmt.Fprintf(&b, `"/>%s`+"\n", labels.String())
	}
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="system-ui,sans-serif" font-size="10">
<style>.head{font-weight:600;font-size:12px}.mid{text-anchor:middle}polyline{fill:none;stroke:#0b7285;stroke-width:2}.axis{fill:none;stroke:#adb5bd}text{fill:#212529}
@media(prefers-color-scheme:dark){text{fill:#dee2e6}polyline{stroke:#3bc9db}}</style>
%s</svg>
`, 20+3*(width+gap), height+60, b.String())
}
