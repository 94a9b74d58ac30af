package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// progress is a bar on a terminal, and nothing elsewhere. Any number of
// goroutines may step.
type progress struct {
	w    io.Writer // nil: nobody looks
	what string
	of   int

	mu    sync.Mutex // guards what follows
	n     int
	shown time.Time
}

func newProgress(w io.Writer, what string, of int) *progress {
	p := &progress{what: what, of: of}
	if isTerminal(w) {
		p.w = w
	}
	return p
}

const (
	barWidth = 30 // characters of the whole bar
	barEvery = 50 * time.Millisecond
)

// step counts one more.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(p.n + 1)
}

// set says how many there are.
func (p *progress) set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.show(n)
}

func (p *progress) show(n int) {
	p.n = n
	if p.w == nil || time.Since(p.shown) < barEvery && p.n < p.of {
		return
	}
	p.shown = time.Now()
	done := barWidth * p.n / p.of
	fmt.Fprintf(p.w, "\r%s [%s%s] %d/%d", p.what, strings.Repeat("#", done), strings.Repeat(".", barWidth-done), p.n, p.of)
}

// end takes the bar away.
func (p *progress) end() {
	if p.w != nil {
		fmt.Fprintf(p.w, "\r\x1b[K")
	}
}
