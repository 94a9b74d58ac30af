package captchaai

import (
	"encoding/json"
	"strings"
	"time"
)

// Result is a solved task.
type Result struct {
	// Text is the answer as one string: a token, an image's text, or as the
	// service wrote it where it has Fields too.
	Text string
	// Fields are the parts of an answer that has several: those of GeeTest
	// (geetest_challenge, geetest_validate, geetest_seccode), of a
	// Cloudflare challenge (the cookie cf_clearance) and of Lemin.
	Fields map[string]string
	// UserAgent is the one that the answer is bound to, "" where none is.
	UserAgent string
	// Issued is when the task was last seen unsolved.
	Issued time.Time
}

// resultOf reads the answer to a task of the given method.
func resultOf(method string, r reply) (Result, bool) {
	res := Result{Text: r.text, UserAgent: r.userAgent}
	switch method {
	case GeeTest, GeeTestV4, CloudflareChallenge, Lemin:
		res.Fields = fieldsOf(r)
		if res.Text == "" {
			res.Text = string(r.value)
		}
	}
	switch method {
	case GeeTest:
		prefixed(res.Fields, "geetest_", "challenge", "validate", "seccode")
	case CloudflareChallenge:
		cloudflare(&res)
	}
	return res, res.Text != ""
}

// fieldsOf reads an object, an object inside a string, or name:value and
// name=value pairs that commas or semicolons part: the service's documents
// show all of them.
func fieldsOf(r reply) map[string]string {
	fields := map[string]string{}
	object := r.value
	if strings.HasPrefix(r.text, "{") {
		object = json.RawMessage(r.text)
	}
	if len(object) > 0 && object[0] == '{' {
		flatten(fields, object, 2)
		return fields
	}
	for _, pair := range strings.FieldsFunc(r.text, func(c rune) bool { return c == ',' || c == ';' }) {
		if i := strings.IndexAny(pair, ":="); i > 0 {
			fields[strings.TrimSpace(pair[:i])] = strings.TrimSpace(pair[i+1:])
		}
	}
	return fields
}

// flatten takes the scalars of an object, and of objects in it to some depth.
func flatten(fields map[string]string, object json.RawMessage, depth int) {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return
	}
	for name, raw := range all {
		if len(raw) > 0 && raw[0] == '{' && depth > 0 {
			flatten(fields, raw, depth-1)
		} else if s := scalar(raw); s != "" {
			fields[name] = s
		}
	}
}

func prefixed(fields map[string]string, prefix string, names ...string) {
	for _, name := range names {
		if v, ok := fields[name]; ok {
			delete(fields, name)
			fields[prefix+name] = v
		}
	}
}

// cloudflare tells the cookie from the User-Agent that it is bound to.
func cloudflare(res *Result) {
	for _, name := range []string{"user_agent", "userAgent", "useragent"} {
		if ua := res.Fields[name]; ua != "" {
			res.UserAgent = ua
			delete(res.Fields, name)
		}
	}
	if i := strings.Index(res.Text, "user_agent="); i >= 0 {
		// A User-Agent holds semicolons itself, so it goes on to the end.
		res.UserAgent = res.Text[i+len("user_agent="):]
		for name := range res.Fields {
			if name != "cf_clearance" {
				delete(res.Fields, name)
			}
		}
	}
	if res.Fields["cf_clearance"] == "" && res.Text != "" {
		res.Fields = map[string]string{"cf_clearance": res.Text} // the value alone
	}
}
