package form

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"mime/multipart"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the other fields are, a parser that others wrote reads them from the
// filled body as it does from the one that came.

func TestOtherFieldsStay(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, contentType string
		body              func(t *rapid.T) string
		parse             func(body string) (any, error) // without the field
	}{
		{"urlencoded", urlencoded, drawPairs, parsePairs},
		{"multipart", multi, drawParts, parseParts},
		{"JSON", jsonType, drawObject, parseObject},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, func(rt *rapid.T) { fillAndParse(rt, tt.contentType, tt.body(rt), tt.parse) })
		})
	}
}

type fataler interface{ Fatalf(string, ...any) }

func fillAndParse(t fataler, contentType, body string, parse func(string) (any, error)) {
	typ, _ := TypeOf(contentType)
	found, err := typ.Scan(strings.NewReader(body), Field{name: "g"})
	if err != nil {
		return
	}
	edits, err := found.Fill("tok")
	if err != nil {
		return
	}
	r, size := Patch(strings.NewReader(body), int64(len(body)), edits)
	filled, err := io.ReadAll(r)
	if err != nil || int64(len(filled)) != size {
		t.Fatalf("%d bytes, %v, want %d", len(filled), err, size)
	}
	again, err := typ.Scan(bytes.NewReader(filled), Field{name: "g"})
	if err != nil || again.State != Filled {
		t.Fatalf("%q became %q: state %d, %v", body, filled, again.State, err)
	}
	before, err := parse(body)
	if err != nil {
		return // the other parser is stricter
	}
	after, err := parse(string(filled))
	if err != nil || !reflect.DeepEqual(before, after) {
		t.Fatalf("%q became %q: %v, %v; want %v", body, filled, after, err, before)
	}
}

func drawPairs(t *rapid.T) string {
	piece := rapid.OneOf(rapid.SampledFrom([]string{"g=", "g", "g=1", "%67=", "a=%zz", "", "=", "a=1&"}), rapid.String())
	return strings.Join(rapid.SliceOf(piece).Draw(t, "pairs"), "&")
}

func parsePairs(body string) (any, error) {
	values := map[string][]string{}
	for pair := range strings.SplitSeq(body, "&") {
		name, value, _ := strings.Cut(pair, "=")
		if decoded, err := url.QueryUnescape(name); err == nil {
			name = decoded
		}
		if pair != "" && name != "g" {
			values[name] = append(values[name], value)
		}
	}
	return values, nil
}

func drawParts(t *rapid.T) string {
	var b strings.Builder
	for range rapid.IntRange(0, 5).Draw(t, "parts") {
		name := rapid.SampledFrom([]string{`name="g"`, `name="a"`, `name="g"; filename="f"`, `name=g`}).Draw(t, "disposition")
		content := rapid.OneOf(rapid.SampledFrom([]string{"", "1", "\r\n", "\r\n--X", "--XX", "\r\n--XXX\r\n"}), rapid.String()).Draw(t, "content")
		b.WriteString("--XX\r\nContent-Disposition: form-data; " + name + "\r\n\r\n" + content + "\r\n")
	}
	return b.String() + "--XX--"
}

func parseParts(body string) (any, error) {
	var all [][3]string
	r := multipart.NewReader(strings.NewReader(body), "XX")
	for {
		p, err := r.NextRawPart()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		content, err := io.ReadAll(p)
		if err != nil {
			return nil, err
		}
		if p.FormName() != "g" || p.FileName() != "" {
			all = append(all, [3]string{p.FormName(), p.FileName(), string(content)})
		}
	}
}

func drawObject(t *rapid.T) string {
	value := rapid.SampledFrom([]string{`""`, `null`, `1.0`, `[1, {"g":""}]`, `{"g":"x"}`, `"é\u00e9"`, ` true `})
	members := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string {
		name := rapid.SampledFrom([]string{`"g"`, `"a"`, `"\u0067"`, `"b c"`, `""`}).Draw(t, "name")
		return name + ":" + value.Draw(t, "value")
	})).Draw(t, "members")
	return "{" + strings.Join(members, " ,") + "}"
}

func parseObject(body string) (any, error) {
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	var all map[string]any
	err := d.Decode(&all)
	delete(all, "g")
	return all, err
}

func FuzzURLEncoded(f *testing.F) {
	f.Add("a=1&g=&c=3")
	f.Fuzz(func(t *testing.T, body string) { fillAndParse(t, urlencoded, body, parsePairs) })
}

func FuzzMultipart(f *testing.F) {
	f.Add(parts(`name="a"`, "1", `name="g"`, ""))
	f.Fuzz(func(t *testing.T, body string) { fillAndParse(t, multi, body, parseParts) })
}

func FuzzJSON(f *testing.F) {
	f.Add(`{"a":{"g":""},"g":"","n":1e5}`)
	f.Fuzz(func(t *testing.T, body string) { fillAndParse(t, jsonType, body, parseObject) })
}
