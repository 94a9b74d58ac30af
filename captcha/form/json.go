package form

import (
	"bytes"
	"encoding/json"
	"errors"
)

// maxDepth bounds how deep values lie in each other: encoding/json's own bound.
const maxDepth = 10000

// scanJSON finds the members at the field's path (RFC 8259). It checks only as
// much as it takes to know where values begin and end.
func scanJSON(s *scanner, f Field) (Found, error) {
	found := Found{write: quote}
	j := jsonScan{scanner: s, found: &found}
	if err := j.value(f.steps(), true, 0); err != nil {
		return Found{}, err
	}
	if _, err := j.space(); err != nil {
		return Found{}, err
	}
	switch _, err := j.next(); { // a NUL would look like the end
	case err == nil:
		return Found{}, ErrForm
	case !errors.Is(err, ErrForm):
		return Found{}, err
	}
	return found, nil
}

type jsonScan struct {
	*scanner
	found *Found
}

// value reads a value. Where it is on the field's path, steps lead on from
// here; where none are left it is the field's own.
func (j *jsonScan) value(steps []step, on bool, depth int) error {
	c, err := j.space()
	if err != nil {
		return err
	}
	if depth > maxDepth {
		return ErrForm
	}
	start, empty := j.at, false
	switch c {
	case '{':
		err = j.object(steps, on, depth)
	case '[':
		err = j.array(steps, on, depth)
	case '"':
		var text []byte
		text, err = j.text()
		empty = len(text) == 2
	default:
		var text []byte
		text, err = j.literal()
		empty = string(text) == "null"
	}
	if err == nil && on && len(steps) == 0 {
		j.found.noteAll(span{start, j.at}, empty)
	}
	return err
}

// object reads an object, and notes where a member of the field's name could be
// added.
func (j *jsonScan) object(steps []step, on bool, depth int) error {
	_, _ = j.next() // the brace that was seen
	c, err := j.space()
	if err != nil {
		return err
	}
	members := 0
	for c != '}' {
		if c != '"' {
			return ErrForm
		}
		text, err := j.text()
		if err != nil {
			return err
		}
		if c, err = j.space(); err == nil && c != ':' {
			err = ErrForm
		}
		if err != nil {
			return err
		}
		_, _ = j.next()
		rest, follows := follow(steps, on, func(s step) bool { return s.name != nil && called(text, *s.name) })
		if err := j.value(rest, follows, depth+1); err != nil {
			return err
		}
		members++
		if c, err = j.comma('}'); err != nil {
			return err
		}
	}
	if on && len(steps) == 1 && steps[0].name != nil {
		at, name, member, separator := j.at, *steps[0].name, append(quote(*steps[0].name), ':'), ","
		if members > 0 {
			member, separator = append([]byte{','}, member...), ""
		}
		j.found.add = func(value string) Edit {
			return Edit{At: at, With: append(bytes.Clone(member), quote(value)...), adds: name, separator: separator}
		}
	}
	_, err = j.next()
	return err
}

// array reads an array.
func (j *jsonScan) array(steps []step, on bool, depth int) error {
	_, _ = j.next()
	c, err := j.space()
	for i := 0; err == nil && c != ']'; i++ {
		rest, follows := follow(steps, on, func(s step) bool { return s.name == nil && s.index == i })
		if err = j.value(rest, follows, depth+1); err == nil {
			c, err = j.comma(']')
		}
	}
	if err == nil {
		_, err = j.next()
	}
	return err
}

// follow takes the next step of a path where that is the one.
func follow(steps []step, on bool, is func(step) bool) (rest []step, follows bool) {
	if !on || len(steps) == 0 || !is(steps[0]) {
		return nil, false
	}
	return steps[1:], true
}

// comma reads what stands after a value in an object or array: a comma, and it
// returns what begins after it, or the closing bracket, which it leaves.
func (j *jsonScan) comma(closing byte) (byte, error) {
	c, err := j.space()
	if err != nil || c == closing {
		return c, err
	}
	if c != ',' {
		return 0, ErrForm
	}
	_, _ = j.next()
	c, err = j.space()
	if err == nil && c == closing {
		err = ErrForm // nothing after the comma
	}
	return c, err
}

// space skips white space, and returns what comes, or 0 at the end.
func (j *jsonScan) space() (byte, error) {
	for {
		c, err := j.peek()
		if err != nil || c != ' ' && c != '\t' && c != '\r' && c != '\n' {
			return c, err
		}
		_, _ = j.next()
	}
}

// text reads a string, and returns it as it is written, or a window of it.
func (j *jsonScan) text() ([]byte, error) {
	text := make([]byte, 0, 32)
	for escaped := false; ; {
		c, err := j.next()
		if err != nil {
			return nil, err
		}
		if c < ' ' {
			return nil, ErrForm
		}
		if len(text) < window {
			text = append(text, c)
		}
		switch {
		case escaped:
			escaped = false
		case c == '\\':
			escaped = true
		case c == '"' && len(text) != 1: // not the first
			return text, nil
		}
	}
}

// literal reads a number, true, false or null.
func (j *jsonScan) literal() ([]byte, error) {
	var text []byte
	for {
		c, err := j.peek()
		if err != nil {
			return nil, err
		}
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '+', c == '-', c == '.':
			_, _ = j.next()
			if len(text) < window {
				text = append(text, c)
			}
		case !json.Valid(text):
			return nil, ErrForm
		default:
			return text, nil
		}
	}
}

// called says whether a name, as it is written, is that one.
func called(text []byte, name string) bool {
	if len(text) == len(name)+2 && string(text[1:len(text)-1]) == name {
		return true
	}
	if bytes.IndexByte(text, '\\') < 0 {
		return false
	}
	var decoded string
	return json.Unmarshal(text, &decoded) == nil && decoded == name
}

// quote writes a string without the escapes that HTML needs.
func quote(s string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(s) // a buffer takes all
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
