package form

import (
	"bytes"
	"net/url"
)

// scanURLEncoded finds pairs of that name (the URL standard, section
// application/x-www-form-urlencoded). A name may be written with escapes.
func scanURLEncoded(s *scanner, f Field) (Found, error) {
	found := Found{write: func(value string) []byte { return []byte(url.QueryEscape(value)) }}
	for more := true; more; {
		start := s.at
		pair, err := s.until('&')
		if err != nil {
			return Found{}, err
		}
		more = pair.ended
		end := s.at
		if more {
			end--
		}
		name, _, valued := bytes.Cut(bytes.TrimSuffix(pair.text, []byte("&")), []byte("="))
		if !names(name, f.name) {
			continue
		}
		// A repeat goes with the "&" before it.
		whole := span{start - 1, end}
		if !valued {
			// "name" alone is an empty value: it becomes "name=token".
			found.note(span{start, end}, whole, true)
			if len(found.values) == 1 {
				written := string(name)
				found.write = func(value string) []byte { return []byte(written + "=" + url.QueryEscape(value)) }
			}
			continue
		}
		value := span{start + int64(len(name)) + 1, end}
		found.note(value, whole, value.from == value.to)
	}
	end := s.at
	found.add = func(value string) Edit {
		with, separator := url.QueryEscape(f.name)+"="+url.QueryEscape(value), "&"
		if end > 0 {
			with, separator = "&"+with, ""
		}
		return Edit{At: end, With: []byte(with), adds: f.name, separator: separator}
	}
	return found, nil
}

// names says whether an encoded name is that one.
func names(encoded []byte, name string) bool {
	if string(encoded) == name {
		return true
	}
	if bytes.IndexByte(encoded, '%') < 0 && bytes.IndexByte(encoded, '+') < 0 {
		return false
	}
	decoded, err := url.QueryUnescape(string(encoded))
	return err == nil && decoded == name
}
