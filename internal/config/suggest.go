package config

import (
	"slices"
	"strings"
)

// suggest says what an unknown key under a generic path may have been meant to
// be. It returns the name itself where nothing is near.
func suggest(name, under string) (meant, remedy string) {
	known := names(under)
	if near := Nearest(name, known); near != "" && distance(plain(name), plain(near)) < 2 {
		return near, "did you mean " + near + "?"
	}
	if home := homeOf(name); home != "" {
		return name, name + " belongs in " + home
	}
	if near := Nearest(name, known); near != "" {
		return near, "did you mean " + near + "?"
	}
	return name, "known here: " + strings.Join(names(under), ", ")
}

// homeOf is where a key of that name belongs, or "".
func homeOf(name string) string {
	var homes []string
	for _, k := range keys {
		path := k.path
		switch dot := strings.LastIndexByte(path, '.'); {
		case path == name:
			return "the top of the file"
		case dot > 0 && path[dot+1:] == name:
			if home := strings.ReplaceAll(path[:dot], "[]", "[…]"); !slices.Contains(homes, home) {
				homes = append(homes, home)
			}
		}
	}
	return strings.Join(homes, " or ")
}

// Nearest returns the candidate that a typo, or another spelling of its words,
// parts from name, or "".
func Nearest(name string, candidates []string) string {
	best, found := 1+min(2, len(name)/3), "" // farther is another word
	for _, c := range candidates {
		if d := distance(plain(name), plain(c)); d < best {
			best, found = d, c
		}
	}
	return found
}

// plain is a name without what parts the spellings of its words.
func plain(name string) string {
	return strings.NewReplacer("-", "", "_", "").Replace(strings.ToLower(name))
}

// distance counts the letters to insert, drop, change or swap with their
// neighbour (optimal string alignment).
func distance(a, b string) int {
	var before []int
	last := make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			change := last[j]
			if a[i] != b[j] {
				change++
			}
			row[j+1] = min(change, last[j+1]+1, row[j]+1)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
