package login

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"mime"
	"mime/multipart"
	"net/url"
	"slices"
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// MaxBody bounds the body of a login request: longer ones are no forms, and
// pass on their own.
const MaxBody = 64 << 10

// Fingerprint is what two requests share that are the same login. It depends
// on a password and is never shown.
type Fingerprint [sha256.Size]byte

// Fingerprint takes that of a login request: its method, its URL and its body,
// but for the fields in which two logins may differ. Forms and JSON are
// compared by what they say, not by how they are written.
func (r *Rules) Fingerprint(method string, u *url.URL, contentType string, body []byte) Fingerprint {
	d := digest{sha256.New()}
	d.add(method)
	d.add(strings.ToLower(u.Host))
	d.add(u.EscapedPath())
	if query, err := url.ParseQuery(u.RawQuery); err == nil {
		r.fields(d, query)
	} else {
		d.add(u.RawQuery)
	}
	if !r.body(d, contentType, body) {
		d.add("raw")
		d.add(string(body))
	}
	return Fingerprint(d.Sum(nil))
}

// digest takes strings so that no two rows of them are alike.
type digest struct{ hash.Hash }

func (d digest) add(s string) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(s)))
	d.Write(n[:])
	io.WriteString(d, s) //nolint:errcheck // a hash takes all
}

func (r *Rules) ignores(field string) bool { return session.AnyGlob(r.ignore, field) }

// fields takes a form in the order of its names; of one name, as they came.
func (r *Rules) fields(d digest, form map[string][]string) {
	names := make([]string, 0, len(form))
	for name := range form {
		if !r.ignores(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		for _, value := range form[name] {
			d.add(name)
			d.add(value)
		}
	}
	d.add("end")
}

// body takes a body by what it says. It returns false, having taken nothing,
// where it can't be read.
func (r *Rules) body(d digest, contentType string, body []byte) bool {
	kind, params, _ := mime.ParseMediaType(contentType)
	switch {
	case kind == "application/x-www-form-urlencoded":
		form, err := url.ParseQuery(string(body))
		if err != nil {
			return false
		}
		d.add("form")
		r.fields(d, form)
	case kind == "multipart/form-data":
		form, err := parts(body, params["boundary"])
		if err != nil {
			return false
		}
		d.add("form")
		r.fields(d, form)
	case kind == "application/json", strings.HasSuffix(kind, "+json"):
		var v any
		dec := json.NewDecoder(bytes.NewReader(body))
		dec.UseNumber()
		if err := dec.Decode(&v); err != nil {
			return false
		}
		if _, err := dec.Token(); !errors.Is(err, io.EOF) {
			return false
		}
		b, err := json.Marshal(r.strip(v)) // sorts the names
		if err != nil {
			return false
		}
		d.add("json")
		d.add(string(b))
	default:
		return false
	}
	return true
}

// parts reads a multipart form. A file is a value with its name.
func parts(body []byte, boundary string) (map[string][]string, error) {
	form := map[string][]string{}
	mr := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		p, err := mr.NextRawPart()
		if errors.Is(err, io.EOF) {
			return form, nil
		}
		if err != nil {
			return nil, err
		}
		value, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		form[p.FormName()] = append(form[p.FormName()], p.FileName()+"\x00"+string(value))
	}
}

// strip leaves the ignored names out of a JSON value, at any depth.
func (r *Rules) strip(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			if r.ignores(name) {
				delete(v, name)
			} else {
				v[name] = r.strip(value)
			}
		}
	case []any:
		for i := range v {
			v[i] = r.strip(v[i])
		}
	}
	return v
}
