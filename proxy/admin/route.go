package admin

import (
	"maps"
	"net/http"
	"slices"
	"strings"
)

// route is one method of one path.
type route struct {
	method  string
	pattern string // a path, as http.ServeMux reads it
	serve   http.HandlerFunc
}

// newMux serves routes, and a problem for whatever is none. The mux is given
// no methods, since its own 404 and 405 are of another form.
func newMux(routes []route) *http.ServeMux {
	resources := map[string]resource{"/": nil}
	for _, r := range routes {
		if resources[r.pattern] == nil {
			resources[r.pattern] = resource{}
		}
		resources[r.pattern][r.method] = r.serve
	}
	mux := http.NewServeMux()
	for pattern, res := range resources {
		mux.Handle(pattern, res)
	}
	return mux
}

// resource is what a path offers, by method. One that offers nothing is not
// there.
type resource map[string]http.HandlerFunc

func (res resource) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	method := r.Method
	if method == http.MethodHead {
		method = http.MethodGet // net/http cuts the body
	}
	switch serve := res[method]; {
	case serve != nil:
		serve(w, r)
	case len(res) == 0:
		problem{http.StatusNotFound, "not_found", "There is nothing under this path. Check its spelling."}.write(w)
	default:
		allowed := res.allowed()
		w.Header().Set("Allow", allowed) // RFC 9110 section 15.5.6
		problem{http.StatusMethodNotAllowed, "method_not_allowed", "This path does not take that method. Use " + allowed + "."}.write(w)
	}
}

func (res resource) allowed() string {
	methods := slices.Collect(maps.Keys(res))
	if res[http.MethodGet] != nil {
		methods = append(methods, http.MethodHead)
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}
