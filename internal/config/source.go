package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// source is a file's text and what may be shown of it. A fault shows
// structure, keys, and the values of known keys that hold no secrets: whatever
// is not known to be harmless could be a password in the wrong place.
type source struct {
	name     string
	lines    []string
	tokens   token.Tokens
	harmless map[*token.Token]bool
}

// mask stands for what is not shown, whatever its length.
const mask = "•••"

var userinfo = regexp.MustCompile(`(?s)^([a-z+]+://)?.*@`)

// maskUserinfo hides the password, and the name with it, in what may be meant
// for a URL. Passwords hold any character, so all up to the last @ goes.
func maskUserinfo(s string) string { return userinfo.ReplaceAllString(s, "${1}"+mask+"@") }

// doubtful values of harmless keys are not shown: where a comma or a colon is
// forgotten, one runs into the next, and before an @ stands a password.
var doubtful = regexp.MustCompile(`[\s@]`)

// parse reads a file's text into its top node: nil where it is empty or broken.
func parse(name, text string, r *report) (*source, ast.Node) {
	text = strings.TrimPrefix(text, "\ufeff")
	src := &source{
		name:     name,
		lines:    strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n"),
		harmless: map[*token.Token]bool{},
	}
	if !utf8.ValidString(text) {
		line := slices.IndexFunc(src.lines, func(l string) bool { return !utf8.ValidString(l) })
		r.add(place{line: line + 1, col: 1}, "", "this is not UTF-8", "save the file as UTF-8")
		return src, nil
	}
	src.tokens = lexer.Tokenize(text)
	src.revealKeys()
	file, err := parser.Parse(src.tokens, 0, parser.AllowDuplicateMapKey())
	if err != nil {
		src.notYAML(err, r)
		return src, nil
	}
	for _, doc := range file.Docs[1:] {
		var at place
		switch {
		case doc.Start != nil:
			at = place{line: doc.Start.Position.Line, col: doc.Start.Position.Column}
		case doc.Body != nil:
			at = placeOf(doc.Body)
		default:
			continue // the end of the first, written out
		}
		r.add(at, "", "a second document begins here", "one file holds one document")
	}
	return src, file.Docs[0].Body
}

// revealKeys marks the keys that the table knows, wherever they stand.
func (s *source) revealKeys() {
	known := map[string]bool{}
	for _, k := range keys {
		known[lastName(k.path)] = true
	}
	for _, t := range s.tokens {
		if t.Next != nil && t.Next.Type == token.MappingValueType && known[t.Value] {
			s.harmless[t] = true
		}
	}
}

// show returns a place of the file as users see it. Line 0 is the whole file.
func (s *source) show(line, col int) (where, text string, caret int) {
	if s == nil {
		return "configuration", "", 0
	}
	if line < 1 || line > len(s.lines) {
		return s.name, "", 0
	}
	raw := []rune(s.lines[line-1])
	hidden := make([]bool, len(raw))
	for i, c := range raw {
		hidden[i] = !unicode.IsSpace(c)
	}
	for _, t := range s.tokens {
		if t.Position.Line != line || t.Position.Column < 1 || t.Position.Column > len(raw) {
			continue
		}
		from := t.Position.Column - 1
		if t.Type == token.CommentType {
			raw, hidden = raw[:from], hidden[:from]
			break
		}
		for i := range s.visible(t, raw[from:]) {
			hidden[from+i] = false
		}
	}
	text, caret = redact(raw, hidden, col)
	return fmt.Sprintf("%s:%d:%d", s.name, line, col), text, caret
}

// visible returns how many runes of a token may be shown, where rest is the
// line from the token on.
func (s *source) visible(t *token.Token, rest []rune) int {
	if t.Indicator == token.BlockStructureIndicator || t.Indicator == token.FlowCollectionIndicator {
		return 1
	}
	if t.Type != token.DocumentHeaderType && !s.harmless[t] {
		return 0
	}
	origin, _, _ := strings.Cut(strings.TrimSpace(t.Origin), "\n")
	origin = strings.TrimSpace(origin)
	if !strings.HasPrefix(string(rest), origin) || doubtful.MatchString(t.Value) {
		return 0
	}
	return utf8.RuneCountInString(origin)
}

// redact writes a line with one mask for each hidden run, and says where the
// rune at col, counted from 1, went.
func redact(raw []rune, hidden []bool, col int) (text string, caret int) {
	var b strings.Builder
	width := 0
	for i := 0; i < len(raw); i++ {
		if i == col-1 {
			caret = width + 1
		}
		c := raw[i]
		if hidden[i] {
			end := i + 1
			// Spaces between two hidden words are hidden with them.
			for j := end; j < len(raw) && (hidden[j] || unicode.IsSpace(raw[j])); j++ {
				if hidden[j] {
					end = j + 1
				}
			}
			if i < col-1 && col-1 < end {
				caret = width + 1
			}
			b.WriteString(mask)
			width += utf8.RuneCountInString(mask)
			i = end - 1
			continue
		}
		if !unicode.IsPrint(c) {
			c = ' '
		}
		b.WriteRune(c)
		width++
	}
	if caret == 0 {
		caret = width + 1
	}
	return strings.TrimRight(b.String(), " "), caret
}
