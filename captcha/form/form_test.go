package form

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

const (
	urlencoded = "application/x-www-form-urlencoded"
	jsonType   = "application/json"
	multi      = "multipart/form-data; boundary=XX"
)

// parts is a multipart body of heads and contents in turn.
func parts(s ...string) string {
	var b strings.Builder
	for i := 0; i < len(s); i += 2 {
		b.WriteString("--XX\r\nContent-Disposition: form-data; " + s[i] + "\r\n\r\n" + s[i+1] + "\r\n")
	}
	return b.String() + "--XX--\r\n"
}

func TestFill(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 3*window)
	for _, tt := range []struct {
		name, contentType, field, body string
		state                          State
		want                           string // filled with "t+/é"; "" where it can't be
	}{
		{"a pair with an empty value", urlencoded, "g", "a=1&g=&c=3", Empty, "a=1&g=t%2B%2F%C3%A9&c=3"},
		{"the only pair", urlencoded, "g", "g=", Empty, "g=t%2B%2F%C3%A9"},
		{"a name without a value", urlencoded, "g", "a&g&c", Empty, "a&g=t%2B%2F%C3%A9&c"},
		{"a filled pair", urlencoded, "g", "a=1&g=tok", Filled, "a=1&g=t%2B%2F%C3%A9"},
		{"a value that is one space is one", urlencoded, "g", "g=+", Filled, "g=t%2B%2F%C3%A9"},
		{"no such pair", urlencoded, "g", "a=1&gg=2&G=3", Missing, "a=1&gg=2&G=3&g=t%2B%2F%C3%A9"},
		{"an empty body", urlencoded, "g", "", Missing, "g=t%2B%2F%C3%A9"},
		{"a name with escapes", urlencoded, "g-r", "a=1&g%2dr=&c=3", Empty, "a=1&g%2dr=t%2B%2F%C3%A9&c=3"},
		{"a name with a broken escape is another", urlencoded, "g%2", "g%2=&a=1", Empty, "g%2=t%2B%2F%C3%A9&a=1"},
		{"other pairs keep broken escapes and odd bytes", urlencoded, "g", "a=%zz;\xff&&=&g=&__VIEWSTATE=%2fwE+", Empty, "a=%zz;\xff&&=&g=t%2B%2F%C3%A9&__VIEWSTATE=%2fwE+"},
		{"two empty pairs become one", urlencoded, "g", "g=&a=1&g=&g&c=3", Empty, "g=t%2B%2F%C3%A9&a=1&c=3"},
		{"an empty pair beside a filled one", urlencoded, "g", "g=&a=1&g=tok", Filled, "g=t%2B%2F%C3%A9&a=1"},
		{"a pair after one longer than the window", urlencoded, "g", "a=" + long + "&g=", Empty, "a=" + long + "&g=t%2B%2F%C3%A9"},
		{"a value longer than the window", urlencoded, "g", "g=" + long + "&a=1", Filled, "g=t%2B%2F%C3%A9&a=1"},
		{"a byte order mark is of the first name", urlencoded, "g", "\xef\xbb\xbfg=&g=", Empty, "\xef\xbb\xbfg=&g=t%2B%2F%C3%A9"},
		{"a name in UTF-16 is another", urlencoded, "g", "g\x00=\x00&a=1", Missing, "g\x00=\x00&a=1&g=t%2B%2F%C3%A9"},
		{"a name that is escaped twice is another", urlencoded, "g", "%2567=&a=1", Missing, "%2567=&a=1&g=t%2B%2F%C3%A9"},
		{"a semicolon parts no pairs", urlencoded, "g", "a=1;g=&c=3", Missing, "a=1;g=&c=3&g=t%2B%2F%C3%A9"},
		{"a charset is no matter", urlencoded + "; charset=UTF-8", "g", "g=", Empty, "g=t%2B%2F%C3%A9"},

		{"an empty part", multi, "g", parts(`name="a"`, "1", `name="g"`, "", `name="c"`, "3"), Empty, parts(`name="a"`, "1", `name="g"`, "t+/é", `name="c"`, "3")},
		{"a filled part", multi, "g", parts(`name="g"`, "tok"), Filled, parts(`name="g"`, "t+/é")},
		{"a part whose content is a line end is filled", multi, "g", parts(`name="g"`, "\r\n"), Filled, parts(`name="g"`, "t+/é")},
		{"no such part", multi, "g", parts(`name="a"`, "1"), Missing, parts(`name="a"`, "1", `name="g"`, "t+/é")},
		{"a file of that name is no field", multi, "g", parts(`name="g"; filename="f"`, ""), Missing, parts(`name="g"; filename="f"`, "", `name="g"`, "t+/é")},
		{"two empty parts become one", multi, "g", parts(`name="g"`, "", `name="a"`, "1", `name="g"`, ""), Empty, parts(`name="g"`, "t+/é", `name="a"`, "1")},
		{"a file with what looks like a boundary", multi, "g", parts(`name="f"; filename="f"`, "\n--XX\r\n--XXX\r\n\r--XX--", `name="g"`, ""), Empty, parts(`name="f"; filename="f"`, "\n--XX\r\n--XXX\r\n\r--XX--", `name="g"`, "t+/é")},
		{"a file longer than the window", multi, "g", parts(`name="f"; filename="f"`, long, `name="g"`, ""), Empty, parts(`name="f"; filename="f"`, long, `name="g"`, "t+/é")},
		{"a file whose line end falls on the window's edge", multi, "g", parts(`name="f"; filename="f"`, long[:window-61], `name="g"`, ""), Empty, parts(`name="f"; filename="f"`, long[:window-61], `name="g"`, "t+/é")},
		{"a preamble, an epilogue and blanks after a boundary", multi, "g", "pre\r\n--XX \t\r\ncontent-disposition:form-data;name=g\r\n\r\n\r\n--XX-- \r\npost\r\n--XX\r\n", Empty, "pre\r\n--XX \t\r\ncontent-disposition:form-data;name=g\r\n\r\nt+/é\r\n--XX-- \r\npost\r\n--XX\r\n"},
		{"a last boundary with no line end", multi, "g", strings.TrimSuffix(parts(`name="g"`, ""), "\r\n"), Empty, strings.TrimSuffix(parts(`name="g"`, "t+/é"), "\r\n")},
		{"a boundary in quotes, with what needs them", `multipart/form-data; boundary="a b:c"`, "g", "--a b:c\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\n\r\n--a b:c--", Empty, "--a b:c\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\nt+/é\r\n--a b:c--"},
		{"an encoding that is none", multi, "g", "--XX\r\nContent-Transfer-Encoding: binary\r\nContent-Disposition: form-data; name=g\r\n\r\n\r\n--XX--", Empty, "--XX\r\nContent-Transfer-Encoding: binary\r\nContent-Disposition: form-data; name=g\r\n\r\nt+/é\r\n--XX--"},
		{"another part in another transfer encoding", multi, "g", "--XX\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: form-data; name=a\r\n\r\nQQ==\r\n--XX\r\nContent-Disposition: form-data; name=g\r\n\r\n\r\n--XX--", Empty, "--XX\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: form-data; name=a\r\n\r\nQQ==\r\n--XX\r\nContent-Disposition: form-data; name=g\r\n\r\nt+/é\r\n--XX--"},
		{"a part in a file that holds a form", multi, "g", parts(`name="f"; filename="f"`, "--YY\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\n\r\n--YY--"), Missing, parts(`name="f"; filename="f"`, "--YY\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\n\r\n--YY--", `name="g"`, "t+/é")},
		{"a name that is said twice is none", multi, "g", parts(`name="a"; name="g"`, ""), Missing, parts(`name="a"; name="g"`, "", `name="g"`, "t+/é")},
		{"a form of no parts", multi, "g", "--XX--\r\n", Missing, ""},

		{"an empty string", jsonType, "g", `{"a":1.0,"g":"","c":[]}`, Empty, `{"a":1.0,"g":"t+/é","c":[]}`},
		{"a null", jsonType, "g", `{"g": null }`, Empty, `{"g": "t+/é" }`},
		{"a filled member", jsonType, "g", `{"g":"tok"}`, Filled, `{"g":"t+/é"}`},
		{"a member that is no string is filled", jsonType, "g", `{"g":{"g":""}}`, Filled, `{"g":"t+/é"}`},
		{"no such member", jsonType, "g", `{"a":{"g":""}, "G":"" }`, Missing, `{"a":{"g":""}, "G":"" ,"g":"t+/é"}`},
		{"an empty object", jsonType, "g", ` { } `, Missing, ` { "g":"t+/é"} `},
		{"a path", jsonType, "$.captcha.token", `{"token":"","captcha":{"a":[{"token":""}],"token":""}}`, Empty, `{"token":"","captcha":{"a":[{"token":""}],"token":"t+/é"}}`},
		{"a path to a missing member", jsonType, "$.captcha.token", `{"captcha":{"a":1}}`, Missing, `{"captcha":{"a":1,"token":"t+/é"}}`},
		{"a path to a missing object", jsonType, "$.captcha.token", `{"a":1}`, Missing, ""},
		{"a path through a list", jsonType, `$[1]["odd name"][0]`, `[{"odd name":[""]},{"odd name":["",""]}]`, Empty, `[{"odd name":[""]},{"odd name":["t+/é",""]}]`},
		{"a path beyond a list", jsonType, `$.l[1]`, `{"l":[""]}`, Missing, ""},
		{"a name with escapes", jsonType, "g", `{"\u0067":""}`, Empty, `{"\u0067":"t+/é"}`},
		{"other members keep their text", jsonType, "g", "{\"n\":1E+2,\"s\":\"\\u00e9\\/\\\"}\",\"g\":\"\",\"x\":\"\xff\"}", Empty, "{\"n\":1E+2,\"s\":\"\\u00e9\\/\\\"}\",\"g\":\"t+/é\",\"x\":\"\xff\"}"},
		{"numbers that no float holds", jsonType, "g", `{"n":123456789012345678901234567890.10,"m":-1e999,"g":""}`, Empty, `{"n":123456789012345678901234567890.10,"m":-1e999,"g":"t+/é"}`},
		{"an empty member beside a filled one", jsonType, "g", `{"g":"tok","g":""}`, Filled, `{"g":"t+/é","g":"t+/é"}`},
		{"a member as deep as may be", jsonType, "g", `{"a":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `,"g":""}`, Empty, `{"a":` + strings.Repeat("[", maxDepth-1) + strings.Repeat("]", maxDepth-1) + `,"g":"t+/é"}`},
		{"each of two members", jsonType, "g", `{"g":"","g":""}`, Empty, `{"g":"t+/é","g":"t+/é"}`},
		{"a string longer than the window", jsonType, "g", `{"f":"` + long + `","g":""}`, Empty, `{"f":"` + long + `","g":"t+/é"}`},
		{"a body of another JSON type", "application/vnd.api+json; charset=utf-8", "g", `{"g":""}`, Empty, `{"g":"t+/é"}`},
		{"a body that is no object", jsonType, "g", `"g"`, Missing, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, err := scan(t, tt.contentType, tt.field, tt.body)
			if err != nil {
				t.Fatal(err)
			}
			if found.State != tt.state {
				t.Errorf("state %d, want %d", found.State, tt.state)
			}
			edits, err := found.Fill("t+/é")
			if tt.want == "" {
				if err == nil {
					t.Errorf("filled where it has no place: %v", edits)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := patch(t, tt.body, edits); got != tt.want {
				t.Errorf("got  %q\nwant %q", got, tt.want)
			}
		})
	}
}

func TestNotAForm(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, contentType, body string }{
		{"no delimiter", multi, "a=1"},
		{"nothing", multi, ""},
		{"a part that does not end", multi, "--XX\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\n"},
		{"a head that does not end", multi, "--XX\r\nContent-Disposition: form-data; name=\"g\"\r\n"},
		{"bare line feeds", multi, "--XX\nContent-Disposition: form-data; name=\"g\"\n\n\n--XX--\n"},
		{"a head without end", multi, "--XX\r\n" + strings.Repeat("a: b\r\n", maxHead+1) + "\r\n\r\n--XX--"},
		{"a line of the head beyond the window", multi, "--XX\r\na: " + strings.Repeat("b", 2*window) + "\r\n\r\n\r\n--XX--"},
		{"an empty field without a line end of its own", multi, "--XX\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\n--XX--"},
		{"a field in another transfer encoding", multi, "--XX\r\nContent-Transfer-Encoding: base64\r\nContent-Disposition: form-data; name=\"g\"\r\n\r\n\r\n--XX--"},
		{"nothing", jsonType, ""},
		{"half an object", jsonType, `{"g":""`},
		{"half a string", jsonType, `{"g":"`},
		{"two values", jsonType, `{"g":""}{}`},
		{"a NUL after the value", jsonType, "{\"g\":\"\"}\x00{}"},
		{"UTF-16", jsonType, "{\x00\"\x00g\x00\"\x00:\x00\"\x00\"\x00}\x00"},
		{"UTF-16 with its mark", jsonType, "\xff\xfe{\x00}\x00"},
		{"a comma too many", jsonType, `{"g":"",}`},
		{"a list with a comma too many", jsonType, `{"g":"","a":[1,]}`},
		{"no colon", jsonType, `{"g" ""}`},
		{"a bare word", jsonType, `{"g":undefined}`},
		{"a name without quotes", jsonType, `{g:""}`},
		{"a line end in a string", jsonType, "{\"g\":\"\n\"}"},
		{"a byte order mark", jsonType, "\xef\xbb\xbf{\"g\":\"\"}"},
		{"objects without end", jsonType, strings.Repeat(`{"g":`, 2*maxDepth)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if found, err := scan(t, tt.contentType, "g", tt.body); !errors.Is(err, ErrForm) {
				t.Errorf("found %+v, %v, want ErrForm", found, err)
			}
		})
	}
}

func TestTypeOf(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{"", "text/plain", "multipart/form-data", "multipart/mixed; boundary=XX", "application/jsonp", "a/b; c=", "multipart/form-data; boundary=" + strings.Repeat("X", 71)} {
		if _, ok := TypeOf(contentType); ok {
			t.Errorf("TypeOf(%q) is a form", contentType)
		}
	}
}

func TestParseFieldRefuses(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "$.", "$.a.", "$.a..b", "$[", "$[x]", "$[-1]", `$["a`, `$["a"`, "$.a[1]b", "$['a']"} {
		if f, err := ParseField(s); err == nil {
			t.Errorf("ParseField(%q) = %q, want an error", s, f)
		}
	}
}

func TestBrokenBodyIsNoForm(t *testing.T) {
	t.Parallel()
	gone := errors.New("client gone")
	for _, contentType := range []string{urlencoded, multi, jsonType} {
		typ, _ := TypeOf(contentType)
		f, err := ParseField("g")
		if err != nil {
			t.Fatal(err)
		}
		body := map[string]string{urlencoded: "a=1&g", multi: "--XX\r\n", jsonType: `{"g":`}[contentType]
		if _, err := typ.read(newScanner(), io.MultiReader(strings.NewReader(body), iotest.ErrReader(gone)), f); !errors.Is(err, gone) {
			t.Errorf("%s: error %v, want the body's own", contentType, err)
		}
	}
}

// scan finds a field in a body that comes whole, and wants the same of one that
// comes byte by byte.
func scan(t *testing.T, contentType, field, body string) (Found, error) {
	t.Helper()
	typ, ok := TypeOf(contentType)
	if !ok {
		t.Fatalf("TypeOf(%q): no form", contentType)
	}
	f, err := ParseField(field)
	if err != nil {
		t.Fatal(err)
	}
	found, err := typ.Scan(strings.NewReader(body), int64(len(body)), f)
	slow, slowErr := typ.read(newScanner(), iotest.OneByteReader(strings.NewReader(body)), f)
	if found.State != slow.State || (err == nil) != (slowErr == nil) {
		t.Errorf("state %d, %v; byte by byte %d, %v", found.State, err, slow.State, slowErr)
	}
	return found, err
}

func patch(t *testing.T, body string, edits []Edit) string {
	t.Helper()
	r, size := Patch(strings.NewReader(body), int64(len(body)), edits)
	var got bytes.Buffer
	if _, err := got.ReadFrom(r); err != nil {
		t.Fatal(err)
	}
	if int64(got.Len()) != size {
		t.Errorf("Patch says %d bytes, and gives %d", size, got.Len())
	}
	return got.String()
}

// Fields of one body that need a token at once: each is a name in fields, and
// gets its own name as a token.
func TestMerge(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, contentType, body, fields, want string }{
		{"two members of an empty object", jsonType, `{ }`, "g h", `{ "g":"g","h":"h"}`},
		{"two more members", jsonType, `{"a":1}`, "h g", `{"a":1,"g":"g","h":"h"}`},
		{"an empty object in another", jsonType, `{"c":{}}`, "$.c.x $.c.y z", `{"c":{"x":"$.c.x","y":"$.c.y"},"z":"z"}`},
		{"one place by two names", jsonType, `{"g":""}`, "g $.g", ""},
		{"one missing place by two names", jsonType, `{}`, "g $.g", ""},
		{"a place within another", jsonType, `{"g":{"h":""}}`, "g $.g.h", ""},
		{"two pairs of an empty body", urlencoded, "", "g h", "g=g&h=h"},
		{"a pair that is added after one that is empty", urlencoded, "a=1&h=", "g h", "a=1&h=h&g=g"},
		{"an empty pair that ends where one begins that is cut", urlencoded, "b=1&g=&b=", "b g", "b=b&g=g"},
		{"a part that is added after one that is empty", multi, parts(`name="h"`, ""), "g h", parts(`name="h"`, "h", `name="g"`, "g")},
		{"two more parts", multi, parts(`name="a"`, "1"), "g h", parts(`name="a"`, "1", `name="g"`, "g", `name="h"`, "h")},
		{"one pair by two wishes", urlencoded, "g=", "g g", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			typ, _ := TypeOf(tt.contentType)
			var all [][]Edit
			for name := range strings.FieldsSeq(tt.fields) {
				f, err := ParseField(name)
				if err != nil {
					t.Fatal(err)
				}
				found, err := typ.Scan(strings.NewReader(tt.body), int64(len(tt.body)), f)
				if err != nil {
					t.Fatal(err)
				}
				edits, err := found.Fill(name)
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, edits)
			}
			edits, ok := Merge(all...)
			if ok != (tt.want != "") {
				t.Fatalf("all can be made: %v", ok)
			}
			if !ok {
				return
			}
			r, size := Patch(strings.NewReader(tt.body), int64(len(tt.body)), edits)
			got, err := io.ReadAll(r)
			if string(got) != tt.want || int64(len(got)) != size || err != nil {
				t.Errorf("%q of %d bytes, %v; want %q", got, size, err, tt.want)
			}
		})
	}
}
