//go:build linux

// Command bench measures what sessionproxy costs: against goproxy's own
// interception as the yardstick, in interleaved rounds on one machine, over TLS
// on both sides, with nothing but loopback between the parts.
//
//	go run ./internal/bench [-rows keep-alive,h2] [-rounds 7] [-seconds 1.5]
//
// Every proxy is a process of its own, all on one core; the load and the origin
// share this process on the others. CPU time of the proxy's process for each
// request is the figure that budgets are written in: it holds where requests a
// second depend on what else the machine does. Ratios are taken round by round
// from neighbours in time, and their median is what counts.
//
// It judges no correctness beyond what keeps the comparison honest: each
// response has the status and length that the origin gave it, and each request
// reaches the origin with as many cookies as its proxy should attach.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == yardstickRole {
		fmt.Fprintln(os.Stderr, serveYardstick(os.Args[2:]))
		os.Exit(1)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// run returns 0 when all rows were measured, whatever their budgets say, 1 on failure, 2 on wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	opts, err := parse(args, stderr)
	if err != nil {
		return 2 // the flag package has said why
	}
	if opts.scale {
		steps, err := scale(ctx, opts, stderr)
		if err = errors.Join(err, keepSteps(opts, steps)); err != nil {
			fmt.Fprintln(stderr, "bench:", err)
			return 1
		}
		return 0
	}
	results, err := measure(ctx, opts, stderr)
	// What was measured before a failure is still worth reading, and keeping.
	err = errors.Join(err, printResults(stdout, results), keep(opts, results), judge(opts.gate, results))
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 1
	}
	return 0
}

type options struct {
	rows       []row
	proxies    []string
	rounds     int
	window     time.Duration // of one round of one proxy
	idle       int           // connections held in the idle rows
	idleRounds int           // at most, of those
	calm       time.Duration // for so long memory must stand still before it counts there
	program    string        // sessionproxy; "" builds it
	base       string        // another build of it
	profile    string        // file of sessionproxy's CPU profile

	record, report, gate string // files; "" none
	scale                bool   // measures curves, not rows
}

func parse(args []string, stderr io.Writer) (options, error) {
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(stderr)
	rowList := fs.String("rows", "", "what to measure (default all)")
	proxyList := fs.String("proxies", "", "whom to measure (default all)")
	peers := fs.Bool("peers", false, "measure what a user would run otherwise, too: mitmproxy, Squid, nginx, from Debian's packages")
	curve := fs.Bool("scale", false, "measure how the cost of a request changes with clients, sessions and proxies; no rows")
	rounds := fs.Int("rounds", 7, "interleaved rounds of each row")
	seconds := fs.Float64("seconds", 1.5, "length of one round of one proxy")
	idle := fs.Int("idle", 0, "connections held in the idle rows (default 1000, with -peers 10000)")
	quick := fs.Bool("quick", false, "one short round of each: shows that all works; its figures mean nothing")
	program := fs.String("program", "", "`FILE` of the sessionproxy to measure (default: builds this tree's)")
	baseFile := fs.String("base", "", "`FILE` of another sessionproxy, to be measured beside in the same rounds")
	profile := fs.String("profile", "", "`FILE` for a CPU profile of sessionproxy; one built with -tags profile writes it")
	record := fs.String("record", "", "JSON `FILE` where measured rows are kept, each in the place of an older one")
	report := fs.String("report", "", "markdown `FILE` whose table, and the chart beside it, are made of what -record has kept")
	gate := fs.String("gate", "", "JSON `FILE` of -record to compare with: fails where sessionproxy's ratio has grown by more than a tenth")
	if err := fs.Parse(args); err != nil {
		return options{}, err
	}
	opts := options{
		rounds: *rounds,
		window: time.Duration(*seconds * float64(time.Second)),
		idle:   1000, idleRounds: 3,
		calm:    time.Second,
		program: *program, base: *baseFile, profile: *profile,
		record: *record, report: *report, gate: *gate, scale: *curve,
	}
	all, names := rows, proxyNames
	if *peers {
		all, names, opts.idle, opts.idleRounds = peerRows, append(slices.Clone(proxyNames), peerNames...), 10_000, 1
	}
	if *quick {
		opts.rounds, opts.window, opts.idle, opts.calm = 1, 300*time.Millisecond, 100, 200*time.Millisecond
	}
	if *idle > 0 {
		opts.idle = *idle
	}
	if *rowList == "" {
		*rowList = strings.Join(rowNames(all), ",")
	}
	opts.proxies = names
	if *proxyList != "" {
		opts.proxies = strings.Split(*proxyList, ",")
	}
	if opts.base == "" {
		opts.proxies = slices.DeleteFunc(slices.Clone(opts.proxies), func(name string) bool { return name == base })
	}

	var errs []error
	for name := range strings.SplitSeq(*rowList, ",") {
		i := slices.IndexFunc(all, func(r row) bool { return r.name == name })
		if i < 0 {
			errs = append(errs, fmt.Errorf("-rows %s: there are %s", name, strings.Join(rowNames(all), ", ")))
			continue
		}
		r := all[i]
		if !slices.Contains(opts.proxies, r.yardstick) && slices.Contains(opts.proxies, base) { // two builds alone
			r.yardstick, r.budget, r.goal = base, 0, 0
		}
		opts.rows = append(opts.rows, r)
	}
	for _, name := range opts.proxies {
		if !slices.Contains(names, name) {
			errs = append(errs, fmt.Errorf("-proxies %s: there are %s", name, strings.Join(names, ", ")))
		}
	}
	if opts.rounds < 1 {
		errs = append(errs, fmt.Errorf("-rounds %d: must be positive", opts.rounds))
	}
	if opts.window <= 0 || opts.window > time.Minute {
		errs = append(errs, fmt.Errorf("-seconds %g: must be above 0 and at most 60", *seconds))
	}
	err := errors.Join(errs...)
	if err != nil {
		fmt.Fprintln(stderr, err)
	}
	return opts, err
}
