//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// A step is what requests cost with so much of one thing. It is measured on
// sessionproxy with all features on.
type step struct {
	Of    string // clients, sessions or proxies
	Count int
	CPU   time.Duration // of all proxies, for each request
	P50   time.Duration
	P99   time.Duration
}

// The counts that a curve is drawn through, and how many requests a tunnel is
// used for where sessions change with tunnels.
var curves = []struct {
	of        string
	counts    []int
	perTunnel int
}{
	{"clients", []int{10, 100, 500, 2000}, 0},
	{"sessions", []int{10, 1000, 10_000, 100_000}, 50},
	{"proxies", []int{1, 2, 3}, 0},
}

// scale measures all curves, each step for so long, in rounds of all steps of a
// curve: a step's figure is the median of the rounds.
func scale(ctx context.Context, opts options, progress io.Writer) (steps []step, err error) {
	opts.proxies = []string{sessionproxy}
	b, err := makeBed(ctx, opts)
	defer func() { err = errors.Join(err, b.close()) }()
	if err != nil {
		return nil, err
	}
	var running []*proxy
	defer func() {
		for _, p := range running {
			p.stop()
		}
	}()
	for _, c := range curves {
		fmt.Fprintf(progress, "%s: %d rounds of %v\n", c.of, opts.rounds, c.counts)
		proxies := 1
		if c.of == "proxies" {
			proxies = slices.Max(c.counts)
		}
		for len(running) < proxies {
			p, err := b.start(ctx, sessionproxy)
			if err != nil {
				return nil, err
			}
			running = append(running, p)
		}
		samples := make([][]step, len(c.counts))
		for range opts.rounds {
			for i, count := range c.counts {
				l := load{proxies: running[:1], clients: connections, perTunnel: c.perTunnel, length: opts.window}
				switch c.of {
				case "clients":
					l.clients = count
				case "proxies":
					l.proxies = running[:count]
				case "sessions":
					if err := b.fill(ctx, count); err != nil {
						return nil, err
					}
					l.sessions = count
				}
				s, err := l.run(ctx)
				if err != nil {
					return nil, fmt.Errorf("%d %s: %w\n%s", count, c.of, err, running[0].lastWords())
				}
				s.Of, s.Count = c.of, count
				samples[i] = append(samples[i], s)
			}
		}
		for _, of := range samples {
			s := of[0]
			s.CPU = middle(of, func(s step) time.Duration { return s.CPU })
			s.P50 = middle(of, func(s step) time.Duration { return s.P50 })
			s.P99 = middle(of, func(s step) time.Duration { return s.P99 })
			fmt.Fprintf(progress, "%s %d: %.1f µs, p50 %.2f ms\n", s.Of, s.Count, 1e6*s.CPU.Seconds(), millis(s.P50))
			steps = append(steps, s)
		}
	}
	return steps, nil
}

// fill puts sessions into Redis, as workers of other programs would, up to count.
func (b *bed) fill(ctx context.Context, count int) error {
	rdb := redis.NewClient(&redis.Options{Addr: b.redis.addr})
	defer rdb.Close()
	for ; b.filled < count; b.filled += 1000 {
		_, err := rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for n := b.filled; n < b.filled+1000; n++ {
				key := fmt.Sprintf("session:cookies:%s~s%d", originHost, n)
				for i := range sessionCookies {
					pipe.HSet(ctx, key, fmt.Sprintf("session_%d", i), fmt.Sprintf("%032d", n))
				}
				pipe.Expire(ctx, key, time.Hour)
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("fill Redis with sessions: %w", err)
		}
	}
	return nil
}

// atOnce is how many requests are under way at a time, however many clients
// there are: most of many clients are between two requests.
const atOnce = 64

// A load is what one step of a curve is measured under.
type load struct {
	proxies   []*proxy
	clients   int
	sessions  int // that tunnels take turns in; 0: the default session of all
	perTunnel int // requests; 0: without end
	length    time.Duration
}

func (l load) run(ctx context.Context) (step, error) {
	var next atomic.Int64
	user := func() string {
		if l.sessions == 0 {
			return clientName
		}
		return fmt.Sprintf("%s-session-s%d", clientName, int(next.Add(1))%l.sessions)
	}
	open := func(i int) (*h1, error) {
		p := l.proxies[i%len(l.proxies)]
		return dialH1As(p, user(), originHost, p.target("/1k"))
	}
	held := make([]*h1, l.clients)
	defer func() {
		for _, c := range held {
			if c != nil {
				c.Close()
			}
		}
	}()
	for i := range held {
		c, err := open(i)
		if err != nil {
			return step{}, err
		}
		held[i] = c
	}
	// Where tunnels last, nothing of this is measured.
	errs := make([]error, l.clients)
	var wg sync.WaitGroup
	turns := make(chan struct{}, atOnce)
	for i, c := range held {
		wg.Go(func() {
			turns <- struct{}{}
			errs[i] = c.get()
			<-turns
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return step{}, err
	}
	before, err := cpuOf(l.proxies)
	if err != nil {
		return step{}, err
	}
	end := time.Now().Add(l.length)
	took := make([][]time.Duration, l.clients)
	for i := range held {
		wg.Go(func() {
			for made := 1; ; made++ {
				turns <- struct{}{}
				start := time.Now()
				if l.perTunnel > 0 && made%l.perTunnel == 0 {
					held[i].Close()
					if held[i], errs[i] = open(i); errs[i] != nil {
						<-turns
						return
					}
				}
				errs[i] = held[i].get()
				now := time.Now()
				<-turns
				if errs[i] != nil {
					return
				}
				took[i] = append(took[i], now.Sub(start))
				if now.After(end) || ctx.Err() != nil {
					return
				}
			}
		})
	}
	wg.Wait()
	after, err := cpuOf(l.proxies)
	if err := errors.Join(append(errs, err)...); err != nil {
		return step{}, err
	}
	all := slices.Concat(took...)
	slices.Sort(all)
	return step{CPU: (after - before) / time.Duration(len(all)), P50: all[len(all)/2], P99: all[len(all)*99/100]}, nil
}

// cpuOf is the CPU time of several proxies.
func cpuOf(proxies []*proxy) (sum time.Duration, err error) {
	for _, p := range proxies {
		used, err := p.usage()
		if err != nil {
			return 0, err
		}
		sum += used.cpu
	}
	return sum, nil
}
