//go:build linux

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// connections is how many clients work at once.
const connections = 16

// A sample is what one round of one proxy gave.
type sample struct {
	perSecond float64
	p50, p99  time.Duration
	cpu       time.Duration // of the proxy's process and its children, for each request
	resident  int           // KiB, of the proxy and its children, at the end
	idle      float64       // KiB for each idle connection; only in idle rows
}

// A result is a row's samples by proxy, in the order of the rounds.
type result struct {
	row     row
	proxies []string
	samples map[string][]sample
}

// measure runs all rows. After an error it returns what came before.
func measure(ctx context.Context, opts options, progress io.Writer) (results []result, err error) {
	b, err := makeBed(ctx, opts)
	defer func() { err = errors.Join(err, b.close()) }()
	if err != nil {
		return nil, err
	}
	running := make(map[string]*proxy)
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	for _, r := range opts.rows {
		rounds := opts.rounds
		if r.idle {
			rounds = min(rounds, opts.idleRounds) // memory does not depend on the moment
		}
		res := result{row: r, proxies: r.among(opts.proxies), samples: make(map[string][]sample)}
		fmt.Fprintf(progress, "%s: %d rounds of %s\n", r.name, rounds, strings.Join(res.proxies, ", "))
		for round := range rounds {
			order := slices.Clone(res.proxies)
			if round%2 == 1 {
				slices.Reverse(order) // A B, B A: a machine that slowly gets busier favours neither
			}
			for _, name := range order {
				var s sample
				switch {
				case r.idle:
					s, err = b.holdIdle(ctx, r, name, opts.idle, opts.calm)
				case r.hosts > 0:
					s, err = b.loadFresh(ctx, r, name)
				default:
					s, err = b.load(ctx, r, name, running, opts.window)
				}
				if ctx.Err() != nil { // the proxies had the signal too, so err says nothing
					return results, context.Cause(ctx)
				}
				if err != nil {
					return results, fmt.Errorf("%s, round %d, %s: %w", r.name, round+1, name, err)
				}
				res.samples[name] = append(res.samples[name], s)
			}
		}
		results = append(results, res)
	}
	return results, nil
}

// load measures one round of requests. Proxies are started at their first
// round, warmed, and left in running for the next.
func (b *bed) load(ctx context.Context, r row, name string, running map[string]*proxy, length time.Duration) (sample, error) {
	p := running[name]
	if p == nil {
		var err error
		if p, err = b.start(ctx, name); err != nil {
			return sample{}, err
		}
		running[name] = p
		if _, err := p.round(ctx, r, length/3); err != nil {
			return sample{}, fmt.Errorf("%w\n%s", err, p.lastWords())
		}
	}
	s, err := p.round(ctx, r, length)
	if err != nil {
		return sample{}, fmt.Errorf("%w\n%s", err, p.lastWords())
	}
	return s, nil
}

// loadFresh measures a proxy from its start, over as many requests as the row
// has hosts.
func (b *bed) loadFresh(ctx context.Context, r row, name string) (sample, error) {
	p, err := b.start(ctx, name)
	if err != nil {
		return sample{}, err
	}
	defer p.stop()
	s, err := p.round(ctx, r, 0)
	if err != nil {
		return sample{}, fmt.Errorf("%w\n%s", err, p.lastWords())
	}
	return s, nil
}

// round lets all clients make requests for so long, each finishing its last.
func (p *proxy) round(ctx context.Context, r row, length time.Duration) (sample, error) {
	workers := make([]worker, r.clients())
	for i := range workers {
		w := &workers[i]
		w.took = make([]time.Duration, 0, 1<<16)
		if r.resume {
			w.tickets = tls.NewLRUClientSessionCache(1)
		}
		if r.fresh && !r.resume {
			continue
		}
		// The first request is not measured: it may open a connection to the origin, or earn a ticket.
		c, err := dial(p, r, w.tickets)
		if err != nil {
			return sample{}, err
		}
		defer c.Close()
		if err := c.get(); err != nil {
			return sample{}, err
		}
		w.client = c
	}

	before, err := p.usage()
	if err != nil {
		return sample{}, err
	}
	start := time.Now()
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() { workers[i].run(ctx, p, r, start.Add(length)) })
	}
	wg.Wait()
	elapsed := time.Since(start)
	after, err := p.usage()
	if err != nil {
		return sample{}, err
	}

	var took []time.Duration
	for _, w := range workers {
		if w.err != nil {
			return sample{}, w.err
		}
		took = append(took, w.took...)
	}
	slices.Sort(took)
	s := sample{
		perSecond: float64(len(took)) / elapsed.Seconds(),
		p50:       took[len(took)/2],
		p99:       took[len(took)*99/100],
		cpu:       (after.cpu - before.cpu) / time.Duration(len(took)),
	}
	s.resident = after.resident
	return s, nil
}

// clients is how many work at once.
func (r row) clients() int {
	if r.alone {
		return 1
	}
	return connections
}

// A worker is one client and the time that its requests took.
type worker struct {
	client  client // nil where each request has a new one
	tickets tls.ClientSessionCache
	took    []time.Duration
	err     error // ended it early
}

// run makes at least one request.
func (w *worker) run(ctx context.Context, p *proxy, r row, end time.Time) {
	for {
		start := time.Now()
		if r.fresh {
			w.err = once(p, r, w.tickets)
		} else {
			w.err = w.client.get()
		}
		now := time.Now()
		if w.err != nil {
			return
		}
		w.took = append(w.took, now.Sub(start))
		if ctx.Err() != nil || r.over(len(w.took), now, end) {
			return
		}
	}
}

// over says whether a client has made enough requests.
func (r row) over(made int, now, end time.Time) bool {
	if r.hosts > 0 {
		return made >= r.hosts/r.clients()
	}
	return now.After(end)
}

// once makes one request on a new connection and closes it, without having announced that.
func once(p *proxy, r row, tickets tls.ClientSessionCache) error {
	c, err := dial(p, r, tickets)
	if err != nil {
		return err
	}
	return errors.Join(c.get(), c.Close())
}
