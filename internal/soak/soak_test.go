package soak

import (
	"context"
	"crypto/x509"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	soakFor = flag.Duration("for", 15*time.Second, "how long the load lasts")
	many    = flag.Int("clients", 200, "how many clients there are; 5000 sessions are theirs")
	pause   = flag.Duration("pause", 4*time.Second, "how long a client rests between two requests, on average")
	chaos   = flag.Bool("chaos", false, "break one part after the other meanwhile")
)

const proxies = 3

// TestSoak fails where anything is lost, leaked or spent twice; without faults,
// also where any request fails, and where memory or goroutines grow in a minute
// or more.
func TestSoak(t *testing.T) {
	o := newOrigin(t)
	g := newGroup(t, o, proxies)
	pem, err := os.ReadFile(filepath.Join(g.dir, "ca", "ca.pem"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	c := &clients{t: t, origin: o, group: g, roots: roots, figures: newFigures()}

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var running sync.WaitGroup
	for i := range *many {
		running.Go(func() { c.newClient(i).run(ctx, *many, *pause) })
	}
	var watching sync.WaitGroup
	watched := &samples{group: g}
	watching.Go(func() { watched.run(ctx, c.figures) })
	if *chaos {
		g.breakAll(t, o, c.figures, *soakFor)
	} else {
		time.Sleep(*soakFor)
	}
	stop()
	running.Wait()
	watching.Wait()

	good, bad := c.figures.totals()
	t.Logf("%d clients, %d sites, %d sessions, %d proxies on a Sentinel group, %v:\n%s", *many, sites, sites*sessions, proxies, *soakFor, watched)
	t.Logf("%d requests went well, %d did not; the slowest took %v; the sites saw %d requests and %d logins\n%s",
		good, bad, c.figures.slowest.Round(time.Millisecond), o.served.Load(), o.logins.Load(), strings.Join(c.figures.failures(), "\n"))
	if bad > 0 && !*chaos {
		t.Errorf("%d requests failed", bad)
	}
	if good < *many {
		t.Errorf("%d requests went well, of %d clients", good, *many)
	}
	if c.figures.slowest > patience {
		t.Errorf("a request took %v", c.figures.slowest)
	}
	for _, kind := range []string{leaked, spent, unsolved} {
		if n, words := o.ledger.of(kind); n > 0 {
			t.Errorf("%d × %s:\n%s", n, kind, strings.Join(words, "\n"))
		}
	}
	if n, words := o.ledger.of(stale); n > 0 && !*chaos {
		t.Errorf("%d × %s:\n%s", n, stale, strings.Join(words, "\n"))
	}
	if !*chaos && *soakFor >= time.Minute { // in less, they have not yet what they will keep
		watched.flat(t)
	}
	c.nothingIsLost(t)
}

// nothingIsLost looks at each session by each proxy: what was answered is there.
func (c *clients) nothingIsLost(t *testing.T) {
	t.Helper()
	time.Sleep(settle)
	before, _ := c.origin.ledger.of(stale)
	failed := newFigures()
	c.figures = failed
	var wg sync.WaitGroup
	looked := 0
	for home := range proxies {
		reader := c.newClient(home)
		reader.home, reader.count = home, 1
		var sessions []int
		for s := range c.answered {
			if c.answered[s].floor(time.Now()) > 0 && len(sessions) < 300 {
				sessions = append(sessions, s)
			}
		}
		looked += len(sessions)
		wg.Go(func() {
			defer reader.leave()
			for _, s := range sessions {
				reader.count = 1 // by its own proxy
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				reader.do(ctx, "look", s, "GET", "/page", nil, nil)
				cancel()
			}
		})
	}
	wg.Wait()
	if _, bad := failed.totals(); bad > 0 {
		t.Errorf("at the end, %d looks failed:\n%s", bad, strings.Join(failed.failures(), "\n"))
	}
	after, words := c.origin.ledger.of(stale)
	if after > before {
		t.Errorf("at the end, %d of %d looks found a value lost:\n%s", after-before, looked, strings.Join(words, "\n"))
	}
	t.Logf("at the end, %d sessions were looked at by their proxies", looked)
}

// samples are the proxies' figures of each minute.
type samples struct {
	group *group
	lines []string
	taken [][]sample
}

type sample struct{ memory, goroutines, cpu float64 }

func (s *samples) run(ctx context.Context, f *figures) {
	step := min(time.Minute, *soakFor/6) // not all come in time on a busy machine
	last := make([]float64, len(s.group.proxies))
	for n := 1; ; n++ {
		select {
		case <-time.After(step):
		case <-ctx.Done():
			return
		}
		line := fmt.Sprintf("| %v | %s |", (time.Duration(n) * step).Round(time.Second), f.line(step))
		var taken []sample
		for i, p := range s.group.proxies {
			g := p.gauges()
			at := sample{g["process_resident_memory_bytes"], g["go_goroutines"], g["process_cpu_seconds_total"]}
			line += fmt.Sprintf(" %.0f MiB, %.0f, %.0f %% |", at.memory/(1<<20), at.goroutines, max(0, at.cpu-last[i])/step.Seconds()*100)
			last[i] = at.cpu
			taken = append(taken, at)
		}
		s.lines, s.taken = append(s.lines, line), append(s.taken, taken)
	}
}

func (s *samples) String() string {
	head, rule := "| After | Good/s | Page, p50 | p99 |", "|---|---|---|---|"
	for _, p := range s.group.proxies {
		head, rule = head+" "+p.name+": memory, goroutines, CPU |", rule+"---|"
	}
	return head + "\n" + rule + "\n" + strings.Join(s.lines, "\n")
}

// flat fails where a proxy has far more at the end than after the first third.
func (s *samples) flat(t *testing.T) {
	t.Helper()
	if len(s.taken) < 3 {
		t.Fatalf("%d samples", len(s.taken))
	}
	first, last := s.taken[len(s.taken)/3], s.taken[len(s.taken)-1]
	for i := range first {
		if last[i].goroutines > 1.5*first[i].goroutines+500 {
			t.Errorf("%s: %.0f goroutines, and %.0f at the end", s.group.proxies[i].name, first[i].goroutines, last[i].goroutines)
		}
		if last[i].memory > 1.5*first[i].memory+64<<20 {
			t.Errorf("%s: %.0f MiB, and %.0f at the end", s.group.proxies[i].name, first[i].memory/(1<<20), last[i].memory/(1<<20))
		}
	}
}
