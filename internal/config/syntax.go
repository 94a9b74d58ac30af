package config

import (
	"errors"
	"regexp"
	"strings"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/token"
)

const notYAML = "this is not YAML"

// notYAML reports text that is no YAML. Nothing is known of its values then,
// so none is shown.
func (s *source) notYAML(err error, r *report) {
	at, what := place{line: 1, col: 1}, ""
	if e, ok := errors.AsType[*yaml.SyntaxError](err); ok {
		what, _, _ = strings.Cut(e.Message, `"`) // what follows in quotes comes from the file
		if e.Token != nil {
			at = place{line: e.Token.Position.Line, col: e.Token.Position.Column}
		}
	}
	message := strings.TrimRight(notYAML+": "+what, ": ")
	remedy := "look for a missing quote, colon or space here, or on a line above"
	switch {
	case s.bareVariable(at.line):
		remedy = `within { } and [ ] a ${NAME} must be quoted: "${NAME}"`
	case loneStar.MatchString(s.line(at.line)):
		remedy = "quote a value that begins with *"
	case strings.Contains(what, "must be specified"), strings.Contains(what, "end token"):
		remedy = "close the { or [ that is open here, or on a line above"
	case strings.Contains(what, "\t"):
		message, remedy = notYAML+": a tab stands where a token begins", "indent with spaces"
	default:
		if line, ok := s.misplaced(at, what); ok {
			at = place{line: line, col: s.indent(line) + 1}
			message = notYAML + ": this line is indented unlike any above that it could belong to"
			remedy = "begin the keys of one mapping in one column, and the dashes of one list"
		} else if strings.HasPrefix(what, secondColon) {
			remedy = "quote the value: it holds a colon and a space"
		}
	}
	r.add(at, "", message, remedy)
}

// loneStar is a * in a list that is no alias, for want of a name.
var loneStar = regexp.MustCompile(`[\[,]\s*\*\s*[\],]`)

// secondColon is what the parser says of "a: b: c", in one line or in two, and
// places at b.
const secondColon = "mapping value is not allowed"

// misplaced returns the line whose indentation is to blame for what the parser
// says of the token at a place, if one is.
func (s *source) misplaced(at place, what string) (line int, ok bool) {
	switch {
	case strings.HasPrefix(what, secondColon):
		// A line that is indented further continues the value above it.
		for _, t := range s.tokens {
			p := t.Position
			if t.Type == token.MappingValueType && (p.Line > at.line || p.Line == at.line && p.Column > at.col) {
				return p.Line, p.Line > at.line
			}
		}
		return 0, false
	case strings.HasPrefix(what, "value is not allowed"):
		return at.line, at.col == s.indent(at.line)+1
	case strings.HasPrefix(what, "non-map value"):
		return at.line, strings.HasPrefix(strings.TrimSpace(s.line(at.line)), "- ")
	}
	return 0, false
}

// bareVariable says whether a line has a ${NAME} without quotes within { } or
// [ ], where YAML takes its brace for that of a mapping.
func (s *source) bareVariable(line int) bool {
	for _, t := range s.tokens {
		if t.Position.Line == line && t.Type == token.MappingStartType && t.Prev != nil &&
			t.Prev.Type == token.StringType && strings.HasSuffix(t.Prev.Value, "$") {
			return true
		}
	}
	return false
}

// line returns a line's text, and "" beyond the last.
func (s *source) line(n int) string {
	if n < 1 || n > len(s.lines) {
		return ""
	}
	return s.lines[n-1]
}

// indent returns how far a line is indented.
func (s *source) indent(n int) int {
	line := s.line(n)
	return len(line) - len(strings.TrimLeft(line, " "))
}
