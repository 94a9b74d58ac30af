package form

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// Field names a field: by its name in a form, or by its path in JSON.
type Field struct {
	name string
	path []step // of JSON; nil: the member of that name in the whole
}

// step is one step of a path: a member's name, or an index where name is nil.
type step struct {
	name  *string
	index int
}

var errPath = errors.New(`a path in JSON reads $.captcha.token, $.list[0] or $["odd name"]`)

// ParseField reads the name of a form's field, or a path in JSON, which begins
// with "$.": a subset of JSONPath (RFC 9535) that names one place.
func ParseField(s string) (Field, error) {
	if s == "" {
		return Field{}, errors.New("a field has a name")
	}
	rest, ok := strings.CutPrefix(s, "$")
	if !ok || rest == "" || rest[0] != '.' && rest[0] != '[' {
		return Field{name: s}, nil
	}
	f := Field{name: s}
	for rest != "" {
		var next step
		var err error
		if next, rest, err = parseStep(rest); err != nil {
			return Field{}, fmt.Errorf("read field %q: %w", s, err)
		}
		f.path = append(f.path, next)
	}
	return f, nil
}

func parseStep(s string) (next step, rest string, err error) {
	switch {
	case strings.HasPrefix(s, "."):
		name := s[1:]
		if end := strings.IndexAny(name, ".["); end >= 0 {
			name = name[:end]
		}
		if name == "" {
			return step{}, "", errPath
		}
		return step{name: &name}, s[1+len(name):], nil
	case strings.HasPrefix(s, `["`):
		quoted, err := strconv.QuotedPrefix(s[1:])
		if err != nil || !strings.HasPrefix(s[1+len(quoted):], "]") {
			return step{}, "", errPath
		}
		name, err := strconv.Unquote(quoted)
		if err != nil {
			return step{}, "", errPath
		}
		return step{name: &name}, s[2+len(quoted):], nil
	case strings.HasPrefix(s, "["):
		digits, rest, ok := strings.Cut(s[1:], "]")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || !ok {
			return step{}, "", errPath
		}
		return step{index: int(n)}, rest, nil
	}
	return step{}, "", errPath
}

// String is the field as it was written.
func (f Field) String() string { return f.name }

// steps is the field's path in JSON.
func (f Field) steps() []step {
	if f.path == nil {
		return []step{{name: &f.name}}
	}
	return f.path
}
