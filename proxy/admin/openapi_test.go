package admin

import (
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sessionproxy/sessionproxy/internal/config"
	"github.com/sessionproxy/sessionproxy/proxy/audit"
	"github.com/sessionproxy/sessionproxy/proxy/trace"
	"github.com/sessionproxy/sessionproxy/proxy/upstream"
)

var update = flag.Bool("update", false, "write openapi.json anew")

// operation describes a route for openapi.json: what it does, the body that it
// takes, the query, and the success that it answers with.
type operation struct {
	summary string
	body    any
	query   []string
	status  string // of success; "" 200
	answer  any    // nil: none
}

// operations are those of all routes.
var operations = map[string]operation{
	"GET /ca.pem":                                           {summary: "The certificate that clients are to trust, in PEM. Open to all.", answer: ""},
	"GET /proxy.pac":                                        {summary: "A proxy auto-configuration file that sends the declared hosts through the proxy. Open to all.", answer: ""},
	"GET /debug/pprof/{profile}":                            {summary: "A profile of the process: allocs, block, goroutine, heap, mutex, profile, threadcreate or trace. For operators.", query: []string{"seconds", "debug"}, answer: ""},
	"POST /api/v1/login":                                    {summary: "Log an operator in: with tokens, or with a cookie for a browser. Open to all.", body: Login{}, answer: LoggedIn{}},
	"POST /api/v1/refresh":                                  {summary: "Exchange a refresh token for a new pair. It is good once; a second use after 10 s logs its device out. Open to all.", body: Refresh{}, answer: LoggedIn{}},
	"POST /api/v1/logout":                                   {summary: "Log the device out that asks.", status: "204"},
	"GET /api/v1/me":                                        {summary: "Who asks.", answer: Me{}},
	"GET /api/v1/devices":                                   {summary: "What operators are logged in with. A viewer sees his own.", answer: Devices{}},
	"DELETE /api/v1/devices/{id}":                           {summary: "Log a device out.", status: "204"},
	"DELETE /api/v1/operators/{name}/devices":               {summary: "Log all of an operator's devices out.", answer: DevicesRevoked{}},
	"GET /api/v1/access":                                    {summary: "The tokens that stand for clients' passwords and have not ended.", answer: Grants{}},
	"POST /api/v1/access":                                   {summary: "Issue a token that stands for a client's password.", body: IssueGrant{}, status: "201", answer: IssuedGrant{}},
	"DELETE /api/v1/access/{id}":                            {summary: "Revoke such a token. Its tunnels close after their requests.", status: "204"},
	"GET /api/v1/clients":                                   {summary: "The declared clients, without their passwords.", answer: Clients{}},
	"GET /api/v1/config":                                    {summary: "When the configuration in force was read, and the faults of a later one that is not.", answer: Config{}},
	"POST /api/v1/config/reload":                            {summary: "Read the configuration anew. One with faults is not put in force, and the answer has them.", answer: Config{}},
	"GET /api/v1/events":                                    {summary: "The lines of all proxies' audit logs, as they come, after the last ones as asked: server-sent events of the type audit.", query: []string{"last"}, answer: stream{}},
	"GET /api/v1/captcha":                                   {summary: "The same of all sites that declare captchas.", answer: AllTokens{}},
	"GET /api/v1/captcha/{site}":                            {summary: "The captcha tokens that are ready, by sitekey, and the solves of this hour. Never a token.", answer: Tokens{}},
	"POST /api/v1/captcha/{site}/tokens":                    {summary: "Put in a captcha token that was solved elsewhere.", body: PushToken{}, answer: TokensChanged{}},
	"DELETE /api/v1/captcha/{site}/tokens":                  {summary: "Forget the captcha tokens that are ready for a sitekey.", query: []string{"sitekey", "action"}, answer: TokensChanged{}},
	"POST /api/v1/captcha/{site}/warm":                      {summary: "Begin to solve captcha tokens. Each is paid for.", body: WarmTokens{}, answer: TokensChanged{}},
	"GET /api/v1/exchanges":                                 {summary: "The last exchanges of this proxy that fit, the latest first: host is a glob, limit at most 1000.", query: []string{"client", "worker", "site", "session", "outcome", "host", "limit"}, answer: Exchanges{}},
	"GET /api/v1/exchanges/{id}":                            {summary: "An exchange of this proxy, by what X-Exchange-Id or the log calls it.", answer: trace.Exchange{}},
	"GET /api/v1/explain":                                   {summary: "Which cookies a request for a URL would carry, and why not the others.", query: []string{"url!", "session", "client"}, answer: Explanation{}},
	"GET /api/v1/logins":                                    {summary: "The sites that declare a login, and how the accounts of their recipes stand. Never a name or a password.", answer: Logins{}},
	"GET /api/v1/overview":                                  {summary: "The proxies that are there, and what they counted in the last ten minutes.", answer: Overview{}},
	"GET /api/v1/openapi.json":                              {summary: "This document.", answer: anything{}},
	"GET /api/v1/proxy":                                     {summary: "The proxy's ports, its clients' names, and the CA's fingerprint.", answer: Proxy{}},
	"GET /api/v1/sessions":                                  {summary: "The sessions that hold cookies, or were lately used.", query: []string{"site", "session", "q", "order", "after", "limit"}, answer: Sessions{}},
	"GET /api/v1/sessions/{site}/{session}":                 {summary: "A session and its cookies, without their values.", answer: SessionDetail{}},
	"DELETE /api/v1/sessions/{site}/{session}":              {summary: "Forget a session's cookies. Replies under way may fill it anew.", answer: Ended{}},
	"POST /api/v1/sessions/{site}/{session}/revoke":         {summary: "End a session for all its clients, for good.", answer: Ended{}},
	"POST /api/v1/sessions/{site}/{session}/cookies/import": {summary: "Import cookies into a session, all at once, and say what became of each.", body: ImportCookies{}, answer: CookiesImported{}},
	"POST /api/v1/sessions/{site}/{session}/cookies/export": {summary: "Reveal a session's cookies with their values. It is written to the audit log.", query: []string{"format"}, answer: CookiesExported{}},
	"POST /api/v1/sessions/{site}/{session}/login":          {summary: "Log in to a session by its site's recipe, now, and show each step.", answer: SessionLoggedIn{}},
	"PUT /api/v1/sessions/{site}/{session}/cookies":         {summary: "Set a cookie of a session.", body: SetCookie{}, answer: CookieSet{}},
	"DELETE /api/v1/sessions/{site}/{session}/cookies":      {summary: "Remove the cookies of a name.", query: []string{"name!", "domain", "path"}, answer: CookiesRemoved{}},
	"GET /api/v1/sites":                                     {summary: "The declared sites.", answer: Sites{}},
	"GET /api/v1/upstreams":                                 {summary: "The upstreams of all pools, without their credentials.", query: []string{"pool", "q", "after", "limit"}, answer: Upstreams{}},
	"POST /api/v1/upstreams/{pool}":                         {summary: "Add an upstream to a pool.", body: AddUpstream{}, answer: Upstream{}},
	"POST /api/v1/upstreams/{pool}/release":                 {summary: "End leases of a pool: their owners ask for others.", body: ReleaseLeases{}, answer: Released{}},
	"DELETE /api/v1/upstreams/{pool}/{upstream}":            {summary: "Remove an upstream. Requests under way finish.", answer: Upstream{}},
	"POST /api/v1/upstreams/{pool}/{upstream}/check":        {summary: "Ask for the pool's check URL through an upstream.", answer: Checked{}},
	"GET /api/v1/trace":                                     {summary: "This proxy's exchanges that fit, as they come: server-sent events of the type exchange, after the last ones that fit, or after Last-Event-ID; of the type lost where the reader was too slow.", query: []string{"client", "worker", "site", "session", "outcome", "host", "last"}, answer: stream{}},
	"GET /api/v1/version":                                   {summary: "The version of the proxy.", answer: versionAnswer{}},
	"GET /api/v1/workers":                                   {summary: "The workers that this proxy has seen last.", answer: Workers{}},
}

// Stand-ins for answers that no Go type describes.
type (
	stream        struct{}
	anything      struct{}
	versionAnswer struct {
		Version string `json:"version"`
	}
)

// TestOpenAPI holds the document that is served against the routes and the
// types that they take and answer with.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	d := document{map[string]any{}, map[string]reflect.Type{}}
	paths := map[string]map[string]any{}
	seen := map[string]bool{}
	for _, rt := range newRoad(t).routes {
		name := rt.method + " " + rt.pattern
		op, ok := operations[name]
		if !ok {
			t.Errorf("%s is not described", name)
			continue
		}
		seen[name] = true
		if paths[rt.pattern] == nil {
			paths[rt.pattern] = map[string]any{}
		}
		paths[rt.pattern][strings.ToLower(rt.method)] = d.operation(rt, op)
	}
	for name := range operations {
		if !seen[name] {
			t.Errorf("%s is described and no route", name)
		}
	}
	d.schema(reflect.TypeFor[audit.Event]())
	d.schema(reflect.TypeFor[Problem]())
	got, err := json.MarshalIndent(map[string]any{
		"openapi": "3.1.0",
		"info": map[string]any{
			"title": "sessionproxy", "version": "v1",
			"description": "The admin API. Errors are problems (RFC 9457) with a stable code; each answer has an X-Exchange-Id that the audit log names.",
		},
		"paths":    paths,
		"security": []any{map[string]any{"bearer": []string{}}, map[string]any{"cookie": []string{}}},
		"components": map[string]any{
			"schemas": d.schemas,
			"securitySchemes": map[string]any{
				"bearer": map[string]any{"type": "http", "scheme": "bearer", "description": "The admin token, or an operator's access token."},
				"cookie": map[string]any{"type": "apiKey", "in": "cookie", "name": cookieName},
			},
		},
	}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	got = append(got, '\n')
	if *update {
		if err := os.WriteFile("openapi.json", got, 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(got) != string(openAPI) {
		t.Error("openapi.json is not what the routes are: write it anew with -update")
	}
}

func outcomes() (all []string) {
	for _, o := range trace.Outcomes {
		all = append(all, string(o))
	}
	return all
}

// document gathers the schemas of types, by their names.
type document struct {
	schemas map[string]any
	types   map[string]reflect.Type
}

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (d document) operation(rt route, op operation) map[string]any {
	var parameters []any
	for _, m := range pathParameter.FindAllStringSubmatch(rt.pattern, -1) {
		parameters = append(parameters, map[string]any{"name": m[1], "in": "path", "required": true, "schema": text})
	}
	for _, q := range op.query {
		name, required := strings.CutSuffix(q, "!")
		parameters = append(parameters, map[string]any{"name": name, "in": "query", "required": required, "schema": text})
	}
	status := op.status
	if status == "" {
		status = "200"
	}
	success := map[string]any{"description": "Done."}
	switch answer := op.answer.(type) {
	case nil:
	case string:
		success["content"] = map[string]any{"*/*": map[string]any{"schema": text}}
	case stream:
		success["content"] = map[string]any{"text/event-stream": map[string]any{"schema": text}}
	default:
		success["content"] = map[string]any{"application/json": map[string]any{"schema": d.schema(reflect.TypeOf(answer))}}
	}
	o := map[string]any{
		"summary": op.summary,
		"responses": map[string]any{
			status: success,
			"default": map[string]any{"description": "A problem.", "content": map[string]any{
				"application/problem+json": map[string]any{"schema": d.schema(reflect.TypeFor[Problem]())}}},
		},
	}
	if parameters != nil {
		o["parameters"] = parameters
	}
	if op.body != nil {
		o["requestBody"] = map[string]any{"required": true, "content": map[string]any{
			"application/json": map[string]any{"schema": d.schema(reflect.TypeOf(op.body))}}}
	}
	if isOpen(rt.pattern) {
		o["security"] = []any{}
	}
	return o
}

var text = map[string]any{"type": "string"}

// words are the types whose values are few.
var words = map[reflect.Type][]string{
	reflect.TypeFor[config.Role]():   {string(config.RoleOperator), string(config.RoleViewer)},
	reflect.TypeFor[config.Auth]():   {string(config.AuthNone), string(config.AuthAsk)},
	reflect.TypeFor[config.Access](): {string(config.Write), string(config.Read)},
	reflect.TypeFor[SameSite]():      sameSites[:],
	reflect.TypeFor[SessionState]():  {string(Live), string(Empty), string(Revoked)},
	reflect.TypeFor[Result]():        {string(Set), string(Unchanged), string(Refused)},
	reflect.TypeFor[trace.Outcome](): outcomes(),
}

// schema describes a type as encoding/json writes it.
func (d document) schema(t reflect.Type) map[string]any {
	switch {
	case t == reflect.TypeFor[time.Time]():
		return map[string]any{"type": "string", "format": "date-time"}
	case t == reflect.TypeFor[anything]():
		return map[string]any{"type": "object"}
	case t == reflect.TypeFor[Bytes]():
		return map[string]any{"oneOf": []any{text, d.schema(reflect.TypeFor[encoded]())}}
	case words[t] != nil:
		return map[string]any{"type": "string", "enum": words[t]}
	}
	switch t.Kind() {
	case reflect.String:
		return text
	case reflect.Bool:
		return map[string]any{"type": "boolean"}
	case reflect.Int, reflect.Int64, reflect.Uint64:
		return map[string]any{"type": "integer"}
	case reflect.Float64:
		return map[string]any{"type": "number"}
	case reflect.Pointer:
		return d.schema(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return map[string]any{"type": "string", "contentEncoding": "base64"}
		}
		return map[string]any{"type": "array", "items": d.schema(t.Elem())}
	case reflect.Struct:
		if of, known := d.types[t.Name()]; known && of != t {
			panic(of.String() + " and " + t.String() + " can't both be the schema " + t.Name())
		} else if !known {
			d.types[t.Name()] = t // before its fields: it may hold itself
			properties, required := map[string]any{}, []string{}
			d.fields(t, properties, &required)
			slices.Sort(required)
			d.schemas[t.Name()] = map[string]any{"type": "object", "properties": properties, "required": required, "additionalProperties": false}
		}
		return map[string]any{"$ref": "#/components/schemas/" + t.Name()}
	}
	panic("no schema for " + t.String())
}

func (d document) fields(t reflect.Type, properties map[string]any, required *[]string) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			d.fields(f.Type, properties, required)
			continue
		}
		if name == "-" {
			continue
		}
		properties[name] = d.schema(f.Type)
		if options == "" {
			*required = append(*required, name)
		}
	}
}

// What the handlers answer fits the document: each field that comes is
// described, and each that is required comes.
func TestAnswersFitTheOpenAPIDocument(t *testing.T) {
	t.Parallel()
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
		Components struct{ Schemas map[string]map[string]any }
	}
	if err := json.Unmarshal(openAPI, &doc); err != nil {
		t.Fatal(err)
	}
	var fit func(at string, schema map[string]any, v any)
	fit = func(at string, schema map[string]any, v any) {
		if ref, ok := schema["$ref"].(string); ok {
			schema = doc.Components.Schemas[strings.TrimPrefix(ref, "#/components/schemas/")]
		}
		if forms, ok := schema["oneOf"].([]any); ok {
			if _, isText := v.(string); isText {
				fit(at, forms[0].(map[string]any), v)
			} else {
				fit(at, forms[1].(map[string]any), v)
			}
			return
		}
		switch schema["type"] {
		case "object":
			properties, _ := schema["properties"].(map[string]any)
			fields, ok := v.(map[string]any)
			if !ok {
				t.Errorf("%s is %T", at, v)
				return
			}
			for name, value := range fields {
				if property, ok := properties[name].(map[string]any); ok {
					fit(at+"."+name, property, value)
				} else if properties != nil {
					t.Errorf("%s.%s is not described", at, name)
				}
			}
			required, _ := schema["required"].([]any)
			for _, name := range required {
				if _, ok := fields[name.(string)]; !ok {
					t.Errorf("%s.%s is missing", at, name)
				}
			}
		case "array":
			items, ok := v.([]any)
			if !ok {
				t.Errorf("%s is %T, want a list", at, v)
			}
			for _, item := range items {
				fit(at+"[]", schema["items"].(map[string]any), item)
			}
		case "string":
			if s, ok := v.(string); !ok {
				t.Errorf("%s is %T, want a text", at, v)
			} else if enum, ok := schema["enum"].([]any); ok && !slices.Contains(enum, any(s)) {
				t.Errorf("%s is %q, want one of %v", at, s, enum)
			}
		case "boolean":
			if _, ok := v.(bool); !ok {
				t.Errorf("%s is %T, want a boolean", at, v)
			}
		case "number":
			if _, ok := v.(float64); !ok {
				t.Errorf("%s is %T, want a number", at, v)
			}
		case "integer":
			if n, ok := v.(float64); !ok || n != float64(int64(n)) {
				t.Errorf("%s is %v, want a whole number", at, v)
			}
		default:
			t.Errorf("%s has the schema %v", at, schema)
		}
	}
	g := newGuarded(t)
	g.put(t, "shop.test/qa1", "shop.test", "sid=1; Max-Age=60", "lang=de")
	in := g.login(t, "ana", anaPassword)
	leases, pool, _ := leasing(t, 1, "http://10.0.0.1:3128", "http://127.0.0.1:1")
	holding(t, pool, upstream.Worker("crawler", "w1"))
	g.trace.Add(aRecord(t))
	tried := map[string]bool{}
	for _, c := range []struct{ method, path, pattern, body string }{
		{"POST", "/api/v1/login", "", `{"name": "ana", "password": "` + anaPassword + `"}`},
		{"POST", "/api/v1/refresh", "", `{"refresh_token": "` + in.RefreshToken + `"}`},
		{"GET", "/api/v1/me", "", ""},
		{"GET", "/api/v1/devices", "", ""},
		{"POST", "/api/v1/access", "", `{"client": "crawler", "sites": ["shop"]}`},
		{"GET", "/api/v1/access", "", ""},
		{"GET", "/api/v1/clients", "", ""},
		{"GET", "/api/v1/config", "", ""},
		{"POST", "/api/v1/captcha/shop/tokens", "/api/v1/captcha/{site}/tokens", `{"token": "solved.elsewhere"}`},
		{"GET", "/api/v1/captcha/shop", "/api/v1/captcha/{site}", ""},
		{"DELETE", "/api/v1/captcha/shop/tokens", "/api/v1/captcha/{site}/tokens", ""},
		{"POST", "/api/v1/captcha/shop/warm", "/api/v1/captcha/{site}/warm", `{"tokens": 1}`},
		{"GET", "/api/v1/exchanges", "", ""},
		{"GET", "/api/v1/exchanges/a-1", "/api/v1/exchanges/{id}", ""},
		{"POST", "/api/v1/config/reload", "", ""},
		{"GET", "/api/v1/captcha", "", ""},
		{"GET", "/api/v1/logins", "", ""},
		{"GET", "/api/v1/overview", "", ""},
		{"GET", "/api/v1/explain?url=https://shop.test/&session=qa1", "/api/v1/explain", ""},
		{"GET", "/api/v1/openapi.json", "", ""},
		{"GET", "/api/v1/proxy", "", ""},
		{"GET", "/api/v1/sessions", "", ""},
		{"GET", "/api/v1/sessions/shop/qa1", "/api/v1/sessions/{site}/{session}", ""},
		{"PUT", "/api/v1/sessions/shop/qa1/cookies", "/api/v1/sessions/{site}/{session}/cookies", `{"set_cookie": "a=b"}`},
		{"DELETE", "/api/v1/sessions/shop/qa1/cookies?name=a", "/api/v1/sessions/{site}/{session}/cookies", ""},
		{"POST", "/api/v1/sessions/shop/qa1/cookies/import", "/api/v1/sessions/{site}/{session}/cookies/import", `{"cookies": [{"name": "b", "value": {"base64": "/w=="}, "domain": "shop.test", "path": "/"}, {"name": "", "value": "", "domain": "x", "path": ""}]}`},
		{"POST", "/api/v1/sessions/shop/qa1/cookies/export", "/api/v1/sessions/{site}/{session}/cookies/export", ""},
		{"POST", "/api/v1/sessions/shop/qa1/login", "/api/v1/sessions/{site}/{session}/login", ""},
		{"POST", "/api/v1/sessions/shop/qa1/revoke", "/api/v1/sessions/{site}/{session}/revoke", ""},
		{"DELETE", "/api/v1/sessions/shop/qa1", "/api/v1/sessions/{site}/{session}", ""},
		{"GET", "/api/v1/sites", "", ""},
		{"GET", "/api/v1/version", "", ""},
		{"GET", "/api/v1/workers", "", ""},
		{"DELETE", "/api/v1/operators/ana/devices", "/api/v1/operators/{name}/devices", ""},
		{"GET", "/api/v1/upstreams", "", ""},
		{"POST", "/api/v1/upstreams/eu", "/api/v1/upstreams/{pool}", `{"url": "http://10.0.0.3:3128"}`},
		{"POST", "/api/v1/upstreams/eu/127.0.0.1:1/check", "/api/v1/upstreams/{pool}/{upstream}/check", ""},
		{"POST", "/api/v1/upstreams/eu/release", "/api/v1/upstreams/{pool}/release", `{"owner": "worker:crawler/w1"}`},
		{"DELETE", "/api/v1/upstreams/eu/10.0.0.3:3128", "/api/v1/upstreams/{pool}/{upstream}", ""},
	} {
		api := http.Handler(g)
		if strings.HasPrefix(c.path, "/api/v1/upstreams") {
			api = leases
		}
		pattern := c.pattern
		if pattern == "" {
			pattern = c.path
		}
		tried[c.method+" "+pattern] = true
		w := ask(api, c.method, c.path, body(c.body))
		var status string
		responses := doc.Paths[pattern][strings.ToLower(c.method)].Responses
		for s := range responses {
			if s != "default" {
				status = s
			}
		}
		if got := w.Result().Status[:3]; got != status {
			t.Errorf("%s %s: %s %s, want %s", c.method, c.path, got, w.Body, status)
			continue
		}
		var v any
		if err := json.Unmarshal(w.Body.Bytes(), &v); err != nil {
			t.Errorf("%s %s: %v", c.method, c.path, err)
			continue
		}
		fit(c.method+" "+pattern, responses[status].Content["application/json"].Schema, v)
	}
	for name, op := range operations {
		switch op.answer.(type) {
		case nil, string, stream:
			continue
		}
		if !tried[name] {
			t.Errorf("the answer of %s is held against nothing", name)
		}
	}
	var problem any
	if err := json.Unmarshal(ask(g, "GET", "/api/v1/nothing").Body.Bytes(), &problem); err != nil {
		t.Fatal(err)
	}
	fit("a problem", doc.Components.Schemas["Problem"], problem)
}
