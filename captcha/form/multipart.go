package form

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/textproto"
	"strings"
)

// scanMultipart finds parts of that name (RFC 7578). Files are no fields,
// whatever their name.
func scanMultipart(s *scanner, f Field) (Found, error) {
	found := Found{write: func(value string) []byte { return []byte(value) }}
	m := partScan{scanner: s, dash: []byte("--" + s.boundary)}
	if err := m.preamble(); err != nil {
		return Found{}, err
	}
	var bare bool
	for !m.last {
		delimiter := m.delimiter
		ours, err := m.head(f.name)
		if err != nil {
			return Found{}, err
		}
		var value span
		value, bare, err = m.content()
		switch {
		case err != nil:
			return Found{}, err
		case ours && bare:
			return Found{}, ErrForm // to fill it takes a line end, too
		case ours:
			// A repeat goes from the delimiter before it to the one after.
			found.note(value, span{delimiter, value.to}, value.from == value.to)
		}
	}
	end, before, after := m.delimiter, "\r\n", ""
	if bare {
		before, after = after, before
	}
	found.add = func(value string) Edit {
		return Edit{At: end, adds: f.name, With: fmt.Appendf(nil, "%s%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s%s", before, m.dash, f.name, value, after)}
	}
	if end == 0 {
		found.add = nil // the body begins with the closing delimiter
	}
	// What follows the last delimiter is nobody's; it is read, to its end.
	n, err := io.Copy(io.Discard, s)
	s.at += n
	return found, err
}

// partScan reads a body part by part.
type partScan struct {
	*scanner
	dash      []byte // "--" and the boundary
	delimiter int64  // where the last delimiter read begins, with the CRLF before it
	last      bool   // it was the closing one
}

// preamble reads to the first delimiter, which may stand at the very start.
func (m *partScan) preamble() error {
	for atLine := true; ; {
		start := m.at
		l, err := m.until('\n')
		if err != nil {
			return err
		}
		switch {
		case atLine && m.isDelimiter(l.text):
			m.delimiter = max(0, start-2)
			return nil
		case !l.ended, bytes.HasPrefix(l.text, m.dash): // bare line ends, which some origins take
			return ErrForm
		}
		atLine = l.crlf
	}
}

// isDelimiter says whether a line is one, and notes if it is the closing one.
// Blanks may follow a boundary (RFC 2046 section 5.1.1).
func (m *partScan) isDelimiter(line []byte) bool {
	rest, ok := bytes.CutPrefix(line, m.dash)
	if !ok {
		return false
	}
	rest, ended := bytes.CutSuffix(rest, []byte("\r\n"))
	rest = bytes.TrimRight(rest, " \t")
	m.last = string(rest) == "--"
	return m.last || ended && len(rest) == 0
}

// maxHead bounds the lines of a part's head.
const maxHead = 64

// head reads a part's head, and says whether it is the field's.
func (m *partScan) head(name string) (ours bool, err error) {
	var named, encoded bool
	for range maxHead {
		l, err := m.until('\n')
		switch {
		case err != nil:
			return false, err
		case !l.crlf || !l.whole(), l.text[0] == ' ', l.text[0] == '\t': // a fold, which origins unfold or not
			return false, ErrForm
		case l.n == 2:
			if ours && encoded {
				return false, ErrForm
			}
			return ours, nil
		}
		key, value, _ := strings.Cut(string(l.text[:l.n-2]), ":")
		switch textproto.CanonicalMIMEHeaderKey(strings.TrimSpace(key)) {
		case "Content-Disposition":
			if named {
				return false, ErrForm // origins differ in which one counts
			}
			named = true
			kind, params, err := mime.ParseMediaType(value)
			_, file := params["filename"]
			ours = err == nil && kind == "form-data" && params["name"] == name && !file
		case "Content-Transfer-Encoding":
			// RFC 7578 section 4.7 does away with it.
			encoded = !isIdentity(strings.TrimSpace(value))
		}
	}
	return false, ErrForm
}

func isIdentity(encoding string) bool {
	switch strings.ToLower(encoding) {
	case "", "7bit", "8bit", "binary":
		return true
	}
	return false
}

// content reads a part's content up to the delimiter after it, whose CRLF is
// not the content's. An empty part may have none of its own: bare.
func (m *partScan) content() (value span, bare bool, err error) {
	value.from = m.at
	for atLine := true; ; {
		start := m.at
		l, err := m.until('\n')
		if err != nil {
			return span{}, false, err
		}
		if atLine && m.isDelimiter(l.text) {
			value.to = max(value.from, start-2)
			m.delimiter = value.to
			return value, start == value.from, nil
		}
		if !l.ended {
			return span{}, false, ErrForm
		}
		atLine = l.crlf
	}
}

func validBoundary(b string) bool {
	// RFC 2046 section 5.1.1.
	return b != "" && len(b) <= 70 && b == strings.TrimRight(b, " ") && !strings.ContainsAny(b, "\r\n")
}
