package cookiefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// readJSON reads a file of JSON value by value, since a HAR with its bodies may
// be larger than memory:
//
//	[COOKIE, …]                               puppeteer, cdp, editor, selenium
//	{"cookies": [COOKIE, …], "origins": […]}  playwright
//	{"cookies": [COOKIE, …]}                  cdp; also as {"result": {…}}
//	{"log": {"entries": [ENTRY, …]}}          har
func readJSON(r io.Reader, f Format) (*File, error) {
	in := &places{r: r}
	j := &jsonFile{in: in, d: json.NewDecoder(in), file: &File{}}
	if err := j.top(); err != nil {
		return nil, err
	}
	if _, err := j.d.Token(); err != io.EOF {
		return nil, j.fault(err, "something stands behind the file's end")
	}
	switch found := j.format(); {
	case f == "":
		j.file.Format = found
	case f == HAR && found != HAR:
		return nil, &Error{1, 1, "this is no HAR: it has no log"}
	case f != HAR && found == HAR:
		return nil, &Error{1, 1, "this is a HAR, and no " + string(f)}
	default:
		j.file.Format = f
	}
	return j.finish(), nil
}

// jsonFile is a file on its way in.
type jsonFile struct {
	in   *places
	d    *json.Decoder
	file *File

	found          bool // a list of cookies, or a HAR's log
	state          bool // origins: a storageState
	shape          Format
	origins, items int // with localStorage, and what is in it
	foreign        []string
	har            *archive // nil: no HAR
}

// format is what the file looks like.
func (j *jsonFile) format() Format {
	switch {
	case j.har != nil:
		return HAR
	case j.state:
		return Playwright
	case j.shape == "":
		return CDP
	}
	return j.shape
}

func (j *jsonFile) finish() *File {
	var lost losses
	if j.har != nil {
		j.file.Cookies, lost = j.har.cookies(), j.har.refused
	}
	for _, name := range j.foreign {
		lost.add("Left out, since they belong to the pages of another site (partitionKey)", name)
	}
	j.file.Remarks = lost.remarks()
	if j.origins > 0 {
		j.file.Remarks = append(j.file.Remarks, fmt.Sprintf(
			"Local storage is no cookie and stays in the file, since a proxy can't bring it to clients: %s of %s.", counted(j.items, "item"), counted(j.origins, "origin")))
	}
	if j.har != nil && len(j.file.Cookies) == 0 && len(j.file.Remarks) == 0 {
		j.file.Remarks = append(j.file.Remarks, "Chrome leaves the cookies out of a HAR that is exported without sensitive data: export it with them.")
	}
	return j.file
}

// counted is n things in words.
func counted(n int, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func (j *jsonFile) top() error {
	start, err := j.d.Token()
	if err != nil {
		return j.fault(err, "")
	}
	if start == json.Delim('[') {
		j.found = true
		return j.list(j.cookie)
	}
	if err := j.object(map[string]func() error{
		"cookies": j.cookies,
		"origins": func() error { j.state = true; return j.array(j.origin) },
		"result":  func() error { return j.nested(map[string]func() error{"cookies": j.cookies}) },
		"log": func() error {
			j.found, j.har = true, newArchive()
			return j.nested(map[string]func() error{"entries": func() error { return j.array(j.entry) }})
		},
	}); err != nil {
		return err
	}
	if !j.found {
		return &Error{1, 1, `no cookie file: an object has "cookies" (Playwright, the DevTools Protocol) or "log" (HAR)`}
	}
	return nil
}

func (j *jsonFile) cookies() error {
	j.found = true
	return j.array(j.cookie)
}

// nested reads an object that is to come.
func (j *jsonFile) nested(members map[string]func() error) error {
	return j.begin('{', "an object", func() error { return j.object(members) })
}

// array reads an array that is to come.
func (j *jsonFile) array(element func(raw []byte) error) error {
	return j.begin('[', "an array", func() error { return j.list(element) })
}

func (j *jsonFile) begin(delim json.Delim, what string, read func() error) error {
	t, err := j.d.Token()
	switch {
	case err != nil:
		return j.fault(err, "")
	case t != delim:
		return j.fault(nil, "this is to be "+what)
	}
	return read()
}

// object reads the members of an object that has begun, and skips those that
// are not in members.
func (j *jsonFile) object(members map[string]func() error) error {
	for j.d.More() {
		t, err := j.d.Token()
		if err != nil {
			return j.fault(err, "")
		}
		name, _ := t.(string) // as every key is
		if read := members[name]; read != nil {
			err = read()
		} else {
			_, err = j.next()
		}
		if err != nil {
			return err
		}
	}
	return j.end()
}

// list reads the elements of an array that has begun.
func (j *jsonFile) list(element func(raw []byte) error) error {
	for j.d.More() {
		raw, err := j.next()
		if err != nil {
			return err
		}
		if err := element(raw); err != nil {
			return j.inside(raw, err)
		}
	}
	return j.end()
}

func (j *jsonFile) end() error {
	if _, err := j.d.Token(); err != nil {
		return j.fault(err, "")
	}
	return nil
}

// next reads a value whole.
func (j *jsonFile) next() ([]byte, error) {
	j.in.forget(j.d.InputOffset())
	var raw json.RawMessage
	if err := j.d.Decode(&raw); err != nil {
		return nil, j.fault(err, "")
	}
	return raw, nil
}

// fault places err, or message where the decoder itself found nothing wrong.
func (j *jsonFile) fault(err error, message string) error {
	syntax, wrong := errors.AsType[*json.SyntaxError](err)
	switch {
	case err == nil:
		return j.in.at(j.d.InputOffset(), message)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return j.in.at(j.in.read, "the file ends in the middle of its JSON")
	case !wrong:
		return err
	}
	if at := j.d.InputOffset(); syntax.Offset == at { // as Token has it
		return j.in.at(at, "this is no JSON: "+syntax.Error())
	}
	// As Decode has it, the offset does not count what was read as tokens. The
	// value is still in the buffer.
	rest, _ := io.ReadAll(j.d.Buffered()) // from memory
	begins := len(rest) - len(bytes.TrimLeft(rest, " \t\r\n,:"))
	at := int64(begins)
	if inner, ok := errors.AsType[*json.SyntaxError](json.Unmarshal(rest[begins:], new(json.RawMessage))); ok {
		at += max(inner.Offset-1, 0)
	}
	return j.in.at(j.d.InputOffset()+at, "this is no JSON: "+syntax.Error())
}

// inside places an error in the value that was just read.
func (j *jsonFile) inside(raw []byte, err error) error {
	start := j.d.InputOffset() - int64(len(raw))
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return j.in.at(start+max(wrong.Offset-1, 0), fmt.Sprintf("%s: a %s stands where a %s belongs", wrong.Field, kindOf(wrong.Value), wrong.Type.Kind()))
	}
	return j.in.at(start, err.Error())
}

// kindOf is the kind of a value in an error of encoding/json, without the value.
func kindOf(value string) string {
	kind, _, _ := strings.Cut(value, " ")
	return kind
}

// cookie reads an element of a list of cookies.
func (j *jsonFile) cookie(raw []byte) error {
	var v jsonCookie
	if err := json.Unmarshal(raw, &v); err != nil {
		return err
	}
	if len(j.file.Cookies) == maxCookies {
		return errors.New(tooMany)
	}
	if j.shape == "" {
		j.shape = v.format()
	}
	c, own, err := v.cookie()
	switch {
	case err != nil:
		return err
	case own:
		j.file.Cookies = append(j.file.Cookies, c)
	default:
		j.foreign = append(j.foreign, c.Name)
	}
	return nil
}

// origin counts what a storageState holds beside cookies.
func (j *jsonFile) origin(raw []byte) error {
	var o struct {
		LocalStorage []struct{} `json:"localStorage"`
	}
	if err := json.Unmarshal(raw, &o); err != nil {
		return err
	}
	if len(o.LocalStorage) > 0 {
		j.origins++
		j.items += len(o.LocalStorage)
	}
	return nil
}

// entry reads an exchange of a HAR.
func (j *jsonFile) entry(raw []byte) error {
	var e harEntry
	if err := json.Unmarshal(raw, &e); err != nil {
		return err
	}
	j.har.add(&e)
	if len(j.har.held) > maxCookies {
		return errors.New(tooMany)
	}
	return nil
}

// places counts lines on the way, and sees that the text is UTF-8: encoding/json
// puts U+FFFD in the place of what is not.
type places struct {
	r    io.Reader
	read int64 // bytes, so far

	lines int     // that ended before those in ends
	last  int64   // offset behind the last of them
	ends  []int64 // offsets behind the line ends that may still be asked for

	cut []byte // the beginning of a character whose end is to come
	bad error
}

func (p *places) Read(b []byte) (int, error) {
	if p.bad != nil {
		return 0, p.bad
	}
	n, err := p.r.Read(b)
	for i, c := range b[:n] {
		if c == '\n' {
			p.ends = append(p.ends, p.read+int64(i)+1)
		}
	}
	if valid := p.validate(b[:n]); valid < n {
		p.bad = p.at(p.read+int64(max(valid, 0)), "this is not UTF-8; a value with other bytes fits into cookies.txt alone")
		p.read += int64(n)
		return max(valid, 0), p.bad
	}
	p.read += int64(n)
	return n, err
}

// validate returns how many bytes of b are good: fewer than len(b) where it is
// not UTF-8.
func (p *places) validate(b []byte) int {
	text, before := append(p.cut, b...), len(p.cut)
	at := 0
	for at < len(text) {
		if text[at] < utf8.RuneSelf {
			at++
			continue
		}
		r, size := utf8.DecodeRune(text[at:])
		if r == utf8.RuneError && size <= 1 {
			if !utf8.FullRune(text[at:]) {
				break
			}
			return at - before
		}
		at += size
	}
	p.cut = bytes.Clone(text[at:])
	return len(b)
}

// forget lets go of the line ends up to offset.
func (p *places) forget(offset int64) {
	if n := p.before(offset); n > 0 {
		p.lines, p.last, p.ends = p.lines+n, p.ends[n-1], p.ends[n:]
	}
}

// before counts the line ends in ends up to offset.
func (p *places) before(offset int64) int {
	n, _ := slices.BinarySearch(p.ends, offset+1)
	return n
}

// at is a fault at offset, which is not before those that were let go.
func (p *places) at(offset int64, message string) *Error {
	n, last := p.before(offset), p.last
	if n > 0 {
		last = p.ends[n-1]
	}
	return &Error{p.lines + n + 1, int(offset-last) + 1, message}
}
