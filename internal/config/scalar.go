package config

import (
	"encoding/json"
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml/ast"
)

// text returns what a scalar says, with variables put in.
func (d *decoder) text(n ast.Node, path string, k key) (string, bool) {
	text, ok := scalarText(n)
	if !ok {
		d.add(placeOf(n), path, fmt.Sprintf("%s has a form that is not read", lastName(k.path)), "write "+k.form)
		return "", false
	}
	if !holdsSecret(k.path, text) {
		d.src.harmless[n.GetToken()] = true
	}
	if fromOutside(k.path) && !outside.MatchString(text) {
		name := lastName(k.path)
		d.add(placeOf(n), path, "the "+name+" itself stands here", fmt.Sprintf(`keep it out of this file: write %s: "${NAME}", or %[1]s: "${file:PATH}"`, name))
		return "", false
	}
	if holdsSecret(k.path, text) && shellVariable.MatchString(text) {
		d.add(placeOf(n), path, "a variable without braces is taken as it is written", `write "${NAME}"; where it is the value itself, put that into a variable or a file`)
		return "", false
	}
	text, message, remedy := d.expand(text)
	if message != "" {
		d.add(placeOf(n), path, message, remedy)
		return "", false
	}
	return text, true
}

// shellVariable is what a shell would replace, and this file would not.
var shellVariable = regexp.MustCompile(`^\$[A-Za-z_][A-Za-z0-9_]*$`)

// scalarText returns a scalar as it stands in the file: an unquoted 007 is a
// name like any other.
func scalarText(n ast.Node) (string, bool) {
	switch n := n.(type) {
	case *ast.StringNode:
		return n.Value, true
	case *ast.LiteralNode:
		return n.Value.Value, true
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, true
	}
	return "", false
}

// scalar reads text, from wherever it comes, into v.
func (d *decoder) scalar(text string, at place, path string, k key, v reflect.Value) {
	fail := func(message, remedy string) { d.add(at, path, message, remedy) }
	name := lastName(k.path)
	switch p := v.Addr().Interface().(type) {
	case *bool:
		if text != "true" && text != "false" {
			fail(name+" must be true or false", "write "+name+": true, or "+name+": false")
		}
		*p = text == "true"
	case *int:
		if text == "auto" && k.def == "auto" {
			return
		}
		n, err := strconv.Atoi(text)
		switch {
		case err != nil:
			fail(entry(path, k)+" is a whole number", "write it in digits")
		case n < 0:
			fail(entry(path, k)+" must not be negative", "write it in digits")
		case n == 0 && k.def != "0":
			fail(entry(path, k)+" must be 1 or more", "write it in digits")
		}
		*p = n
	case *time.Duration:
		if text == "auto" && k.def == "auto" {
			return
		}
		t, err := time.ParseDuration(text)
		switch {
		case err != nil:
			fail(name+" is a duration with its unit", "write it like 90s, 30m or 24h")
		case t < 0:
			fail(name+" must not be negative", "write it like 90s, 30m or 24h")
		case t == 0 && k.def != "0":
			fail(name+" must be longer than 0", "write it like 90s, 30m or 24h, or leave it out")
		}
		*p = t
	case *netip.Prefix:
		prefix, message, remedy := parseNetwork(text)
		if message != "" {
			fail(message, remedy)
		}
		*p = prefix
	default:
		v.SetString(d.word(text, path, k, fail))
	}
}

// word reads a string by the form of its key.
func (d *decoder) word(text, path string, k key, fail func(message, remedy string)) string {
	name := entry(path, k)
	choices := strings.Split(k.form, " | ")
	switch {
	case text == "" && !strings.HasPrefix(k.form, "{"):
		remedy := "give it a value, or remove it"
		if k.def == required && name == lastName(path) {
			remedy = "give it a value"
		}
		fail(name+" is empty", remedy)
	case k.form == formFileOrStdout && text == AuditStdout:
	case slices.Contains([]string{formFile, formDir, formFileOrStdout, "[" + formFile + "]"}, k.form):
		if strings.HasPrefix(text, "~/") {
			fail("~ is not your home directory here", "write ${HOME}"+text[1:])
		}
		if !filepath.IsAbs(text) {
			return filepath.Join(d.dir, text)
		}
	case k.form == strings.ToLower(k.form) && !slices.Contains(choices, text):
		remedy := "write " + strings.Join(choices, " or ")
		if near := Nearest(text, choices); near != "" {
			remedy = "did you mean " + near + "?"
		}
		fail(fmt.Sprintf("%s must be %s", name, strings.Join(choices, " or ")), remedy)
	}
	return text
}

// json reads any value that JSON has, with variables put in.
func (d *decoder) json(n ast.Node, path string, k key) any {
	n = d.resolve(n, path)
	d.places[path] = placeOf(n)
	switch n := n.(type) {
	case *ast.MappingNode:
		return d.object(n.Values, path, k)
	case *ast.MappingValueNode:
		return d.object([]*ast.MappingValueNode{n}, path, k)
	case *ast.SequenceNode:
		list := make([]any, len(n.Values))
		for i, item := range n.Values {
			list[i] = d.json(item, fmt.Sprintf("%s[%d]", path, i), k)
		}
		return list
	case *ast.BoolNode:
		return n.Value
	case *ast.IntegerNode:
		return json.Number(n.GetToken().Value)
	case *ast.NullNode, nil:
		return nil
	}
	text, _ := d.text(n, path, k)
	return text
}

func (d *decoder) object(entries []*ast.MappingValueNode, path string, k key) any {
	object := make(map[string]any, len(entries))
	for _, e := range entries {
		name, ok := d.name(e, path)
		if !ok {
			continue
		}
		if _, again := object[name]; again {
			d.add(placeOf(e.Key), join(path, name), fmt.Sprintf("%s stands twice", name), "remove one")
			continue
		}
		object[name] = d.json(e.Value, join(path, name), k)
	}
	return object
}
