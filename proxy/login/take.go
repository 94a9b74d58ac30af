package login

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"
)

// take is one value to take from a step's reply.
type take struct {
	name string
	kind string // "header", "cookie", "json"; "" a selector
	arg  string
	css  cascadia.SelectorGroup
}

func newTake(name, from string) take {
	kind, arg, _ := strings.Cut(from, ":")
	switch kind {
	case "header", "cookie", "json":
		return take{name: name, kind: kind, arg: arg}
	}
	css, err := cascadia.ParseGroup(from)
	if err != nil {
		css = nil // a fault of the configuration, which is not loaded then
	}
	return take{name: name, arg: from, css: css}
}

// of takes the value from a reply, its body and the cookies that the browser
// then has.
func (t take) of(resp *http.Response, body []byte, cookie func(name string) (string, bool)) (string, error) {
	switch t.kind {
	case "header":
		if v := resp.Header.Get(t.arg); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("take %s: the reply has no field %s", t.name, t.arg)
	case "cookie":
		v, ok := cookie(t.arg)
		if !ok {
			return "", fmt.Errorf("take %s: no cookie %s is set", t.name, t.arg)
		}
		// As the site's own scripts read it, who send it back in a field.
		if plain, err := url.PathUnescape(v); err == nil {
			return plain, nil
		}
		return v, nil
	case "json":
		v, err := jsonAt(body, t.arg)
		if err != nil {
			return "", fmt.Errorf("take %s: %w", t.name, err)
		}
		return v, nil
	}
	page, err := html.Parse(bytes.NewReader(body))
	if err != nil {
		return "", fmt.Errorf("take %s: read the page: %w", t.name, err)
	}
	n := cascadia.Query(page, t.css)
	if n == nil {
		return "", fmt.Errorf("take %s: no element of the page matches %s", t.name, t.arg)
	}
	return valueOf(n, resp.Request.URL), nil
}

// valueOf is what an element is for: a field's value, a meta element's content,
// where a form or a link goes, else its text.
func valueOf(n *html.Node, page *url.URL) string {
	for _, name := range []string{"value", "content", "action", "href"} {
		for _, a := range n.Attr {
			if a.Key != name {
				continue
			}
			if name == "action" || name == "href" {
				if u, err := page.Parse(a.Val); err == nil {
					return u.String()
				}
			}
			return a.Val
		}
	}
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return strings.TrimSpace(b.String())
}

var errNoJSON = errors.New("the reply is no JSON")

// jsonAt finds data.items.0.token in a document.
func jsonAt(body []byte, path string) (string, error) {
	var v any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return "", errNoJSON
	}
	for name := range strings.SplitSeq(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[name]
		case []any:
			v = nil
			if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(in) {
				v = in[i]
			}
		default:
			v = nil
		}
	}
	switch v := v.(type) {
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case bool:
		return strconv.FormatBool(v), nil
	}
	return "", fmt.Errorf("the reply's JSON has no text or number at %s", path)
}
