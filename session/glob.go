package session

import "strings"

// Glob says whether pattern, in which "*" stands for any run of bytes, matches
// all of s. It is the one kind of pattern in the configuration: of cookies'
// names, of sessions' IDs, of paths.
//
// It walks both strings once, coming back only to the last star, so that no
// pattern is slow.
func Glob(pattern, s string) bool {
	star, resume := -1, 0
	p, i := 0, 0
	for i < len(s) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, resume = p, i
			p++
		case p < len(pattern) && pattern[p] == s[i]:
			p++
			i++
		case star >= 0:
			resume++
			p, i = star+1, resume
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// AnyGlob says whether one of the patterns matches s.
func AnyGlob(patterns []string, s string) bool {
	for _, p := range patterns {
		if Glob(p, s) {
			return true
		}
	}
	return false
}
