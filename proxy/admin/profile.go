package admin

import (
	"fmt"
	"net/http"
	"net/http/pprof" // it adds itself to http.DefaultServeMux, which nothing here serves
	"slices"
	"strings"
)

// profiles are what a process can tell of itself: those of runtime/pprof, and
// two that watch it for a while. The command line is not among them, since it
// may hold the password of the store.
var profiles = []string{"allocs", "block", "goroutine", "heap", "mutex", "profile", "threadcreate", "trace"}

// profile is GET /debug/pprof/{profile}, as "go tool pprof" and "go tool trace"
// read it.
func (s *server) profile(w http.ResponseWriter, r *http.Request) {
	c, name := callOf(r.Context()), r.PathValue("profile")
	c.worth = true // it shows the process from inside
	operatorOnly(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(profiles, name) {
			problem{http.StatusNotFound, "unknown_profile", fmt.Sprintf("There is no profile of that name. There are: %s.", strings.Join(profiles, ", "))}.write(w)
			return
		}
		c.target = name
		switch name {
		case "profile":
			pprof.Profile(w, r)
		case "trace":
			pprof.Trace(w, r)
		default:
			pprof.Handler(name).ServeHTTP(w, r)
		}
	})(w, r)
}
