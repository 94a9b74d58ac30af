package main

import (
	"strings"
	"testing"
)

func TestABarShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		draw func(p *progress)
		want string
	}{
		{"the first look is drawn, though nothing is done", func(p *progress) { p.set(0) }, "\rsolving [" + strings.Repeat(".", 30) + "] 0/3"},
		{"the end is drawn, however soon it comes", func(p *progress) { p.shown = p.shown.AddDate(9000, 0, 0); p.set(3) }, "\rsolving [" + strings.Repeat("#", 30) + "] 3/3"},
		{"what comes too soon is not", func(p *progress) { p.shown = p.shown.AddDate(9000, 0, 0); p.set(1) }, ""},
		{"a step counts one more", func(p *progress) { p.n = 1; p.step() }, "\rsolving [" + strings.Repeat("#", 20) + strings.Repeat(".", 10) + "] 2/3"},
		{"at the end it is taken away", func(p *progress) { p.end() }, "\r\x1b[K"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var b strings.Builder
			tt.draw(&progress{w: &b, what: "solving", of: 3})
			if b.String() != tt.want {
				t.Errorf("%q, want %q", b.String(), tt.want)
			}
		})
	}
}

func TestABarIsDrawnOnATerminalOnly(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	p := newProgress(&b, "solving", 1)
	p.set(1)
	p.end()
	if b.Len() > 0 {
		t.Errorf("%q, want nothing", b.String())
	}
}
