package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// figures count what clients saw, in steps of a second for recoveries and of a
// minute for the table.
type figures struct {
	mu      sync.Mutex
	began   time.Time
	seconds []second
	minute  map[string][]time.Duration // of what went well, by kind, in this minute
	failed  map[string]int             // in words
	slowest time.Duration
}

type second struct{ good, bad int }

func newFigures() *figures {
	return &figures{began: time.Now(), minute: map[string][]time.Duration{}, failed: map[string]int{}}
}

func (f *figures) add(what string, took time.Duration, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slowest = max(f.slowest, took)
	now := int(time.Since(f.began) / time.Second)
	for len(f.seconds) <= now {
		f.seconds = append(f.seconds, second{})
	}
	if err != nil {
		f.seconds[now].bad++
		f.failed[what+": "+shorten(err.Error())]++
		return
	}
	f.seconds[now].good++
	f.minute[what] = append(f.minute[what], took)
}

// shorten takes out what differs from one failure of a kind to the next.
func shorten(words string) string {
	fields := strings.FieldsFunc(words, func(r rune) bool { return r == ' ' || r == '"' })
	kept := fields[:0]
	for _, w := range fields {
		if !strings.ContainsAny(w, ":") || strings.HasSuffix(w, ":") {
			kept = append(kept, w)
		}
	}
	return strings.Join(kept, " ")
}

// totals are how many requests went well and how many did not.
func (f *figures) totals() (good, bad int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, s := range f.seconds {
		good, bad = good+s.good, bad+s.bad
	}
	return good, bad
}

// failures are the kinds of what did not go well, the most frequent first.
func (f *figures) failures() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	kinds := slices.SortedFunc(maps.Keys(f.failed), func(a, b string) int { return f.failed[b] - f.failed[a] })
	var lines []string
	for _, k := range kinds[:min(len(kinds), 12)] {
		lines = append(lines, fmt.Sprintf("%6d × %s", f.failed[k], k))
	}
	return lines
}

// line is the table's line of the minute that ends, which begins another.
func (f *figures) line(minute time.Duration) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := 0
	for _, took := range f.minute {
		n += len(took)
	}
	pages := f.minute["page"]
	slices.Sort(pages)
	at := func(q float64) time.Duration {
		if len(pages) == 0 {
			return 0
		}
		return pages[int(q*float64(len(pages)-1))].Round(100 * time.Microsecond)
	}
	clear(f.minute)
	return fmt.Sprintf("%.0f | %v | %v", float64(n)/minute.Seconds(), at(0.5), at(0.99))
}

// recovered is how long after a moment the last second with a failure ended; 0:
// there was none, or it is over before.
func (f *figures) recovered(since time.Time, until time.Time) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	first, last := int(since.Sub(f.began)/time.Second), int(until.Sub(f.began)/time.Second)
	for s := min(last, len(f.seconds)-1); s >= first; s-- {
		if f.seconds[s].bad > 0 {
			return time.Duration(s+1)*time.Second - since.Sub(f.began)
		}
	}
	return 0
}
