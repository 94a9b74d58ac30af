// Package form finds one field in the body of a request, and says which bytes
// to change so that the field holds a token: in urlencoded and multipart forms
// and in JSON. All other bytes stay as they came: a body is never parsed and
// written anew, since its order, its encoding and its boundary may be signed or
// read by something less strict than its sender.
//
// It reads a body once, front to back, and keeps a line of it in memory. What a
// token is, and whether one is needed, is its user's part.
package form

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"slices"
	"strings"
	"sync"
)

// State is what a body says of the field.
type State uint8

// The states of a field.
const (
	Missing State = iota // no field of that name
	Empty                // there, and all that there is of it is empty
	Filled               // there, with a value
)

// ErrForm says that a body is not what its Content-Type says. It is to be
// passed on as it is: the origin judges it.
var ErrForm = errors.New("the body is not the form that it says it is")

// errNoPlace is that of a field that can't be added.
var errNoPlace = errors.New("the body has no place for the field")

// Type is a kind of body, as its Content-Type says.
type Type struct {
	scan     func(s *scanner, f Field) (Found, error)
	boundary string // of a multipart form
}

// TypeOf returns the type of a body in which a field can be found, by its
// Content-Type, and whether it is one.
func TypeOf(contentType string) (Type, bool) {
	switch contentType { // as most say it
	case "application/x-www-form-urlencoded":
		return Type{scan: scanURLEncoded}, true
	case "application/json":
		return Type{scan: scanJSON}, true
	}
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil {
		return Type{}, false
	}
	switch {
	case media == "application/x-www-form-urlencoded":
		return Type{scan: scanURLEncoded}, true
	case media == "multipart/form-data" && validBoundary(params["boundary"]):
		return Type{scan: scanMultipart, boundary: params["boundary"]}, true
	case media == "application/json", strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json"):
		return Type{scan: scanJSON}, true
	}
	return Type{}, false
}

// Scan reads a body of that size and finds the field in it. Its error is
// ErrForm, or what body returned.
func (t Type) Scan(body io.ReaderAt, size int64, f Field) (Found, error) {
	s := scanners.Get().(*scanner)
	defer scanners.Put(s)
	s.section = *io.NewSectionReader(body, 0, size)
	found, err := t.read(s, &s.section, f)
	s.section = io.SectionReader{}
	return found, err
}

// read finds the field in what it reads to its end.
func (t Type) read(s *scanner, body io.Reader, f Field) (Found, error) {
	s.Reset(body)
	defer s.Reset(nil)
	s.boundary, s.at = t.boundary, 0
	found, err := t.scan(s, f)
	if err != nil {
		return Found{}, fmt.Errorf("find field %s: %w", f, err)
	}
	return found, nil
}

// scanners are used again: most forms are smaller than one.
var scanners = sync.Pool{New: func() any { return newScanner() }}

// Found is where a field is, or could be.
type Found struct {
	State State

	values []span              // each value that there is
	cut    []span              // what goes with the second one and each later one; nil in JSON
	write  func(string) []byte // a value as this body writes it
	add    func(string) Edit   // puts the field where it is missing; nil where it has no place
}

// span is a part of a body, in bytes from its start.
type span struct{ from, to int64 }

// Edit replaces some bytes of a body.
type Edit struct {
	At   int64  // where, from the start of the body as it came
	Len  int64  // how many bytes it replaces; 0: it inserts
	With []byte // by what

	adds      string // the field that was not there; "" where it was
	separator string // before With, where another field is added first
}

// Fill says how to give the field this value, where it is missing too. Of a
// form's field that is there more than once, one is left: origins differ in
// whether they read the first, the last, or all of them with commas between.
// In JSON each gets the value.
func (f Found) Fill(value string) ([]Edit, error) {
	if len(f.values) == 0 {
		if f.add == nil {
			return nil, errNoPlace
		}
		return []Edit{f.add(value)}, nil
	}
	var edits []Edit
	for i, v := range f.values {
		if i > 0 && f.cut != nil {
			edits = append(edits, Edit{At: f.cut[i-1].from, Len: f.cut[i-1].to - f.cut[i-1].from})
			continue
		}
		edits = append(edits, Edit{At: v.from, Len: v.to - v.from, With: f.write(value)})
	}
	return edits, nil
}

// note adds a value of the field, and what goes with it if it is a repeat.
func (f *Found) note(value, whole span, empty bool) {
	if len(f.values) > 0 {
		f.cut = append(f.cut, whole)
	}
	f.noteAll(value, empty)
}

// noteAll adds a value that is filled though it is a repeat.
func (f *Found) noteAll(value span, empty bool) {
	f.values = append(f.values, value)
	switch {
	case !empty:
		f.State = Filled
	case f.State == Missing:
		f.State = Empty
	}
}

// Merge puts the edits of several fields of one body in order, and says whether
// all can be made: two fields may be one place by two names, or one may lie
// within the other.
func Merge(fields ...[]Edit) (edits []Edit, ok bool) {
	edits = slices.Concat(fields...)
	// Where something that is cut begins, an empty value may end, and where
	// that ends a field may be added.
	slices.SortStableFunc(edits, func(a, b Edit) int {
		return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Len, b.Len), cmp.Compare(a.adds, b.adds))
	})
	for i := 1; i < len(edits); i++ {
		before, e := &edits[i-1], &edits[i]
		switch {
		case e.At < before.At+before.Len, e.At == before.At && e.Len == 0 && e.adds == before.adds:
			return nil, false
		case e.At == before.At && before.adds != "" && e.adds != "":
			e.With = append([]byte(e.separator), e.With...)
		}
	}
	return edits, true
}

// Patch is the body of that size with the edits made, and its new size. The
// edits are as Merge returns them.
func Patch(body io.ReaderAt, size int64, edits []Edit) (io.Reader, int64) {
	var parts []io.Reader
	at, length := int64(0), size
	for _, e := range edits {
		parts = append(parts, io.NewSectionReader(body, at, e.At-at), bytes.NewReader(e.With))
		at = e.At + e.Len
		length += int64(len(e.With)) - e.Len
	}
	parts = append(parts, io.NewSectionReader(body, at, size-at))
	return io.MultiReader(parts...), length
}
