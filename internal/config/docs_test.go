package config

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"text/template"
)

// The sections of docs/configuration.md. Each key belongs to the section of
// the longest path that holds it.
var sections = []struct{ path, title, intro string }{
	{"", "Top level", "Each but `sites` may be left out."},
	{"listen[]", "`listen`: the proxy's ports", "A list; each entry is one port."},
	{"store", "`store`: the Redis that proxies share", "A mapping in place of the URL alone. [redis.md](redis.md) says what is kept there, what a user needs to be allowed, and what happens in an outage."},
	{"spool", "`spool`: large forms that wait for a token", "[captcha.md](captcha.md) says which forms wait."},
	{"ca", "`ca`: the authority", "Clients trust this authority to be shown the declared sites. Certificate and key go together."},
	{"egress", "`egress`: where clients may go", "The proxy stands in a network that its clients may not be in. Addresses are judged after DNS, when a connection is made; what the operator wrote himself, in `origin.resolve` or as the address of a site, is not judged."},
	{"tls", "`tls`: the proxy's own certificate", "For ports with `tls: true`. Certificate and key go together; or it is fetched, by ACME ([tls.md](tls.md))."},
	{"audit", "`audit`: who did what", "For those who have to answer for the logins."},
	{"auth", "`auth`: who may use the admin API", "Beside the admin token, for whoever can read the state directory."},
	{"auth.operators[]", "`auth.operators`: operators by name", "A list."},
	{"clients[]", "`clients`: who may use the proxy", "A list. Clients log in with the user name `NAME[-worker-ID][-session-ID]` and their password."},
	{"sites[]", "`sites`: whose sessions are shared", "A list. No two sites share a name, a key or a pattern."},
	{"sites[].origin", "`sites[].origin`: the site's servers", "How they are reached and verified."},
	{"sites[].cookies", "`sites[].cookies`: what is shared", "Which cookies belong to the session, and for how long."},
	{"sites[].captcha[]", "`sites[].captcha`: forms that get a token", "A list; each entry is one rule. [captcha.md](captcha.md) has it in words."},
	{"captchaai", "`captchaai`: who solves", "An account at CaptchaAI. Its threads are shared by all proxies."},
	{"upstreams[]", "`upstreams`: proxies to leave by", "A mapping; each entry is one pool."},
	{"sites[].login", "`sites[].login`: one logs in for all", "May be left out. [login.md](login.md) has it in words, and a block for each of some frameworks."},
}

func TestDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/configuration.md.tmpl")
	if err != nil {
		t.Fatal(err)
	}
	page, err := template.New("").Parse(string(text))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile("testdata/full.yaml")
	if err != nil {
		t.Fatal(err)
	}
	faults, err := os.ReadFile("testdata/faults/documented.txt")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := page.Execute(&b, map[string]any{
		"Example":   string(example),
		"Faults":    string(faults),
		"Sections":  documented(),
		"Variables": variables(),
		"Restarts":  "`" + strings.Join(restarts[:len(restarts)-1], "`, `") + "` and `" + restarts[len(restarts)-1] + "`",
	}); err != nil {
		t.Fatal(err)
	}
	golden(t, "../../docs/configuration.md", b.String())
}

type section struct {
	Title, Intro string
	Keys         []row
}

type row struct{ Name, Form, Default, Meaning string }

func documented() []section {
	cell := func(s string) string { return strings.ReplaceAll(s, "|", `\|`) }
	all := make([]section, len(sections))
	for i, s := range sections {
		all[i] = section{Title: s.title, Intro: s.intro}
	}
	for _, k := range keys {
		at := 0
		for i, s := range sections {
			if s.path != "" && strings.HasPrefix(k.path, s.path+".") {
				at = i
			}
		}
		def := ""
		switch k.def {
		case "":
		case required:
			def = "required"
		default:
			def = "`" + cell(k.def) + "`"
		}
		name := strings.TrimPrefix(strings.TrimPrefix(k.path, sections[at].path), ".")
		all[at].Keys = append(all[at].Keys, row{name, "`" + cell(k.form) + "`", def, cell(k.meaning)})
	}
	return all
}

type variableRow struct{ Key, Flag, Variable string }

// variables are the keys that one variable sets.
func variables() []variableRow {
	flags := []string{"admin", "ops", "state", "store"}
	var all []variableRow
	for _, k := range keys {
		if strings.ContainsAny(k.path, ".[") || k.form == "LIST" {
			continue
		}
		flag := "–"
		if slices.Contains(flags, k.path) {
			flag = "`--" + k.path + "`"
		}
		all = append(all, variableRow{k.path, flag, envPrefix + strings.ToUpper(k.path)})
	}
	return all
}

// Every field of Config is described, and every description is a field's.
func TestKeysAreTheFields(t *testing.T) {
	t.Parallel()
	described := map[string]bool{}
	for _, k := range keys {
		if described[k.path] {
			t.Errorf("%s is described twice", k.path)
		}
		described[k.path] = true
		if k.form == "" || !strings.HasSuffix(k.meaning, ".") {
			t.Errorf("%s: form %q, meaning %q", k.path, k.form, k.meaning)
		}
	}
	var walk func(path string, v reflect.Type)
	walk = func(path string, typ reflect.Type) {
		for name, field := range fields(reflect.New(typ).Elem()) {
			sub, typ := join(path, name), field.Type()
			if typ.Kind() == reflect.Pointer {
				typ = typ.Elem()
			}
			item := typ
			many := typ.Kind() == reflect.Slice || typ.Kind() == reflect.Map
			if many {
				item = typ.Elem()
			}
			_, isStore := field.Addr().Interface().(*Store) // one value, or a mapping
			nested := isStruct(item)
			if !nested || isStore || many {
				if !described[sub] {
					t.Errorf("%s is not described", sub)
				}
				delete(described, sub)
			}
			if nested && many {
				sub += "[]"
			}
			if nested {
				walk(sub, item)
			}
		}
	}
	walk("", reflect.TypeFor[Config]())
	for path := range described {
		t.Errorf("%s is described and no field", path)
	}
}
