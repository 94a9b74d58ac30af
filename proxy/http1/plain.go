package http1

import (
	"bytes"
	"context"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// plain reads the head of a request that can be read in one way only, and that
// nothing follows: no body, no upgrade, no expectation. It returns its length
// too, or nil where head is anything else, or not all there; that is net/http's
// to read then, or to refuse.
//
// What it takes is what net/http's server makes of the same bytes.
func plain(ctx context.Context, head []byte) (r *http.Request, n int) {
	end := bytes.Index(head, endOfHead)
	if end < 0 {
		return nil, 0
	}
	n = end + len(endOfHead)
	text := string(head[:end+len("\r\n")]) // all strings of the request are parts of it
	line, fields, _ := strings.Cut(text, "\r\n")
	method, rest, _ := strings.Cut(line, " ")
	target, version, _ := strings.Cut(rest, " ")
	if version != "HTTP/1.1" || !bodiless(method) || target == "" || target[0] != '/' || strings.ContainsAny(target, "\r\n") {
		return nil, 0
	}
	header, host, ok := plainFields(fields)
	if !ok {
		return nil, 0
	}
	u, err := url.ParseRequestURI(target)
	if err != nil {
		return nil, 0
	}
	if header["Cache-Control"] == nil && len(header["Pragma"]) > 0 && header["Pragma"][0] == "no-cache" {
		header["Cache-Control"] = []string{"no-cache"} // RFC 9111 section 5.4, as net/http does
	}
	r = blank.WithContext(ctx)
	r.Method, r.URL, r.RequestURI = method, u, target
	r.Header, r.Host = header, host
	return r, n
}

var blank = &http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Body: http.NoBody}

var endOfHead = []byte("\r\n\r\n")

// bodiless says whether a request of this method has no body unless a field
// announces one, and origins know that.
func bodiless(method string) bool {
	return method == http.MethodGet || method == http.MethodHead || method == http.MethodOptions
}

// plainFields reads the lines of a head, each with its end. It reports false
// where one of them is not for it.
func plainFields(text string) (header http.Header, host string, ok bool) {
	count := strings.Count(text, "\n")
	header = make(http.Header, count)
	values := make([]string, count) // one array for all
	hosts := 0
	for text != "" {
		var line string
		line, text, _ = strings.Cut(text, "\r\n")
		name, value, found := strings.Cut(line, ":")
		if !found || !httpguts.ValidHeaderFieldName(name) { // a folded line has no valid name either
			return nil, "", false
		}
		value = strings.Trim(value, " \t")
		if !httpguts.ValidHeaderFieldValue(value) { // a lone CR or LF is in none
			return nil, "", false
		}
		switch name = textproto.CanonicalMIMEHeaderKey(name); name {
		case "Host":
			if hosts++; hosts > 1 || value == "" || !httpguts.ValidHostHeader(value) || strings.ContainsAny(value, "@/") {
				return nil, "", false
			}
			host = value
			continue
		case "Connection":
			if !strings.EqualFold(value, "keep-alive") {
				return nil, "", false
			}
		case "Content-Length", "Transfer-Encoding", "Trailer", "Te", "Upgrade", "Expect", "Http2-Settings":
			return nil, "", false
		}
		if have := header[name]; have != nil {
			header[name] = append(have, value)
			continue
		}
		values[0] = value
		header[name], values = values[:1:1], values[1:]
	}
	return header, host, hosts == 1
}
