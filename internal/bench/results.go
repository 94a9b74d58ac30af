//go:build linux

package main

import (
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// printResults writes what was measured as two tables, of requests and of idle
// connections. Figures are medians of the rounds.
func printResults(w io.Writer, results []result) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	printTable(tw, results, false, "req/s\tp50 ms\tp99 ms\tCPU µs/req\tRSS MiB\tCPU to yardstick")
	printTable(tw, results, true, "KiB/connection\tRSS MiB")
	for _, res := range results {
		fmt.Fprintf(tw, "%s\t%s\n", res.row.name, res.row.note)
	}
	if len(results) > 0 {
		fmt.Fprintln(tw, "\nFigures are medians of the rounds (least–greatest); ratios are taken within a round.")
		fmt.Fprintf(tw, "%s, CPUs for load and origin: %d.\n", runtime.Version(), runtime.GOMAXPROCS(0))
	}
	return tw.Flush()
}

func printTable(w io.Writer, results []result, idle bool, figures string) {
	head := "row\tproxy\trounds\t" + figures + "\tbudget\n"
	for _, res := range results {
		if res.row.idle != idle {
			continue
		}
		fmt.Fprint(w, head)
		head = ""
		title := res.row.name
		for _, name := range res.proxies {
			samples := res.samples[name]
			cells := []string{title, name, fmt.Sprint(len(samples))}
			cells = append(cells, res.figures(name)...)
			fmt.Fprintln(w, strings.Join(cells, "\t"))
			title = ""
		}
	}
	if head == "" {
		fmt.Fprintln(w)
	}
}

// figures are one proxy's cells of the table.
func (res result) figures(name string) []string {
	samples, cost := res.samples[name], res.cost(name)
	resident := fmt.Sprint(middle(samples, func(s sample) int { return s.resident }) / 1024)
	if res.row.idle {
		return []string{spread(cost), resident, res.verdict(name, cost)}
	}
	return []string{
		fmt.Sprintf("%.0f", middle(samples, func(s sample) float64 { return s.perSecond })),
		fmt.Sprintf("%.2f", 1e3*middle(samples, func(s sample) time.Duration { return s.p50 }).Seconds()),
		fmt.Sprintf("%.2f", 1e3*middle(samples, func(s sample) time.Duration { return s.p99 }).Seconds()),
		fmt.Sprintf("%.1f", 1e6*middle(samples, func(s sample) time.Duration { return s.cpu }).Seconds()),
		resident,
		spread(cost),
		res.verdict(name, cost),
	}
}

// cost is what the budget bounds, round by round: CPU time over the
// yardstick's in the same round, or KiB of each idle connection. It is nil if
// the yardstick was left out.
func (res result) cost(name string) []float64 {
	var cost []float64
	for i, s := range res.samples[name] {
		if res.row.idle {
			cost = append(cost, s.idle)
		} else if base := res.samples[res.row.yardstick]; base != nil {
			cost = append(cost, float64(s.cpu)/float64(base[i].cpu))
		}
	}
	return cost
}

// verdict judges sessionproxy's cost by budget and goal.
func (res result) verdict(name string, cost []float64) string {
	if name != sessionproxy || cost == nil {
		return ""
	}
	var words []string
	for _, limit := range []struct {
		name string
		most float64
	}{{"", res.row.budget}, {"goal ", res.row.goal}} {
		if limit.most == 0 {
			continue
		}
		word := "ok"
		if median(cost) > limit.most {
			word = "over"
		}
		words = append(words, fmt.Sprintf("%s≤ %g %s", limit.name, limit.most, word))
	}
	return strings.Join(words, ", ")
}

// spread is the median with the least and the greatest.
func spread(values []float64) string {
	if values == nil {
		return ""
	}
	return fmt.Sprintf("%.3g (%.3g–%.3g)", median(values), slices.Min(values), slices.Max(values))
}

type number interface {
	~int | ~int64 | ~float64
}

// middle is the median of one figure of the samples.
func middle[S any, T number](samples []S, figure func(S) T) T {
	values := make([]T, len(samples))
	for i, s := range samples {
		values[i] = figure(s)
	}
	return median(values)
}

// median returns the middle value, the mean of two if their count is even.
func median[T number](values []T) T {
	sorted := slices.Sorted(slices.Values(values))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}
