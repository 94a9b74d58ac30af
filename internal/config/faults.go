package config

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Fault is one thing that is wrong with a configuration. It holds no secrets.
type Fault struct {
	Where   string // "shop.yaml:4:5", "--listen", "SESSIONPROXY_LISTEN"
	Line    string // what stands there, secrets masked; "" where nothing does
	Caret   int    // the column in Line that is meant, from 1; 0: the whole
	Message string // what is wrong
	Remedy  string // what would be right
}

func (f Fault) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", f.Where, f.Message)
	if f.Line != "" {
		fmt.Fprintf(&b, "    | %s\n", f.Line)
	}
	if f.Caret > 0 {
		fmt.Fprintf(&b, "    | %s^\n", strings.Repeat(" ", f.Caret-1))
	}
	if f.Remedy != "" {
		fmt.Fprintf(&b, "    %s\n", f.Remedy)
	}
	return b.String()
}

// Faults are all that is wrong with a configuration: those of the file in the
// order of its lines, then those of the environment and the flags.
type Faults []Fault

func (fs Faults) Error() string {
	texts := make([]string, len(fs))
	for i, f := range fs {
		texts[i] = f.String()
	}
	return strings.TrimSuffix(strings.Join(texts, "\n"), "\n")
}

// place is where a value stands: in the file, or in a flag or variable.
type place struct {
	line, col int    // in the file, from 1
	name      string // of the flag or variable; "" in the file
	text      string // what it says
}

// report gathers faults and knows the place of each value, by path.
type report struct {
	found  []finding
	places map[string]place
	broken map[string]bool // paths whose value has no use: what follows from it is no fault of its own
}

type finding struct {
	at              place
	message, remedy string
}

func newReport() *report {
	return &report{places: map[string]place{}, broken: map[string]bool{}}
}

// add reports a value that cannot be read.
func (r *report) add(at place, path, message, remedy string) {
	r.found = append(r.found, finding{at, message, remedy})
	r.broken[path] = true
}

// at reports a value that can be read and is wrong. A value that was left out
// is missing from what holds it.
func (r *report) at(path, message, remedy string) {
	if !r.ok(path) {
		return
	}
	at, _ := r.place(path)
	r.found = append(r.found, finding{at, message, remedy})
}

// place returns where the value at path stands, or what holds it. It returns
// false where nobody wrote it.
func (r *report) place(path string) (place, bool) {
	for {
		if at, ok := r.places[path]; ok || path == "" {
			return at, ok
		}
		path = parent(path)
	}
}

// ref says where a value stands that another one meets.
func (r *report) ref(path string) string {
	switch at, written := r.place(path); {
	case !written:
		return "the default"
	case at.name != "":
		return at.name + " " + at.text
	default:
		return fmt.Sprintf("line %d", at.line)
	}
}

// inOrder returns the keys of the mapping at path as they were written.
func (r *report) inOrder(path string, m map[string]string) []string {
	return slices.SortedFunc(maps.Keys(m), func(a, b string) int {
		p, q := r.places[join(path, a)], r.places[join(path, b)]
		return cmp.Or(cmp.Compare(p.line, q.line), cmp.Compare(p.col, q.col))
	})
}

// ok says whether the value at path, and all that holds it, could be read.
func (r *report) ok(path string) bool {
	for {
		if r.broken[path] {
			return false
		}
		if path == "" {
			return true
		}
		path = parent(path)
	}
}

// forget drops what is known of path and below: another source replaces it.
func (r *report) forget(path string) {
	below := func(p string) bool {
		rest, ok := strings.CutPrefix(p, path)
		return ok && (rest == "" || rest[0] == '.' || rest[0] == '[')
	}
	for p := range r.places {
		if below(p) {
			delete(r.places, p)
		}
	}
	for p := range r.broken {
		if below(p) {
			delete(r.broken, p)
		}
	}
}

// faults returns what was found, as users see it.
func (r *report) faults(src *source) Faults {
	slices.SortStableFunc(r.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.at.name, b.at.name), cmp.Compare(a.at.line, b.at.line), cmp.Compare(a.at.col, b.at.col))
	})
	var fs Faults
	for _, f := range slices.Compact(r.found) {
		fault := Fault{Where: f.at.name, Line: maskUserinfo(f.at.text), Message: f.message, Remedy: f.remedy}
		if f.at.name == "" {
			fault.Where, fault.Line, fault.Caret = src.show(f.at.line, f.at.col)
		}
		fs = append(fs, fault)
	}
	return fs
}
