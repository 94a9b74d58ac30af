package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"pgregory.net/rapid"
)

// Whatever the other fields are, a parser that others wrote reads them from the
// filled body as it does from the one that came.

func TestOtherFieldsStay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, contentType string
		body              func(t *rapid.T) string
		parse             parser
	}{
		{"urlencoded", urlencoded, drawPairs, parsePairs},
		{"urlencoded, as net/url reads it", urlencoded, drawPairs, parseQuery},
		{"multipart", multi, drawParts, parseParts},
		{"multipart, cut at its boundaries", multi, drawParts, cutParts},
		{"JSON", jsonType, drawObject, parseObject},
		{"JSON, as YAML reads it", jsonType, drawObject, parseYAML},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) {
				fields := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"g", "h", "i"}), 1, 3, rapid.ID).Draw(rt, "fields")
				fillAndParse(rt, tt.contentType, tt.body(rt), tt.parse, fields...)
			})
		})
	}
}

type fataler interface{ Fatalf(string, ...any) }

// parser returns the values of each name, in order, that are not in a file.
type parser func(body string) (map[string][]any, error)

// fillAndParse gives each of the fields a token of its own.
func fillAndParse(t fataler, contentType, body string, parse parser, fields ...string) {
	typ, _ := TypeOf(contentType)
	var all [][]Edit
	for _, name := range fields {
		found, err := typ.Scan(strings.NewReader(body), int64(len(body)), Field{name: name})
		if err != nil {
			return
		}
		edits, err := found.Fill("tok-" + name)
		if err != nil {
			return
		}
		all = append(all, edits)
	}
	edits, ok := Merge(all...)
	if !ok {
		t.Fatalf("%q: the fields are in each other's way: %v", body, all)
	}
	r, size := Patch(strings.NewReader(body), int64(len(body)), edits)
	filled, err := io.ReadAll(r)
	if err != nil || int64(len(filled)) != size {
		t.Fatalf("%d bytes, %v, want %d", len(filled), err, size)
	}
	for _, name := range fields {
		again, err := typ.Scan(bytes.NewReader(filled), int64(len(filled)), Field{name: name})
		if err != nil || again.State != Filled {
			t.Fatalf("%q became %q: state of %s %d, %v", body, filled, name, again.State, err)
		}
	}
	before, err := parse(body)
	if err != nil {
		return // the other parser is stricter
	}
	after, err := parse(string(filled))
	if err != nil {
		t.Fatalf("%q became %q: %v", body, filled, err)
	}
	for _, name := range fields {
		if len(after[name]) != 1 || after[name][0] != "tok-"+name {
			t.Fatalf("%q became %q, where %s is %v", body, filled, name, after[name])
		}
		delete(before, name)
		delete(after, name)
	}
	if !reflect.DeepEqual(before, after) {
		t.Fatalf("%q became %q: %v; want %v", body, filled, after, before)
	}
}

func drawPairs(t *rapid.T) string {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"g=", "g", "g=1", "%67=", "h=", "h", "a=%zz", "", "=", "a=1&"}), rapid.String())
	return strings.Join(rapid.SliceOf(piece).Draw(t, "pairs"), "&")
}

func parsePairs(body string) (map[string][]any, error) {
	values := map[string][]any{}
	for pair := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if pair != "" {
			values[name] = append(values[name], value)
		}
	}
	return values, nil
}

func parseQuery(body string) (map[string][]any, error) {
	query, err := url.ParseQuery(body)
	values := map[string][]any{}
	for name, all := range query {
		for _, v := range all {
			values[name] = append(values[name], v)
		}
	}
	return values, err
}

func drawParts(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(0, 5).Draw(t, "parts") {
		name := rapid.SampledFrom([]string{`name="g"`, `name="h"`, `name="a"`, `name="g"; filename="f"`, `name=g`}).Draw(t, "disposition")
		content := rapid.OneOf(rapid.SampledFrom([]string{"", "", "1", "\r\n", "\r\n--X", "--XX", "\r\n--XXX\r\n"}), rapid.String()).Draw(t, "content")
		b.WriteString("--XX\r\nContent-Disposition: form-data; " + name + "\r\n\r\n" + content + "\r\n")
	}
	return b.String() + "--XX--"
}

func parseParts(body string) (map[string][]any, error) {
	values := map[string][]any{}
	r := multipart.NewReader(strings.NewReader(body), "XX")
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		name := p.FormName()
		if p.FileName() != "" {
			name += " file " + p.FileName()
		}
		values[name] = append(values[name], string(content))
	}
}

var (
	boundaries = regexp.MustCompile(`(^|\r\n)--XX(--)?[ \t]*(\r\n|$)`)
	partName   = regexp.MustCompile(`name="?(\w+)"?(; filename="f")?$`)
)

// cutParts cuts what drawParts draws, as a program does that never heard of
// readers. What is cut off between two boundaries begins again with a line end.
func cutParts(body string) (map[string][]any, error) {
	values := map[string][]any{}
	for rest := body; ; {
		at := boundaries.FindStringSubmatchIndex(rest)
		if at == nil || at[4] >= 0 {
			return values, nil
		}
		rest = rest[at[1]:]
		head, content, ok := strings.Cut(rest, "\r\n\r\n")
		m := partName.FindStringSubmatch(head)
		if !ok || m == nil {
			return nil, errors.New("no head")
		}
		end := boundaries.FindStringIndex(content)
		if end == nil {
			return nil, errors.New("no end")
		}
		name := m[1]
		if m[2] != "" {
			name += " file"
		}
		values[name] = append(values[name], content[:end[0]])
		rest = content[end[0]:]
	}
}

func drawObject(t *rapid.T) string {
	value := rapid.SampledFrom([]string{`""`, `null`, `1.0`, `[1, {"g":""}]`, `{"g":"x"}`, `"é\u00e9"`, ` true `})
	members := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom([]string{`"g"`, `"h"`, `"a"`, `"\u0067"`, `"b c"`, `""`}).Draw(t, "name")
		return name + ":" + value.Draw(t, "value")
	})).Draw(t, "members")
	return "{" + strings.Join(members, " ,") + "}"
}

func parseObject(body string) (map[string][]any, error) {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var all map[string]any
	err := d.Decode(&all)
	return single(all), err
}

// parseYAML reads an object as YAML 1.2, of which JSON is a part.
func parseYAML(body string) (map[string][]any, error) {
	if !json.Valid([]byte(body)) {
		return nil, ErrForm
	}
	var all map[string]any
	err := yaml.Unmarshal([]byte(body), &all)
	return single(all), err
}

func single(members map[string]any) map[string][]any {
	values := map[string][]any{}
	for name, v := range members {
		values[name] = []any{v}
	}
	return values
}

func FuzzURLEncoded(f *testing.F) {
	f.Add("a=1&g=&c=3")
	f.Fuzz(func(t *testing.T, body string) { fillAndParse(t, urlencoded, body, parsePairs, "g", "h") })
}

func FuzzMultipart(f *testing.F) {
	f.Add(parts(`name="a"`, "1", `name="g"`, ""))
	f.Fuzz(func(t *testing.T, body string) { fillAndParse(t, multi, body, parseParts, "g", "h") })
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a":{"g":""},"g":"","n":1e5}`)
	f.Fuzz(func(t *testing.T, body string) { fillAndParse(t, jsonType, body, parseObject, "g", "h") })
}
