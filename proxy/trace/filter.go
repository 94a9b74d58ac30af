package trace

import (
	"strings"

	"github.com/sessionproxy/sessionproxy/session"
)

// Filter says which exchanges somebody wants to see: those that have all that it
// names. The zero Filter lets all pass.
type Filter struct {
	Client, Worker, Site, Session string

	Outcome Outcome
	Host    string // a glob: *.example.com
}

func (f *Filter) fits(r *Record) bool {
	is := func(want, have string) bool { return want == "" || want == have }
	return is(f.Client, r.Client) && is(f.Worker, r.Worker) && is(f.Site, r.Site) &&
		is(f.Session, r.Session) && (f.Outcome == "" || f.Outcome == r.Outcome) &&
		(f.Host == "" || session.Glob(strings.ToLower(f.Host), r.Host))
}
