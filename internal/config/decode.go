package config

import (
	"fmt"
	"iter"
	"net/netip"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// decoder reads values into a Config by the table of keys. No fault stops it.
type decoder struct {
	*report
	src     *source
	dir     string // relative files start here
	lookup  func(string) (string, bool)
	anchors map[string]ast.Node
}

// file reads the whole of a file, or the defaults alone where top is nil.
func (d *decoder) file(top ast.Node, c *Config) {
	d.anchors = map[string]ast.Node{}
	if top != nil {
		ast.Walk(d, top)
	}
	switch n := d.resolve(top, "").(type) {
	case *ast.MappingNode:
		d.mapping(n.Values, "", reflect.ValueOf(c).Elem())
	case *ast.MappingValueNode:
		d.mapping([]*ast.MappingValueNode{n}, "", reflect.ValueOf(c).Elem())
	default:
		if n != nil {
			d.add(placeOf(n), "", "a configuration is a mapping of keys to values", "begin with a key, such as sites:")
		}
		d.mapping(nil, "", reflect.ValueOf(c).Elem())
	}
}

// Visit collects anchors.
func (d *decoder) Visit(n ast.Node) ast.Visitor {
	if a, ok := n.(*ast.AnchorNode); ok && a.Name != nil {
		d.anchors[a.Name.GetToken().Value] = a.Value
	}
	return d
}

// resolve follows anchors and aliases to the value. It returns nil where there
// is none.
func (d *decoder) resolve(n ast.Node, path string) ast.Node {
	for range 16 { // an alias may lead to itself
		switch a := n.(type) {
		case *ast.AnchorNode:
			n = a.Value
		case *ast.AliasNode:
			target, ok := d.anchors[a.Value.GetToken().Value]
			if !ok {
				d.add(placeOf(a), path, "this alias names no anchor", "quote a value that begins with *, or set its anchor with &")
				return nil
			}
			n = target
		case *ast.TagNode:
			d.add(placeOf(a), path, "tags are not read", "quote a value that begins with !, or remove the tag")
			return nil
		default:
			return n
		}
	}
	d.add(placeOf(n), path, "this alias leads to itself", "write the value out")
	return nil
}

// value reads node n into v. The path is that of the value, k the key that
// describes it: a list's items share their list's.
func (d *decoder) value(n ast.Node, path string, k key, v reflect.Value) {
	if n = d.resolve(n, path); n == nil {
		return
	}
	if p, ok := v.Addr().Interface().(*JSON); ok {
		p.Value = d.json(n, path, k)
		return
	}
	if v.Kind() == reflect.Pointer { // a part that may be left out as a whole
		v.Set(reflect.New(v.Type().Elem()))
		v = v.Elem()
	}
	_, isList := n.(*ast.SequenceNode)
	if p, ok := v.Addr().Interface().(*Proxy); ok && !isList && !isMapping(n) {
		v, k = reflect.ValueOf(&p.URL).Elem(), describe(k.path+".url")
	}
	at := placeOf(n)
	d.places[path] = at
	if _, ok := v.Addr().Interface().(*Proxy); ok && d.bareURL(n, path) {
		d.add(at, path, entry(path, k)+" is a URL in quotes, or a mapping that has url",
			`within { } and [ ] a colon makes a mapping of what has no quotes: write "http://user:password@10.0.0.1:3128" or "socks5://10.0.0.2:1080"`)
		return
	}
	if s, ok := v.Addr().Interface().(*Store); ok && !isMapping(n) {
		d.mapping(nil, path, v) // one value is the URL alone
		v = reflect.ValueOf(&s.URL).Elem()
		d.places["store.url"] = at
	}
	if _, null := n.(*ast.NullNode); null {
		d.add(at, path, entry(path, k)+" has no value", "give it one, or remove it")
		return
	}
	switch n := n.(type) {
	case *ast.SequenceNode:
		if v.Kind() == reflect.Slice {
			d.list(n, path, k, v)
			return
		}
	case *ast.MappingNode:
		if d.entries(n.Values, path, k, v) {
			return
		}
	case *ast.MappingValueNode:
		if d.entries([]*ast.MappingValueNode{n}, path, k, v) {
			return
		}
	default:
		if isScalar(v) {
			if text, ok := d.text(n, path, k); ok {
				d.scalar(text, at, path, k, v)
			}
			return
		}
	}
	name := entry(path, k)
	switch {
	case isScalar(v) && isMapping(n):
		d.add(at, path, name+" is one value", "quote it: within { } and [ ] a colon or a brace makes a mapping of it")
	case isScalar(v):
		d.add(at, path, name+" is one value", "write it as "+k.form)
	case v.Kind() == reflect.Slice && isStruct(v.Type().Elem()) && v.Type().Elem() != reflect.TypeFor[Proxy]() && !isMapping(n):
		d.add(at, path, name+" is a list of mappings", fmt.Sprintf("write it as %s: %s", name, example(k)))
	case v.Kind() == reflect.Slice:
		d.add(at, path, name+" is a list", "write [ ] around it, or begin each entry with a dash")
	case v.Kind() == reflect.Map:
		d.add(at, path, name+" is a mapping", "write it as "+k.form)
	default:
		remedy := "its keys are " + strings.Join(names(k.path), ", ")
		if k.path != "" {
			remedy = "write it as " + smallest(k.path) + "; " + remedy
		}
		d.add(at, path, name+" is a mapping", remedy)
	}
}

// bareURL says whether a mapping is one for want of quotes: it has one key, which
// is none of an upstream's, and no slip of the pen.
func (d *decoder) bareURL(n ast.Node, path string) bool {
	var pairs []*ast.MappingValueNode
	switch n := n.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	}
	if len(pairs) != 1 {
		return false
	}
	name, ok := d.name(pairs[0], path)
	meant, _ := suggest(name, generic(path))
	return ok && meant == name && !fieldOf(reflect.ValueOf(Proxy{}), name).IsValid()
}

// entry names a value for a message.
func entry(path string, k key) string {
	if strings.HasSuffix(path, "]") {
		return "an entry of " + strings.TrimSuffix(lastName(k.path), "[]")
	}
	return lastName(path)
}

func isMapping(n ast.Node) bool {
	switch n.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

func isScalar(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Slice, reflect.Map:
		return false
	}
	return !isStruct(v.Type())
}

// isStruct says whether a type has keys.
func isStruct(t reflect.Type) bool {
	return t.Kind() == reflect.Struct && t != reflect.TypeFor[netip.Prefix]() && t != reflect.TypeFor[JSON]()
}

// example is a list of mappings: its default, or one entry where that has none.
func example(k key) string {
	if strings.HasPrefix(k.def, "[{") {
		return k.def
	}
	return "[" + smallest(k.path+"[]") + "]"
}

// smallest is a mapping of what has no default under a generic path, and of the
// first key where all have one.
func smallest(under string) string {
	var needed []string
	for _, name := range names(under) {
		if k := describe(join(under, name)); k.def == required {
			needed = append(needed, name+": "+k.form)
		}
	}
	if first := names(under)[0]; len(needed) == 0 {
		needed = []string{first + ": " + describe(join(under, first)).form}
	}
	return "{" + strings.Join(needed, ", ") + "}"
}

func (d *decoder) list(n *ast.SequenceNode, path string, k key, v reflect.Value) {
	v.Set(reflect.MakeSlice(v.Type(), len(n.Values), len(n.Values)))
	if isStruct(v.Type().Elem()) {
		k = key{path: k.path + "[]"}
	}
	for i, item := range n.Values {
		d.value(item, fmt.Sprintf("%s[%d]", path, i), k, v.Index(i))
	}
}

// entries reads a mapping into a struct or a map. It returns false where v is neither.
func (d *decoder) entries(entries []*ast.MappingValueNode, path string, k key, v reflect.Value) bool {
	switch {
	case v.Kind() == reflect.Map:
		d.pairs(entries, path, k, v)
	case isStruct(v.Type()):
		d.mapping(entries, path, v)
	default:
		return false
	}
	return true
}

// pairs reads a mapping whose keys are the operator's own.
func (d *decoder) pairs(entries []*ast.MappingValueNode, path string, k key, v reflect.Value) {
	v.Set(reflect.MakeMapWithSize(v.Type(), len(entries)))
	structs := isStruct(v.Type().Elem())
	if structs {
		k = key{path: k.path + "[]"}
	}
	for _, e := range entries {
		name, ok := d.name(e, path)
		if !ok {
			continue
		}
		sub := join(path, name)
		if structs { // those of upstreams
			sub = path + "[" + name + "]"
			if message, remedy := badPoolName(name); message != "" {
				d.add(placeOf(e.Key), path+".?", message, remedy)
				continue
			}
		}
		if v.MapIndex(reflect.ValueOf(name)).IsValid() {
			d.add(placeOf(e.Key), sub, fmt.Sprintf("%s stands twice", name), "remove one")
			continue
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.Value, sub, k, item)
		v.SetMapIndex(reflect.ValueOf(name), item)
	}
}

// mapping reads the keys of a struct, and sets the defaults of the others.
func (d *decoder) mapping(entries []*ast.MappingValueNode, path string, v reflect.Value) {
	seen := map[string]bool{}
	for _, e := range entries {
		name, ok := d.name(e, path)
		if !ok {
			continue
		}
		sub := join(path, name)
		field := fieldOf(v, name)
		switch {
		case !field.IsValid():
			meant, remedy := suggest(name, generic(path))
			message := fmt.Sprintf("there is no key %q here", name)
			if doubtful.MatchString(name) {
				message = "there is no such key here" // but a value, whose quotes are not closed
			}
			d.add(placeOf(e.Key), join(path, meant), message, remedy)
		case seen[name]:
			d.add(placeOf(e.Key), sub, fmt.Sprintf("the key %s stands twice", name), "remove one")
		default:
			d.value(e.Value, sub, describe(generic(sub)), field)
		}
		seen[name] = true
	}
	for name, field := range fields(v) {
		if sub := join(path, name); !seen[name] {
			d.absent(sub, describe(generic(sub)), field)
		}
	}
}

// absent sets a default. Defaults are written as in a file, and read as one.
func (d *decoder) absent(path string, k key, v reflect.Value) {
	switch {
	case k.def == required:
		d.at(path, lastName(path)+" is missing", fmt.Sprintf("add %s: %s", lastName(path), k.form))
		d.broken[path] = true
	case k.def != "":
		file, err := parser.ParseBytes([]byte(k.def), 0)
		if err != nil {
			panic(fmt.Sprintf("default of %s: %v", k.path, err))
		}
		quiet := &decoder{report: newReport(), src: &source{harmless: map[*token.Token]bool{}}, dir: d.dir}
		quiet.value(file.Docs[0].Body, path, k, v)
	case isStruct(v.Type()):
		d.mapping(nil, path, v)
	}
}

// name returns the key of a mapping's entry.
func (d *decoder) name(e *ast.MappingValueNode, path string) (string, bool) {
	n := ast.Node(e.Key)
	if e.Start.Type != token.MappingValueType {
		d.add(placeOf(n), path+".?", "a key has a colon and a value", "write KEY: VALUE")
		return "", false
	}
	if e.Key.IsMergeKey() {
		d.src.harmless[n.GetToken()] = true
		d.add(placeOf(n), path+".<<", "merge keys are not read", "write the keys out, or use an alias for a whole value")
		return "", false
	}
	if m, ok := n.(*ast.MappingKeyNode); ok {
		n = m.Value
	}
	name, ok := scalarText(n)
	if !ok {
		d.add(placeOf(n), path+".?", "a key is one word", "write it as a name with a colon")
		return "", false
	}
	d.src.harmless[n.GetToken()] = true
	return name, true
}

// placeOf is where a reader looks for n: the first key of a block mapping, not
// its colon.
func placeOf(n ast.Node) place {
	switch m := n.(type) {
	case *ast.MappingNode:
		if !m.IsFlowStyle && len(m.Values) > 0 {
			return placeOf(m.Values[0].Key)
		}
	case *ast.MappingValueNode:
		return placeOf(m.Key)
	}
	t := n.GetToken()
	if t == nil || t.Position == nil {
		return place{}
	}
	return place{line: t.Position.Line, col: t.Position.Column}
}

// fields yields the fields of a struct that are keys, by name and in order.
func fields(v reflect.Value) iter.Seq2[string, reflect.Value] {
	return func(yield func(string, reflect.Value) bool) {
		for f, field := range v.Fields() {
			if name := f.Tag.Get("yaml"); name != "-" && !yield(name, field) {
				return
			}
		}
	}
}

func fieldOf(v reflect.Value, name string) reflect.Value {
	for n, field := range fields(v) {
		if n == name {
			return field
		}
	}
	return reflect.Value{}
}
