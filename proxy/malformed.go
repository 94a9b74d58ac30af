package proxy

import (
	"net/http"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// malformed refuses what net/http lets pass and an origin might read in another
// way. HTTP/2 has no delimiters that would keep a space out of a method or a
// path (RFC 9113 section 8.3.1), and a request in a tunnel may still name a
// whole URL (RFC 9112 section 3.2.2).
func malformed(r *http.Request) *refusal {
	switch u := r.URL; {
	case !httpguts.ValidHeaderFieldName(r.Method): // the same grammar: a token
		return malformedRequest("The method is no token.")
	case strings.ContainsAny(r.RequestURI, " \t"):
		return malformedRequest("There is a space in the request's target.")
	case u.Scheme != "" && u.Scheme != "http" && u.Scheme != "https", u.Opaque != "", u.User != nil:
		return badTarget("The request's target is no path, and no http or https URL without a user name.")
	case r.ProtoMajor == 2 && u.Scheme != "", u.Path == "*" && r.Method != http.MethodOptions:
		return badTarget("The request's target is no path.")
	case r.ProtoMajor == 2 && !oneLength(r.Header["Content-Length"]): // HTTP/1.1's are judged as they come
		return malformedRequest("It has more than one Content-Length, or one that is no number.")
	case len(r.Header["Host"]) > 1, len(r.Header["Host"]) == 1 && r.Header["Host"][0] != r.Host:
		return malformedRequest("The Host field and :authority differ.")
	}
	return nil
}

func malformedRequest(public string) *refusal {
	return refuse(http.StatusBadRequest, "http_request_error", "malformed", public)
}

func oneLength(values []string) bool {
	return len(values) == 0 || len(values) == 1 && values[0] != "" && strings.Trim(values[0], "0123456789") == ""
}
